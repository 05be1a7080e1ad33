"""Mistakes of a user: exit code 2, one line that says what, where and what to do, and nothing half-written."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
from train_support import LENET, MLP, PROGRAM, SGD, call, read_trace, run, tensors, write_spec

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    spec = write_spec(folder / "spec.json", LENET, SGD)
    run("train", spec, "-o", folder / "base.h5", "--steps", 2)
    return folder / "base.h5"


def refused(*arguments: object, words: list[str], code: int = 2, **more: object) -> None:
    done = call(*arguments, **more)
    assert done.returncode == code, (done.returncode, done.stderr)
    lines = [line for line in done.stderr.splitlines() if ": info: " not in line]
    assert len(lines) == 1 and lines[0].startswith("bitrift-train: error: "), done.stderr
    for word in words:
        assert word in lines[0], (word, lines[0])
    assert done.stdout == ""


def test_mistakes_in_the_call(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    spec = base.parent / "spec.json"
    refused("train", spec, words=["--output"])
    refused("train", tmp_path / "no.json", "-o", out, words=["no.json"])
    campaign = base.parent / "campaign.json"
    campaign.write_text(json.dumps({"name": "x", "seed": 1, "base": {}, "arms": []}))
    refused("train", campaign, "-o", out, words=["is a campaign spec", "bitrift campaign run"])
    refused("train", spec, "-o", tmp_path / "no" / "out.h5", words=["no"])
    refused("train", spec, "-o", out, "--trace", tmp_path, words=[str(tmp_path), "folder"])
    refused("train", spec, "-o", out, "--steps", -1, words=["--steps"])
    refused("train", spec, "-o", out, "--epochs", -3, words=["--epochs: expected a whole number from 0", "found '-3'"])
    refused("train", spec, "-o", out, "--steps", 1, "--epochs", 1, words=["--steps"])
    refused("train", spec, "-o", out, "--parallel", "data", words=["--ranks"])
    refused("train", spec, "-o", out, "--parallel", "data", "--ranks", 3, words=["64", "3"])
    refused("train", spec, "-o", out, "--parallel", "pipeline", "--ranks", 6, words=["6 stages", "5"])
    refused("train", spec, "-o", out, "--ranks", 2, words=["serial"])
    refused("train", spec, "-o", out, "--micro-batches", 7, words=["7"])
    refused("train", spec, "-o", out, "--trace", tmp_path / "no" / "t", words=["no"])
    refused("frobnicate", words=["subcommand"])
    assert list(tmp_path.iterdir()) == []


def test_progress_that_is_no_integer(base: Path, tmp_path: Path) -> None:
    """Also where it is read before the whole file is: with another batch size."""
    for values in (np.zeros(2, np.int64), np.zeros((), np.int32)):
        copy = tmp_path / "copy.h5"
        shutil.copy(base, copy)
        with h5py.File(copy, "r+") as file:
            del file["progress/epoch"]
            file["progress/epoch"] = values
        for options in ((), ("--batch-size", 32)):
            refused("resume", copy, "-o", tmp_path / "out.h5", *options, words=["copy.h5", "progress/epoch"])
    assert [path.name for path in tmp_path.iterdir()] == ["copy.h5"]


def test_mistakes_in_the_spec(tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    for name, changes, words in [
        ("unknown", {"bogus": 1}, ["bogus"]),
        ("type", {"batch_size": "many"}, ["batch_size"]),
        ("batch", {"batch_size": 2000}, ["2000", "1437"]),
        ("folder", {"data": {"name": "idx", "path": "/nowhere"}}, ["/nowhere/train-", "data.path"]),
    ]:
        spec = write_spec(tmp_path / f"{name}.json", LENET, SGD, **changes)
        refused("train", spec, "-o", out, words=words)
    elsewhere = os.environ | {"BITRIFT_DATA_DIR": "/nowhere"}
    refused("train", tmp_path / "batch.json", "-o", out, words=["/nowhere/digits", "BITRIFT_DATA_DIR"], env=elsewhere)
    assert not out.exists()


def test_damaged_checkpoints(base: Path, tmp_path: Path) -> None:
    refused("resume", tmp_path / "no.h5", words=["no.h5"])
    (tmp_path / "text.h5").write_text("no HDF5 at all\n" * 100)
    refused("resume", tmp_path / "text.h5", words=["text.h5", "HDF5"])
    (tmp_path / "torn.h5").write_bytes(base.read_bytes()[: base.stat().st_size // 2])
    refused("resume", tmp_path / "torn.h5", words=["torn.h5"])
    with h5py.File(tmp_path / "foreign.h5", "w") as file:
        file["x"] = np.zeros(3)
    refused("resume", tmp_path / "foreign.h5", words=["foreign.h5", "bitrift/checkpoint/1"])

    def spoil(name: str, work: object) -> Path:
        path = Path(shutil.copy(base, tmp_path / name))
        with h5py.File(path, "r+") as file:
            work(file)
        return path

    def retype(file: h5py.File) -> None:
        value = file["model/fc1.bias"][()]
        del file["model/fc1.bias"]
        file["model/fc1.bias"] = value.astype(np.float64)

    def reshape(file: h5py.File) -> None:
        del file["model/fc1.bias"]
        file["model/fc1.bias"] = np.zeros(119, np.float32)

    def drop(file: h5py.File) -> None:
        del file["optimizer/momentum_buffer/fc1.bias"]

    def add(file: h5py.File) -> None:
        file["model/fc9.bias"] = np.zeros(2, np.float32)

    for name, work, words in [
        ("type.h5", retype, ["model/fc1.bias", "float64 [120]", "float32 [120]"]),
        ("shape.h5", reshape, ["model/fc1.bias", "float32 [119]", "float32 [120]"]),
        ("drop.h5", drop, ["optimizer/momentum_buffer/fc1.bias", "missing"]),
        ("add.h5", add, ["model/fc9.bias"]),
    ]:
        path = spoil(name, work)
        refused("resume", path, words=[name, *words])
        if name == "type.h5":
            refused("resume", path, "--parallel", "data", "--ranks", 2, words=words)


def test_a_full_disk_leaves_nothing(base: Path, tmp_path: Path) -> None:
    spec = base.parent / "spec.json"

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    refused("train", spec, "-o", tmp_path / "out.h5", "--steps", 1, words=["out.h5"], preexec_fn=small_files)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [("--version",), ("--help",), ("describe", str(ROOT / "campaigns/train-jargon-gpt.json"))],
    ids=lambda words: words[0],
)
def test_output_that_cannot_be_printed_is_an_error(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "bitrift-train: error: cannot write to standard output\n")


def test_a_nonfinite_loss_ends_with_exit_code_1_and_saves_nothing(base: Path, tmp_path: Path) -> None:
    bad = Path(shutil.copy(base, tmp_path / "bad.h5"))
    with h5py.File(bad, "r+") as file:
        file["model/fc2.bias"][0] = np.nan
    for options in ([], ["--parallel", "data", "--ranks", "2"]):
        done = call("resume", bad, "-o", tmp_path / "out.h5", "--json", *options)
        assert done.returncode == 1
        assert json.loads(done.stdout)["status"] == "nonfinite"
        errors = [line for line in done.stderr.splitlines() if ": error: " in line]
        assert len(errors) == 1 and "nothing was saved" in errors[0], done.stderr
        assert not (tmp_path / "out.h5").exists()


def test_results_are_the_same_in_table_json_trace_and_file(base: Path, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.json", MLP, SGD)
    trace = tmp_path / "t.jsonl"
    result = run("train", spec, "-o", tmp_path / "a.h5", "--trace", trace)
    table = call("train", spec, "-o", tmp_path / "b.h5").stdout
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
    header, steps, evaluations = read_trace(trace)
    assert header["schema"] == "bitrift/trace/1" and evaluations == result["replicas"][0]
    assert steps[-1]["loss"] == result["last_loss"] and steps[-1]["digest"] == result["final_digest"]
    assert result["final_digest"] in table and f"{evaluations[0]['test_loss']:.6f}" in table
    losses = [float.fromhex(step["loss"]) for step in steps]
    assert [e["train_loss"] for e in evaluations] == [sum(losses[:22]) / 22, sum(losses[22:]) / 22]
    assert evaluations[1]["train_accuracy"] > evaluations[0]["train_accuracy"]
    saved = tensors(tmp_path / "a.h5")
    assert saved["progress/epoch"] == 2 and saved["progress/cursor"] == 0 and saved["progress/step"] == 44
    assert saved["progress/epoch_loss_sum"] == 0 and saved["progress/epoch_correct"] == 0
    assert saved["model/bn1.num_batches_tracked"] == 44
    beside = json.loads((tmp_path / "a.h5.json").read_text())
    assert beside["parallel"]["kind"] == "serial" and beside["command"][0] == "bitrift-train"


def test_the_state_digest_can_be_computed_outside(base: Path, tmp_path: Path) -> None:
    import xxhash

    result = run("resume", base, "--steps", 1, "-o", tmp_path / "a.h5")
    lines = []
    for path, value in sorted(tensors(tmp_path / "a.h5").items(), key=lambda item: item[0].encode()):
        shape = ",".join(map(str, value.shape))
        lines.append(f"{path}\t{value.dtype.name}\t{shape}\t{xxhash.xxh3_128_hexdigest(value.tobytes())}\n")
    assert result["final_digest"] == xxhash.xxh3_128_hexdigest("".join(lines).encode())


def test_folders_are_removed_by_the_systems_library(tmp_path: Path) -> None:
    """LibTorch exports a std::filesystem of its own; with LibTorch for CUDA, its remove_all() calls address 0."""
    spec = write_spec(tmp_path / "spec.json", LENET, SGD)
    environment = os.environ | {"LD_DEBUG": "bindings", "LD_BIND_NOW": "1"}
    done = subprocess.run(
        [PROGRAM, "describe", spec], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    bindings = [line for line in done.stderr.splitlines() if f"binding file {PROGRAM} " in line]
    places = {line.split(" to ")[1].split()[0] for line in bindings if "St10filesystem" in line}
    assert places
    assert not [place for place in places if "torch" in Path(place).name], places
