"""Checkpoints in every format: read by the format's own library, equal in all processes, resumed to the bit."""

from __future__ import annotations

import json
import subprocess
import time
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from failure_support import LAYOUTS, Bases, digest, fail_ranks
from format_support import (
    COMPRESSED,
    FORMATS,
    WITHOUT_BFLOAT16,
    file_of,
    read_all,
    read_native,
    state_digest,
)
from train_support import ADAM, LENET, MLP, PROGRAM, SGD, STRATEGIES, call, read_trace, run, write_spec

BITRIFT = PROGRAM.with_name("bitrift")
OTHERS = [kind for kind in FORMATS if kind != "hdf5"]
HOROVOD = ("--parallel", "data", "--ranks", "3", "--semantics", "horovod")
# Momentum and batch normalization, replicas that differ, Adam, narrow and wide numbers. Several ranks save through the
# same code as one: of their formats, some.
TASKS: dict[str, tuple[dict, dict, dict[str, Any], tuple[str, ...], list[str]]] = {
    "sgd": (LENET, SGD, {}, (), OTHERS),
    "horovod": (MLP, SGD, {"batch_size": 48}, HOROVOD, ["pytorch", "npz-deflate"]),
    "pipeline": (
        MLP,
        ADAM,
        {"schedule": {"name": "cosine", "warmup_steps": 15}},
        tuple(STRATEGIES["pipeline2"]),
        ["safetensors", "hdf5-deflate"],
    ),
    "bf16": (MLP, ADAM, {"precision": "bf16"}, (), [kind for kind in OTHERS if kind not in WITHOUT_BFLOAT16]),
    "fp64": (LENET, ADAM, {"precision": "fp64"}, tuple(STRATEGIES["data2"]), ["npz", "pytorch"]),
}


