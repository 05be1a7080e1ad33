"""`bitrift-train checkpoint-study`: its outcomes are those of the native readers, and a kill changes nothing."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from study_support import FLIPS, SPEC, flip, flips_of, one_line, rows_of, study, write
from torch.distributed.checkpoint.api import CheckpointException
from train_support import PROGRAM

OURS = ["hdf5", "hdf5-gzip", "pytorch", "npz", "npz-deflated", "safetensors"]
FORMATS = [*OURS, "dcp", "keras"]  # TensorFlow has a test of its own
KINDS = [*((form, "native") for form in FORMATS), *((form, "bitrift") for form in OURS)]
CHECKED = ["npz", "npz-deflated", "hdf5-gzip", "keras"]  # by a checksum of all values, or nearly all
OUTCOMES = ["detected", "silently_wrong", "same", "crash", "hang"]
State = dict[str, np.ndarray]


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    ended = study(write(folder), folder / "out")
    assert ended.returncode == 0, ended.stderr
    (folder / "out" / "table.txt").write_text(ended.stdout)
    return folder / "out"


def test_every_line_has_its_checksum_and_every_read_its_row(done: Path) -> None:
    for line in (done / "rows.jsonl").read_text().splitlines():
        assert line[11:19] == f"{crc32c(line[27:-1].encode()):08x}" and line[19:27] == '","row":'
    rows = rows_of(done)
    assert Counter(row["part"] for row in rows) == {
        "size": len(KINDS),
        "determinism": len(KINDS),
        "damage": len(KINDS) * (2 + 2 * FLIPS),
    }
    draws = sorted((row["format"], row["writer"], row["stratum"], row["draw"]) for row in flips_of(done))
    assert draws == sorted(
        (*kind, stratum, i) for kind in KINDS for stratum in ("metadata", "payload") for i in range(FLIPS)
    )
    assert not (done / "work").exists()


def test_canaries_are_what_they_must_be(done: Path) -> None:
    canaries = [row for row in rows_of(done) if "canary" in row]
    for row in canaries:
        checked = row["format"] in CHECKED
        expected = "same" if row["canary"] == "no_flip" else "detected" if checked else "silently_wrong"
        assert row["outcome"] == expected, row
    assert len(canaries) == 2 * len(KINDS)


def measured(done: Path) -> list[dict]:
    """Of the summary, the formats whose libraries are installed."""
    return [one for one in json.loads((done / "summary.json").read_text())["files"] if "missing" not in one]


def test_the_summary_counts_the_rows(done: Path) -> None:
    summary = json.loads((done / "summary.json").read_text())
    assert summary["schema"] == "bitrift/checkpoint-study-summary/1"
    assert summary["provenance"]["command"][:2] == ["bitrift-train", "checkpoint-study"]
    assert summary["versions"]["torch"] == torch.__version__ and summary["versions"]["h5py"] == h5py.__version__
    assert {(one["format"], one["writer"]) for one in summary["files"]} >= {("dcp", "native"), ("hdf5", "bitrift")}
    table = (done / "table.txt").read_text()
    left_out = [(one["format"], one["missing"]) for one in summary["files"] if "missing" in one]
    assert left_out == [("tensorflow", "not installed")]
    for file in measured(done):
        weights = {}
        for cell in file["damage"]["strata"]:
            mine = [row for row in flips_of(done) if all(row[key] == file[key] for key in ("format", "writer"))]
            mine = [row for row in mine if row["stratum"] == cell["stratum"]]
            assert cell["counts"] == {name: sum(row["outcome"] == name for row in mine) for name in OUTCOMES}
            assert cell["missing"] == sum(row.get("missing", 0) > 0 for row in mine)
            weights[cell["stratum"]] = (cell["bits"], cell["counts"])
            for name, rate in cell["rates"].items():
                assert rate["estimate"] == cell["counts"][name] / FLIPS
                for kind in ("anytime", "wilson", "clopper_pearson"):
                    assert rate[kind][0] <= rate["estimate"] <= rate[kind][1], (name, kind, rate)
        size = file["size"]
        assert weights["payload"][0] == 8 * size["payload_bytes"]
        assert weights["metadata"][0] == 8 * (size["bytes"] - size["payload_bytes"])
        for name, rate in file["damage"]["file"].items():
            weighted = sum(bits * counts[name] / FLIPS for bits, counts in weights.values()) / (8 * size["bytes"])
            assert rate["estimate"] == pytest.approx(weighted, abs=1e-12)
            assert rate["anytime"][0] <= weighted <= rate["anytime"][1]
        assert table.count(f"{file['format']:<13} {file['writer']:<8}") == 4


def test_sizes_are_those_of_the_files(done: Path) -> None:
    state = base_state(done)
    for file in measured(done):
        (path,) = (done / "files").glob(f"{file['format']}-{file['writer']}*")
        files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
        size = file["size"]
        assert size["bytes"] == sum(one.stat().st_size for one in files)
        assert size["tensor_bytes"] == sum(value.nbytes for value in state.values())
        assert size["parameters"] == sum(v.size for name, v in state.items() if name.startswith("model/"))
        compressed = file["format"] in ("npz-deflated", "hdf5-gzip")
        assert (size["payload_bytes"] < size["tensor_bytes"]) == compressed
        assert compressed or size["payload_bytes"] == size["tensor_bytes"]


def test_two_saves(done: Path) -> None:
    saves = {(row["format"], row["writer"]): row for row in rows_of(done) if row["part"] == "determinism"}
    equal = {kind for kind, row in saves.items() if row["equal"]}
    assert equal == set(saves) - {("pytorch", "native"), ("dcp", "native"), ("keras", "native")}
    # The archive of torch.save has the name of the file: first/data.pkl, second/data.pkl.
    assert "first" in saves["pytorch", "native"]["first_difference"]["structure"]
    assert saves["dcp", "native"]["first_difference"]["file"] == ".metadata"
    assert saves["keras", "native"]["first_difference"]["structure"] == "first.keras"  # times in the archive


def read_hdf5(path: Path, _: State) -> State:
    found: State = {}
    with h5py.File(path) as file:
        stack = [("", file)]
        while stack:
            prefix, group = stack.pop()
            for name in group:
                item = group[name]
                if isinstance(item, h5py.Group):
                    stack.append((f"{prefix}{name}/", item))
                elif isinstance(item, h5py.Dataset) and not f"{prefix}{name}".startswith("checksum/"):
                    found[prefix + name] = np.asarray(item[()])
    return found


def base_state(folder: Path) -> State:
    return read_hdf5(folder / "base.h5", {})


def read_npz(path: Path, _: State) -> State:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:  # NumPy leaves a damaged file open
        return {name: np.asarray(archive[name]) for name in archive.files if not name.startswith("@")}


def read_pytorch(path: Path, _: State) -> State:
    found: State = {}
    stack: list[tuple[str, Any]] = [("", torch.load(path, weights_only=True))]
    while stack:
        prefix, values = stack.pop()
        for name, value in values.items():
            if isinstance(value, dict):
                stack.append((f"{prefix}{name}/", value))
            elif not isinstance(value, str):
                found[prefix + name] = value.numpy()
    return found


def read_safetensors(path: Path, _: State) -> State:
    return {name: value.numpy() for name, value in safetensors.torch.load_file(path).items()}


def read_dcp(path: Path, state: State) -> State:
    target = {name: torch.zeros_like(torch.from_numpy(value)) for name, value in state.items()}
    dcp.load(target, checkpoint_id=path, no_dist=True)
    return {name: value.numpy() for name, value in target.items()}


def read_keras(path: Path, state: State) -> State:
    """As Keras does: the weights of an archive whose members are sound, in the order of its layout."""
    with zipfile.ZipFile(path) as archive:
        archive.read("metadata.json")
        layout = json.loads(archive.read("config.json"))["config"]["layout"]
        weights = io.BytesIO(archive.read("model.weights.h5"))
    assert [name for name, *_ in layout] == list(state)
    with h5py.File(weights) as file:
        return {name: np.asarray(file[f"vars/{number}"]) for number, (name, *_) in enumerate(layout)}


READERS: dict[str, Callable[[Path, State], State]] = {
    "hdf5": read_hdf5,
    "hdf5-gzip": read_hdf5,
    "pytorch": read_pytorch,
    "npz": read_npz,
    "npz-deflated": read_npz,
    "safetensors": read_safetensors,
    "dcp": read_dcp,
    "keras": read_keras,
}


def outcome_of(form: str, path: Path, state: State) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is only warned of is not detected
            found = READERS[form](path, state)
    except (Exception, CheckpointException):  # the latter is not a case of the former
        return "detected"
    same = found.keys() == state.keys() and all(
        found[name].dtype == value.dtype
        and found[name].shape == value.shape
        and found[name].tobytes() == value.tobytes()
        for name, value in state.items()
    )
    return "same" if same else "silently_wrong"


@pytest.mark.parametrize("form", FORMATS)
def test_outcomes_are_those_of_the_readers(done: Path, tmp_path: Path, form: str) -> None:
    state = base_state(done)
    seen = Counter()
    for number, row in enumerate(row for row in flips_of(done) if row["format"] == form):
        if row["fault"]["file"] == ".metadata":
            continue  # a damaged pickle is not for this process
        (original,) = (done / "files").glob(f"{form}-{row['writer']}*")
        # A new name each time: libhdf5 keeps files that it could not close.
        copy = tmp_path / str(number) / original.name
        (shutil.copytree if original.is_dir() else shutil.copy)(original, copy.parent.mkdir() or copy)
        flip(copy, row["fault"])
        assert outcome_of(form, copy, state) == row["outcome"], row
        seen[row["stratum"], row["outcome"]] += 1
        shutil.rmtree(copy.parent)
    assert seen["payload", "detected" if form in CHECKED else "silently_wrong"] >= FLIPS - 1


KILLED = ["hdf5", "pytorch", "npz"]


def of_killed(folder: Path, part: str) -> list[str]:
    """Lines of a part, of the formats that the killed studies have."""
    lines = (folder / "rows.jsonl").read_text().splitlines()
    rows = [(line, json.loads(line)["row"]) for line in lines]
    return [line for line, row in rows if row["format"] in KILLED and row["part"] == part]


@pytest.mark.parametrize("lines", [pytest.param(3, marks=pytest.mark.thorough), 70])
def test_a_killed_study_ends_with_the_same_rows(done: Path, tmp_path: Path, lines: int) -> None:
    spec, folder = write(tmp_path, formats=KILLED), tmp_path / "out"
    command = [PROGRAM, "checkpoint-study", spec, "-o", folder]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rows = folder / "rows.jsonl"
    deadline = time.monotonic() + 120
    while not rows.exists() or rows.read_bytes().count(b"\n") < lines:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    process.kill()
    process.wait()
    before = rows.read_bytes()
    with rows.open("ab") as file:
        file.write(b'{"crc32c":"0123')  # what a kill within a write leaves
    ended = study(spec, folder)
    assert ended.returncode == 0, ended.stderr
    assert "removed" in ended.stderr and rows.read_bytes().startswith(before[: before.rindex(b"\n") + 1])
    for part in ("size", "determinism", "damage"):
        ours, theirs = of_killed(folder, part), of_killed(done, part)
        assert [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]] == []
    assert len(rows_of(folder)) == 2 * len(KILLED) * (2 + 2 + 2 * FLIPS)


def test_a_complete_study_is_not_repeated(done: Path, tmp_path: Path) -> None:
    shutil.copytree(done, tmp_path / "out")
    spec = write(tmp_path)
    began = time.monotonic()
    again = study(spec, tmp_path / "out", "--json")
    assert again.returncode == 0 and time.monotonic() - began < 60
    assert (tmp_path / "out" / "rows.jsonl").read_bytes() == (done / "rows.jsonl").read_bytes()
    old, new = json.loads((done / "summary.json").read_text()), json.loads(again.stdout)
    assert old.pop("provenance") != new.pop("provenance") and old == new


def test_a_folder_belongs_to_one_study(done: Path, tmp_path: Path) -> None:
    shutil.copytree(done, tmp_path / "out")
    folder = tmp_path / "out"
    other = write(tmp_path, damage={"flips": FLIPS, "seed": 5})
    assert "spec.damage.seed was 4, is now 5" in one_line(study(other, folder))
    spec = write(tmp_path)
    assert "drill was" in one_line(study(spec, folder, "--drill", "misread"))
    path = folder / "files" / "npz-native.npz"
    flip(path, {"file": "", "byte": 5000, "bit": 3})
    assert "npz-native.npz: changed since the study began" in one_line(study(spec, folder))
    flip(path, {"file": "", "byte": 5000, "bit": 3})
    flip(folder / "base.h5", {"file": "", "byte": 150000, "bit": 3})
    assert "base.h5: changed since the study began" in one_line(study(spec, folder))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("x")
    assert "holds notes.txt but no study.json" in one_line(study(spec, tmp_path / "mine"))


def test_other_libraries_are_refused(done: Path, tmp_path: Path) -> None:
    shutil.copytree(done, tmp_path / "out")
    identity = tmp_path / "out" / "study.json"
    identity.write_text(identity.read_text().replace(f'"h5py": "{h5py.__version__}"', '"h5py": "1.2.3"'))
    message = one_line(study(write(tmp_path), tmp_path / "out"))
    assert "measured with other libraries: versions.h5py was" in message


# By the sum of a file's bytes: 0: damages the file and crashes, 1: hangs, 2: hangs the first time. Python runs this
# before the reader.
BAD_LIBRARY = """
import os, pathlib, signal, time
import numpy
load = numpy.load
def bad_load(path, **options):
    content = path.read_bytes()
    if sum(content) % 5 == 0:
        path.write_bytes(content[:100])
        os.kill(os.getpid(), signal.SIGSEGV)
    stalled = pathlib.Path(__file__).with_name(f"stalled-{sum(content)}")
    if sum(content) % 5 == 1 or (sum(content) % 5 == 2 and not stalled.exists()):
        stalled.touch()
        time.sleep(3600)
    return load(path, **options)
