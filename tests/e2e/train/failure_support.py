"""Runs bitrift-train with ranks that fail, watches when they did, and ends whatever outlives its limit."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from train_support import LENET, MLP, PROGRAM, run, write_spec

PHASES = ("forward", "backward", "reduce", "update", "evaluate", "save")
RECOVERY_POINTS = ("noticed", "shrunk", "state", "resumed")
STEPS = 10  # of a run: one epoch of 640 samples
MOMENTUM = {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9}
CLIPPED = {"name": "adamw", "learning_rate": 0.002, "clip_norm": 0.5}
TASKS: dict[str, dict[str, Any]] = {
    "sgd": {"model": LENET, "optimizer": MOMENTUM},
    "adamw": {"model": LENET, "optimizer": CLIPPED},
    # Every structure of the state but a loss scale.
    "norm": {"model": MLP, "optimizer": MOMENTUM, "schedule": {"name": "cosine", "warmup_steps": 15}},
}
LAYOUTS = {
    "data": ("--parallel", "data", "--ranks", "4"),
    "pipeline": ("--parallel", "pipeline", "--ranks", "3", "--micro-batches", "2"),
    "hybrid": ("--parallel", "hybrid", "--ranks", "4", "--stages", "2", "--micro-batches", "2"),
}
RANKS = {"data": 4, "pipeline": 3, "hybrid": 4}
RECOVERIES = {
    "shrink": ("--on-failure", "shrink"),
    "spare": ("--on-failure", "spare", "--spares", "2"),
    "respawn": ("--on-failure", "respawn"),
    "restart": ("--on-failure", "restart"),
    "restart, spares": ("--on-failure", "restart", "--spares", "2"),
}


def pairs_of(first: Collection[object], second: Collection[object]) -> list[Any]:
    """All pairs. Every second one is thorough, so that the others have each value of both."""
    return [
        pytest.param(one, other, marks=[pytest.mark.thorough] * ((i + j) % 2))
        for i, one in enumerate(first)
        for j, other in enumerate(second)
    ]


def step_of(phase: str, step: int) -> int:
    """Save and evaluate are behind the last step."""
    return STEPS if phase in ("evaluate", "save") else step


@dataclasses.dataclass(frozen=True)
class Ended:
    """What a run did. Times are seconds of the machine's monotonic clock."""

    command: str
    code: int | None  # None: it had to be killed
    out: str
    err: str
    deaths: tuple[float, ...]  # when ranks failed, as they wrote down themselves
    began: float
    ended: float
    left: int  # processes that were there two seconds after the end

    @property
    def hangs(self) -> bool:
        return self.code is None

    @property
    def after_death(self) -> float:
        """Seconds from the last failure to the end; 0 where no rank failed."""
        return self.ended - max(self.deaths) if self.deaths else 0.0

    @property
    def errors(self) -> list[str]:
        return [line for line in self.err.replace("\0", "").splitlines() if line.startswith("bitrift-train: error: ")]

    def json(self) -> dict[str, Any]:
        assert self.code == 0, f"{self.command}\n{self.err}"
        return json.loads(self.out)


def marked_processes(mark: str) -> list[int]:
    """Processes with this NAME=VALUE in their environment, by number."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words:
            found.append(int(entry.name))
    return found


def end_processes(mark: str) -> None:
    """Kills what carries the mark, and what that starts meanwhile."""
    while found := marked_processes(mark):
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.05)


def _times_of_death(folder: Path) -> tuple[float, ...]:
    """Of the notes that ranks add a line to before they fail; a relaunched job keeps its own."""
    lines: list[str] = []
    for note in (folder / "note", *folder.glob("*/note")):
        try:
            lines += [line for line in note.read_text().splitlines(keepends=True) if line.endswith("\n")]
        except OSError:
            continue
    return tuple(float(line.split()[0]) for line in lines)


def fail_ranks(*arguments: object, patience: float = 30, limit: float = 120, poll: float = 0.01) -> Ended:
    """Runs bitrift-train until it ends, `patience` seconds after the last failure, or `limit` seconds at all."""
    name = "BITRIFT_TEST_MARK"
    mark = f"{name}={uuid.uuid4().hex}"
    command = [str(PROGRAM), *map(str, arguments)]
    with tempfile.TemporaryDirectory(prefix="bt-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        environment = os.environ | {name: mark.partition("=")[2], "TMPDIR": scratch}
        environment["BITRIFT_DEATH_NOTE"] = str(folder / "note")
        deaths: tuple[float, ...] = ()
        with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
            began = time.monotonic()
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment)
            code = None
            while True:
                deaths = max(deaths, _times_of_death(folder), key=len)
                try:
                    code = process.wait(poll)
                    break
                except subprocess.TimeoutExpired:
                    pass
                if time.monotonic() > (max(deaths) + patience if deaths else began + limit):
                    break
            ended = time.monotonic()
            deaths = max(deaths, _times_of_death(folder), key=len)
            while code is not None and marked_processes(mark) and time.monotonic() < ended + 2:
                time.sleep(0.02)
            left = len(marked_processes(mark)) if code is not None else 0
            end_processes(mark)
            process.wait()
            texts = [file.seek(0) or file.read() for file in (out, err)]
    return Ended(" ".join(command), code, texts[0], texts[1], deaths, began, ended, left)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "no file"


class Bases:
    """Checkpoints behind a first epoch, by task, and what undisturbed runs make of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._golden: dict[tuple[str, str], str] = {}

    def file(self, task: str) -> Path:
        path = self.folder / f"{task}.h5"
        if not path.exists():
            data = {"name": "digits", "train_samples": 64 * STEPS, "test_samples": 160}
            spec = write_spec(self.folder / f"{task}.json", **TASKS[task], data=data, epochs=3, seed=7)
            run("train", spec, "-o", path, "--epochs", 1)
        return path

    def golden(self, task: str, layout: str) -> str:
        """Digest of the file that a run without a failure writes."""
        key = (task, layout)
        if key not in self._golden:
            out = self.folder / f"golden-{task}-{layout}.h5"
            run("resume", self.file(task), "-o", out, "--epochs", 1, *LAYOUTS[layout])
            self._golden[key] = digest(out)
        return self._golden[key]

    def fail(self, task: str, layout: str, out: Path, *options: object, **limits: float) -> Ended:
        """A run of one epoch with these recovery options."""
        words = ("--epochs", 1, *LAYOUTS[layout], "--json", *options)
        return fail_ranks("resume", self.file(task), "-o", out, *words, **limits)