def same(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        other = second[name]
        assert (value.dtype, value.shape) == (other.dtype, other.shape), name
        assert value.tobytes() == other.tobytes(), name


def losses(trace: Path) -> list[str]:
    return [step["loss"] for step in read_trace(trace)[1]]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Bases:
    return Bases(tmp_path_factory.mktemp("bases"))


@pytest.mark.parametrize("task", TASKS)
def test_every_format_holds_the_same_state_and_continues_with_the_same_bits(tmp_path: Path, task: str) -> None:
    model, optimizer, changes, options, kinds = TASKS[task]
    spec = write_spec(tmp_path / "spec.json", model, optimizer, **changes)
    expected = tmp_path / "hdf5.h5"
    base = run("train", spec, "-o", expected, "--steps", 5, *options)
    onward = run(
        "resume", expected, "-o", tmp_path / "end.h5", "--steps", 6, "--trace", tmp_path / "hdf5.trace", *options
    )
    wanted, texts, _ = read_all(expected)
    assert any(name.startswith("replica/") for name in wanted) == (task == "horovod")
    assert state_digest(expected) == base["final_digest"]
    for kind in kinds:
        file, trace = file_of(tmp_path, kind, kind), tmp_path / f"{kind}.trace"
        # From the HDF5 file, so that every format is asked for the same state.
        run("resume", expected, "-o", file, "--steps", 0, *options, *FORMATS[kind][1])
        found, found_texts, _ = read_all(file)
        same(found, wanted)
        assert found_texts == texts, kind
        assert state_digest(file) == base["final_digest"], kind
        rest = run("resume", file, "-o", tmp_path / "rest.h5", "--steps", 6, "--trace", trace, *options)
        assert rest["final_digest"] == onward["final_digest"], kind
        assert rest["replica_digests"] == onward["replica_digests"], kind
        assert losses(trace) == losses(tmp_path / "hdf5.trace"), kind
        assert digest(tmp_path / "rest.h5") == digest(tmp_path / "end.h5"), kind


@pytest.mark.parametrize("kind", FORMATS)
def test_processes_names_modes_and_writers_make_no_difference(tmp_path: Path, kind: str) -> None:
    spec = write_spec(tmp_path / "spec.json", MLP, SGD, batch_size=48)
    options = FORMATS[kind][1]
    first, second = file_of(tmp_path, "first", kind), file_of(tmp_path, "another-name", kind)
    run("train", spec, "-o", first, "--steps", 5, *options)
    time.sleep(2.1)  # zip archives count time in steps of two seconds
    run("train", spec, "-o", second, "--steps", 5, *options)
    assert digest(first) == digest(second)
    behind = ("--checkpoint-every", 1, "--checkpoint-mode", "async")
    run("train", spec, "-o", second, "--steps", 5, *options, *behind)
    assert digest(first) == digest(second)
    shared = file_of(tmp_path, "shared", kind)
    for layout in ("hybrid", "horovod"):
        words = ("train", spec, "--steps", 3, "--checkpoint-every", 2, *options, *LAYOUTS.get(layout, HOROVOD))
        run(*words, "-o", first)
        if kind in COMPRESSED:
            break
        run(*words, "-o", shared, "--checkpoint-writer", "shared")
        assert digest(first) == digest(shared), layout


@pytest.mark.parametrize("kind", FORMATS)
def test_saves_behind_a_run_leave_the_file_of_their_step(tmp_path: Path, kind: str) -> None:
    """A run that is cut off leaves a checkpoint that was written in the background."""
    spec = write_spec(tmp_path / "spec.json", LENET, ADAM)
    file, options = file_of(tmp_path, "a", kind), FORMATS[kind][1]
    words = ("--on-failure", "none", "--checkpoint-every", 2, "--checkpoint-mode", "async")
    ended = fail_ranks("train", spec, "-o", file, *words, *options, "--steps", 9, "--kill", "0@9:forward")
    assert ended.code != 0 and not ended.hangs
    step = int(read_native(file)["progress/step"])
    assert step in (6, 8)
    run("train", spec, "-o", file_of(tmp_path, "b", kind), "--steps", step, *options)
    assert digest(file) == digest(file_of(tmp_path, "b", kind))


def test_the_native_objects_are_what_their_users_expect(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.json", MLP, SGD, precision="fp16")
    for kind in ("pytorch", "npz", "hdf5-deflate"):
        run("train", spec, "-o", file_of(tmp_path, "a", kind), "--steps", 2, *FORMATS[kind][1])
    packed = file_of(tmp_path, "packed", "npz-deflate")
    run("resume", tmp_path / "a.npz", "-o", packed, "--steps", 0, *FORMATS["npz-deflate"][1])
    tree = torch.load(tmp_path / "a.pt", weights_only=True)
    assert list(tree) == ["model", "optimizer", "progress", "rng", "schema", "spec", "versions"]
    assert tree["progress"]["step"].item() == 2 and tree["progress"]["step"].shape == ()
    assert tree["model"]["fc1.weight"].dtype == torch.float16
    state = {name: torch.zeros_like(value) for name, value in tree["model"].items()}
    module = torch.nn.Module()
    for name, value in state.items():
        holder = module
        *path, last = name.split(".")
        for part in path:
            if not hasattr(holder, part):
                holder.add_module(part, torch.nn.Module())
            holder = getattr(holder, part)
        holder.register_buffer(last, value)
    module.load_state_dict(tree["model"])
    assert all(torch.equal(value, tree["model"][name]) for name, value in module.state_dict().items())
    assert json.loads(tree["spec"]) == json.loads(spec.read_text()) | json.loads(tree["spec"])
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        assert arrays["@schema"].item() == "bitrift/checkpoint/1" and arrays["@schema"].shape == ()
        assert arrays["model/fc1.weight"].dtype == np.float16
    for name in ("a.pt", "a.npz"):
        with zipfile.ZipFile(tmp_path / name) as archive:
            assert archive.testzip() is None
    with zipfile.ZipFile(packed) as archive:
        for member in archive.infolist():
            stored = zipfile.ZIP_STORED if member.filename.startswith("@") else zipfile.ZIP_DEFLATED
            assert member.compress_type == stored, member.filename
    with h5py.File(tmp_path / "a.h5") as file:
        weight = file["model/fc1.weight"]
        assert (weight.compression, weight.compression_opts, weight.shuffle) == ("gzip", 4, True)


def test_files_are_hardly_larger_than_their_tensors(tmp_path: Path) -> None:
    """Formats that do not compress add at most 0.1 % above 30 MB; compressed files are smaller."""
    # Without momentum, there are the fewest bytes of values for each tensor.
    plain = {"name": "sgd", "learning_rate": 0.001}
    spec = write_spec(tmp_path / "spec.json", {"name": "resnet18"}, plain, batch_size=8)
    sizes = {}
    base = tmp_path / "base.h5"
    run("train", spec, "-o", base, "--steps", 1)
    for kind, (_, options) in (FORMATS | {"raw": ("raw", ("--format", "raw"))}).items():
        file = tmp_path / f"{kind}.{FORMATS.get(kind, ('raw',))[0]}"
        run("resume", base, "-o", file, "--steps", 0, *options)
        sizes[kind] = file.stat().st_size
    held = sum(value.nbytes for value in read_native(tmp_path / "hdf5.h5").values())
    assert held > 30e6 and sizes["raw"] == held
    for kind, size in sizes.items():
        assert size < held if kind in COMPRESSED else held <= size <= 1.001 * held, (kind, size, held)


@pytest.mark.parametrize("kind", OTHERS)
def test_injected_files_stay_readable_and_undo_brings_them_back(tmp_path: Path, kind: str) -> None:
    def bitrift(*words: object) -> None:
        done = subprocess.run([BITRIFT, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr

    spec = write_spec(tmp_path / "spec.json", MLP, ADAM)
    file = file_of(tmp_path, "a", kind)
    result = run("train", spec, "-o", file, "--steps", 3, *FORMATS[kind][1])
    before, whole = read_native(file), digest(file)
    for seed in range(5):
        bitrift("inject", file, "--in-place", "--count", 20, "--seed", seed)
        after = read_native(file)
        differing = [name for name in before if before[name].tobytes() != after[name].tobytes()]
        assert differing and after.keys() == before.keys()
        assert state_digest(file) != result["final_digest"]
        bitrift("undo", file)
        assert digest(file) == whole
    bitrift("inject", file, "--in-place", "--tensor", "model/fc1.weight", "--element", 3, "--bits", 20)
    altered = read_native(file)["model/fc1.weight"]
    places = np.argwhere(altered != before["model/fc1.weight"])
    assert places.tolist() == [list(np.unravel_index(3, altered.shape))]
    loaded = run("resume", file, "-o", tmp_path / "b.h5", "--steps", 0)
    assert read_native(tmp_path / "b.h5")["model/fc1.weight"].tobytes() == altered.tobytes()
    assert loaded["final_digest"] == state_digest(file)


def test_jobs_that_lose_a_rank_continue_from_files_of_other_formats(bases: Bases, tmp_path: Path) -> None:
    golden = bases.golden("adamw", "data")
    for kind in ("safetensors", "npz-deflate"):
        out = file_of(tmp_path, kind, kind)
        words = ("--checkpoint-every", 3, *FORMATS[kind][1])
        ended = bases.fail("adamw", "data", out, "--on-failure", "relaunch", *words, "--kill", "1@8:update")
        assert len(ended.json()["recoveries"]) == 1, kind
        run("resume", out, "-o", tmp_path / "end.h5", "--steps", 0)
        assert digest(tmp_path / "end.h5") == golden, kind
    for kind in ("pytorch", "hdf5-deflate"):
        out = file_of(tmp_path, f"in-place-{kind}", kind)
        words = ("--state-from", "file", "--checkpoint-every", 3, *FORMATS[kind][1])
        ended = bases.fail("adamw", "data", out, "--on-failure", "respawn", *words, "--kill", "1@8:update")
        assert len(ended.json()["recoveries"]) == 1, kind
        run("resume", out, "-o", tmp_path / "end.h5", "--steps", 0)
        assert digest(tmp_path / "end.h5") == golden, kind


def test_a_folder_keeps_compressed_files_too(tmp_path: Path) -> None:
    spec, folder = write_spec(tmp_path / "spec.json", LENET, ADAM), tmp_path / "run"
    packed = ("--format", "hdf5-deflate", "--checkpoint-every", 2)
    run("train", spec, "-o", f"{folder}/", "--steps", 5, *packed)
    newest = folder / "step-0000000005.h5"
    with h5py.File(newest) as file:
        assert file["model/fc1.weight"].compression == "gzip"
    damaged = bytearray(newest.read_bytes())
    with h5py.File(newest) as file:
        chunk = file["model/fc1.weight"].id.get_chunk_info(0)
    damaged[chunk.byte_offset + chunk.size // 2] ^= 1
    newest.write_bytes(damaged)
    rest = run("resume", folder, "-o", tmp_path / "end.h5", "--steps", 2)  # from step 4
    run("train", spec, "-o", tmp_path / "six.h5", "--steps", 6)
    assert digest(tmp_path / "end.h5") == digest(tmp_path / "six.h5")
    assert rest["steps"] == 2


def refused(words: str, *arguments: object) -> None:
    done = call(*arguments)
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_what_a_format_cannot_do_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.json", LENET, ADAM, precision="bf16")
    left = {"spec.json", "a.h5", "a.h5.json"}
    run("train", spec, "-o", tmp_path / "a.h5", "--steps", 2)
    words = "precision bf16: npz cannot hold bfloat16; choose hdf5, safetensors or pytorch"
    refused(words, "train", spec, "-o", tmp_path / "b.npz")
    refused(words, "resume", tmp_path / "a.h5", "-o", tmp_path / "b.npz")
    refused(words.replace("npz", "npz-deflate"), "train", spec, "-o", tmp_path / "b.h5", "--format", "npz-deflate")
    refused("pytorch,raw}", "train", spec, "-o", tmp_path / "b.h5", "--format", "tar")
    data = STRATEGIES["data2"]
    shared = ("--checkpoint-writer", "shared", *data)
    refused("choose gather", "train", spec, "-o", tmp_path / "b.h5", "--format", "hdf5-deflate", *shared)
    raw = ("--format", "raw", "--on-failure", "relaunch", "--checkpoint-every", 2, *data)
    refused("cannot continue from a file of format raw", "train", spec, "-o", tmp_path / "b.h5", *raw)
    guarded = tmp_path / "guarded.json"
    guarded.write_text(json.dumps(json.loads(spec.read_text()) | {"guards": {"checksums": True}}))
    relaunch = ("-o", tmp_path / "b.pt", "--on-failure", "relaunch", "--checkpoint-every", 2, *data)
    refused("cannot continue from pytorch with the guard checksums", "train", guarded, *relaunch)
    guarded.unlink()
    assert {path.name for path in tmp_path.iterdir()} == left
    # The type is in the way, not the format.
    run("resume", tmp_path / "a.h5", "--precision", "fp32", "-o", tmp_path / "b.npz", "--steps", 1)
    assert read_native(tmp_path / "b.npz")["model/fc1.weight"].dtype == np.float32


def test_files_that_are_no_checkpoints_are_refused_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", weight=np.ones(3, np.float32))
    torch.save({"weight": torch.ones(3), "schema": "other/1"}, tmp_path / "own.pt")
    refused("found a file of format npz without that attribute", "resume", tmp_path / "own.npz")
    refused("found other/1", "resume", tmp_path / "own.pt")
    spec = write_spec(tmp_path / "spec.json", LENET, SGD)
    run("train", spec, "-o", tmp_path / "a.raw", "--steps", 0, "--format", "raw")
    refused("is not an HDF5 file", "resume", tmp_path / "a.raw")
    run("train", spec, "-o", tmp_path / "a.pt", "--steps", 0)
    refused("the guard checksums needs an HDF5 file", "resume", tmp_path / "a.pt", "--guard", "checksums")
    refused("a folder keeps HDF5 files, not npz", "train", spec, "-o", f"{tmp_path}/kept/", "--format", "npz")
