"""Checkpoints that are written in the background: the same run, the same files."""

from __future__ import annotations

import ctypes
import json
import os
import random
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import h5py
import pytest
from failure_support import digest, fail_ranks
from train_support import LENET, PROGRAM, SGD, STRATEGIES, call, run, write_spec

ASYNC = ("--checkpoint-every", "1", "--checkpoint-mode", "async")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    run("train", write_spec(folder / "spec.json", LENET, SGD), "-o", folder / "base.h5", "--steps", 3)
    return folder / "base.h5"


@pytest.mark.parametrize("strategy", ["serial", "data2", "pipeline2"])
def test_the_run_is_the_one_without_checkpoints(base: Path, tmp_path: Path, strategy: str) -> None:
    results = []
    for name, options in (("plain", ()), ("async", ASYNC)):
        out = tmp_path / f"{name}.h5"
        result = run("resume", base, "-o", out, "--epochs", 1, *STRATEGIES[strategy], *options)
        volatile = ("seconds", "checkpoint", "durations", "saved")
        results.append({key: value for key, value in result.items() if key not in volatile and "seconds" not in key})
    assert results[0] == results[1]
    assert digest(tmp_path / "plain.h5") == digest(tmp_path / "async.h5")
    names = {"plain.h5", "plain.h5.json", "async.h5", "async.h5.json"}
    assert {path.name for path in tmp_path.iterdir()} == names


@pytest.mark.parametrize(
    ("strategy", "run_for", "every", "saves"),
    [
        ("serial", ("--steps", "7"), "6", 1),  # the file after the last step is another one
        ("serial", ("--steps", "6"), "6", 0),
        ("serial", ("--epochs", "1"), "18", 1),  # three of the epoch's 22 steps were taken
        ("serial", ("--epochs", "1"), "19", 0),
        ("serial", ("--steps", "2"), "1", 1),
        ("serial", ("--steps", "5"), "auto", 1),
        ("serial", ("--steps", "4"), "auto", 0),
        ("data2", ("--steps", "7"), "6", 1),
        ("pipeline2", ("--steps", "7"), "6", 1),
    ],
)
def test_memory_is_taken_in_advance_if_a_save_is_to_come(
    base: Path, tmp_path: Path, strategy: str, run_for: tuple[str, str], every: str, saves: int
) -> None:
    options = ["--checkpoint-every", every, "--checkpoint-mode", "async", "--json", *STRATEGIES[strategy]]
    if every == "auto":
        options += ["--mtbf", "1000"]
    done = call("resume", base, "-o", f"{tmp_path}/", *run_for, *options, env=os.environ | {"BITRIFT_LOG": "debug"})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout).get("checkpoint_seconds", {"written": 0})["written"] == saves
    said = [line for line in done.stderr.splitlines() if "taking memory" in line]
    (size, *_) = {path.stat().st_size for path in tmp_path.glob("*.h5")}
    assert [line.partition("twice ")[2] for line in said] == [f"{size} bytes"] * saves


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_each_checkpoint_says_what_those_before_it_cost(base: Path, tmp_path: Path, mode: str) -> None:
    options = ("--checkpoint-every", 2, "--checkpoint-keep", 9, "--checkpoint-mode", mode)
    run("resume", base, "-o", f"{tmp_path}/run/", "--steps", 9, *options)
    for written, step in enumerate((5, 7, 9, 11)):
        provenance = json.loads((tmp_path / "run" / f"step-{step:010}.h5.json").read_text())
        known = provenance["checkpoints"]
        assert known["written"] == written and known["step_seconds"] > 0
        assert known.get("block_seconds", 0) > 0 if written else "block_seconds" not in known
    assert "checkpoints" not in json.loads((tmp_path / "run" / "step-0000000012.h5.json").read_text())


def test_a_job_is_launched_again_from_what_the_disk_has(base: Path, tmp_path: Path) -> None:
    words = ("resume", base, "--epochs", 1, *STRATEGIES["data2"], "--json")
    plain = fail_ranks(*words, "-o", tmp_path / "plain.h5").json()
    options = ("--on-failure", "relaunch", "--checkpoint-every", 3, "--checkpoint-mode", "async")
    ended = fail_ranks(*words, "-o", tmp_path / "again.h5", *options, "--kill", "1@14:update")
    (recovery,) = ended.json()["recoveries"]
    # Between the last two checkpoints before the failure: one may be under way.
    assert recovery["step"] in (9, 12) and recovery["steps_lost"] == 13 - recovery["step"]
    assert ended.json()["final_digest"] == plain["final_digest"]
    assert digest(tmp_path / "plain.h5") == digest(tmp_path / "again.h5")


def test_a_killed_run_leaves_a_whole_file(base: Path, tmp_path: Path) -> None:
    chance, out, seen = random.Random(17), tmp_path / "out.h5", 0
    command = [PROGRAM, "resume", base, "-o", out, "--epochs", "2", *ASYNC]
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    whole = time.monotonic() - began
    out.unlink()
    for _ in range(8):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.3, 1) * whole)
        process.kill()
        process.wait()
        if not out.exists():
            continue
        seen += 1
        with h5py.File(out) as file:
            step = int(file["progress/step"][()])
        left = run("resume", out, "-o", tmp_path / "next.h5", "--steps", 1)
        assert step >= 4 and left["steps"] == 1
    assert seen > 0


def test_what_makes_no_sense_is_refused(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    for options, words in (
        (("--checkpoint-mode", "async"), "needs --checkpoint-every"),
        (("--checkpoint-mode", "later"), "{sync,async}"),
        ((*ASYNC, *STRATEGIES["data2"], "--on-failure", "shrink"), "choose sync"),
    ):
        done = call("resume", base, "-o", out, *options)
        assert done.returncode == 2 and words in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


class FolderEvents:
    """What happens to the names of a folder, from inotify(7)."""

    IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x40, 0x80, 0x100, 0x200
    APPEARED, GONE = IN_MOVED_TO | IN_CREATE, IN_MOVED_FROM | IN_DELETE

    def __init__(self, folder: Path) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self.descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert library.inotify_add_watch(self.descriptor, bytes(folder), self.APPEARED | self.GONE) >= 0

    def __iter__(self) -> Iterator[tuple[bool, str]]:
        """(whether it appeared, its name), of all events so far. Once."""
        try:
            while block := os.read(self.descriptor, 1 << 16):
                while block:
                    _, mask, _, size = struct.unpack_from("iIII", block)
                    yield bool(mask & self.APPEARED), block[16 : 16 + size].rstrip(b"\0").decode()
                    block = block[16 + size :]
        except BlockingIOError:
            os.close(self.descriptor)


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("keep", [1, 2])
def test_older_files_are_gone_before_the_next_one_is_begun(base: Path, tmp_path: Path, mode: str, keep: int) -> None:
    out = tmp_path / "run"
    out.mkdir()
    events = FolderEvents(out)
    options = ("--checkpoint-every", 1, "--checkpoint-mode", mode, "--checkpoint-keep", keep)
    run("resume", base, "-o", out, "--steps", 12, *options)
    present: set[str] = set()
    begun = 0
    for appeared, name in events:
        if ".tmp-" not in name and name.endswith(".h5"):
            (present.add if appeared else present.remove)(name)
        elif appeared and ".h5.tmp-" in name:
            begun += 1
            assert len(present) <= keep, sorted(present)
    assert begun >= 12 and len(present) == keep == len(list(out.glob("*.h5")))
