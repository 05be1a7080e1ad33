"""What `bitrift-train checkpoint-study` refuses, and what its canaries catch."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import h5py
import pytest
from study_support import TRAINING, one_line, rows_of, study, write
from train_support import LENET, PROGRAM, SGD, run, write_spec


def test_two_studies_do_not_share_a_folder(tmp_path: Path) -> None:
    spec, folder = write(tmp_path), tmp_path / "out"
    command = [PROGRAM, "checkpoint-study", spec, "-o", folder]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not (folder / "study.json").exists():
            assert first.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        assert "is running in this folder" in one_line(study(spec, folder))
        first.send_signal(signal.SIGINT)
        _, said = first.communicate(timeout=60)
    finally:
        first.kill()
    assert first.returncode == 2 and "interrupted; run the same command to resume" in said


def test_a_damaged_identity_and_a_base_that_is_none_are_one_line(tmp_path: Path) -> None:
    spec, folder = write(tmp_path, formats=["npz"], writers=["native"], parts=["size"]), tmp_path / "out"
    assert study(spec, folder).returncode == 0
    identity = folder / "study.json"
    identity.write_text(identity.read_text().replace('"digest"', '"gone"'))
    assert "study.json: is damaged" in one_line(study(spec, folder))
    (tmp_path / "not.h5").write_bytes((folder / "base.h5").read_bytes()[:5000])
    other = write(tmp_path, base={"checkpoint": "not.h5"})
    assert "base.checkpoint: " in one_line(study(other, tmp_path / "none"))
    with h5py.File(tmp_path / "foreign.h5", "w") as file:
        file["weight"] = 1.0
    other = write(tmp_path, base={"checkpoint": "foreign.h5"})
    assert "foreign.h5: not a checkpoint of a training" in one_line(study(other, tmp_path / "none"))
    narrow = write_spec(tmp_path / "narrow.json", LENET, SGD, precision="bf16")
    run("train", narrow, "-o", tmp_path / "narrow.h5", "--steps", 1)
    other = write(tmp_path, base={"checkpoint": "narrow.h5"})
    assert "NumPy has no bfloat16" in one_line(study(other, tmp_path / "none"))
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("drill", "canary"), [("read-original", "canary zeroed: the outcome is same"), ("misread", "canary no_flip")]
)
def test_a_reader_that_lies_is_caught_by_the_canaries(tmp_path: Path, drill: str, canary: str) -> None:
    spec = write(tmp_path, formats=["npz"], writers=["native"], parts=["damage"])
    ended = study(spec, tmp_path / "out", "--drill", drill)
    assert ended.returncode == 1 and ended.stdout == ""
    assert f"npz-native: {canary}" in ended.stderr and "no outcome can be trusted" in ended.stderr
    assert not (tmp_path / "out" / "summary.json").exists()
    assert all("canary" in row for row in rows_of(tmp_path / "out"))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"base": {}}, "base"),
        ({"base": {"train": TRAINING | {"batch_size": 0}}}, "base.train.batch_size"),
        ({"base": {"checkpoint": "no.h5"}}, "base.checkpoint"),
        ({"formats": []}, "formats"),
        ({"formats": ["zip"]}, "formats[0]"),
        ({"formats": ["dcp"], "writers": ["bitrift"]}, "formats"),
        ({"parts": ["costs"]}, "parts[0]"),
        ({"damage": {"flips": 0}}, "damage.flips"),
        ({"damage": {"seed": -1}}, "damage.seed"),
        ({"damage": {"timeout_seconds": 0}}, "damage.timeout_seconds"),
        ({"damage": {"memory": "x"}}, "damage.memory"),
        ({"confidence": 1}, "confidence"),
        ({"flips": 3}, "flips"),
    ],
)
def test_a_mistake_in_a_spec_is_one_line(tmp_path: Path, changes: dict, key: str) -> None:
    message = one_line(study(write(tmp_path, **changes), tmp_path / "out"))
    assert "spec.json:1: " in message and key in message, message
    assert not (tmp_path / "out").exists()


def test_a_python_without_the_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\necho 'No module named bitrift.study' >&2\nexit 1\n")
    (tmp_path / "python").chmod(0o755)
    spec = write(tmp_path, interpreter="./python", formats=["npz"])
    message = one_line(study(spec, tmp_path / "out"))
    assert f"{tmp_path / 'python'} -m bitrift.study.reader does not start: No module named bitrift.study" in message