numpy.load = bad_load
"""


def test_crashes_and_hangs_are_outcomes_and_leave_nothing_behind(done: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BAD_LIBRARY)
    (tmp_path / "python").write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}:$PYTHONPATH exec {sys.executable} "$@"\n')
    (tmp_path / "python").chmod(0o755)
    original = (done / "files" / "npz-native.npz").read_bytes()
    damage = SPEC["damage"] | {"timeout_seconds": 1, "flips": 10}
    spec = write(tmp_path, formats=["npz"], writers=["native"], parts=["damage"], damage=damage, interpreter="./python")
    ended = study(spec, tmp_path / "out")
    assert ended.returncode == 0, ended.stderr
    mine = [row for row in flips_of(done) if (row["format"], row["writer"]) == ("npz", "native")]
    good = {(row["stratum"], row["draw"]): row for row in mine}
    seen = Counter()
    for row in flips_of(tmp_path / "out"):
        fault = row["fault"]
        old = original[fault["byte"]]
        rest = (sum(original) - old + (old ^ 1 << fault["bit"])) % 5
        expected = good[row["stratum"], row["draw"]]
        if rest == 0:
            expected |= {"outcome": "crash", "message": "signal 11 (Segmentation fault)"}
        elif rest == 1:
            expected |= {"outcome": "hang", "message": ""}
        assert row == expected
        seen[row["outcome"]] += 1
        seen["stalled once"] += rest == 2
    assert min(seen["crash"], seen["hang"], seen["detected"], seen["stalled once"]) > 0, seen
    assert f"{seen['crash']:>6} {seen['hang']:>6}" in ended.stdout


def test_a_ready_checkpoint_is_studied_as_it_is(done: Path, tmp_path: Path) -> None:
    shutil.copy(done / "base.h5", tmp_path / "ready.h5")
    spec = write(tmp_path, base={"checkpoint": "ready.h5"}, formats=["safetensors"])
    ended = study(spec, tmp_path / "out")
    assert ended.returncode == 0, ended.stderr
    mine = [row for row in rows_of(done) if row["format"] == "safetensors"]
    assert rows_of(tmp_path / "out") == mine
    assert os.stat(tmp_path / "ready.h5").st_size == (done / "base.h5").stat().st_size
