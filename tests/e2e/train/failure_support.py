"""Runs bitrift-train with ranks that fail, watches when they did, and ends whatever outlives its limit."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pytest
from train_support import LENET, MLP, PROGRAM, error_lines, run, started, write_spec

PHASES = ("forward", "backward", "reduce", "update", "evaluate", "finish", "save")  # a death there needs a recovery
RECOVERY_POINTS = ("noticed", "shrunk", "state", "resumed")
STEPS = 10  # of a run: one epoch of 640 samples
WIDE = {"name": "mlp", "hidden": [1024, 1024]}
MOMENTUM = {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9}
CLIPPED = {"name": "adamw", "learning_rate": 0.002, "clip_norm": 0.5}
TASKS: dict[str, dict[str, Any]] = {
    "sgd": {"model": LENET, "optimizer": MOMENTUM},
    "adamw": {"model": LENET, "optimizer": CLIPPED},
    # 9 MB of state: a save takes a while.
    "wide": {"model": WIDE, "optimizer": MOMENTUM},
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
    """The phases between steps are after the last one."""
    return STEPS if phase in ("evaluate", "finish", "save", "leave") else step


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
        return error_lines(self.err)

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
    """Kills what carries the mark, and what that starts in the meantime."""
    while found := marked_processes(mark):
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.05)


def _times_of_death(folder: Path) -> tuple[float, ...]:
    """The times in the notes that ranks add a line to before they fail; a relaunched job keeps its own."""
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
    with tempfile.TemporaryDirectory(prefix="bt-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        environment = os.environ | {name: mark.partition("=")[2], "TMPDIR": scratch}
        how = started(arguments, environment | {"BITRIFT_DEATH_NOTE": str(folder / "note")})
        deaths: tuple[float, ...] = ()
        with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
            began = time.monotonic()
            process = subprocess.Popen(**how, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
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
    command = " ".join(map(str, (PROGRAM, *arguments)))
    return Ended(command, code, texts[0], texts[1], deaths, began, ended, left)


@dataclasses.dataclass(frozen=True)
class Strike:
    """A SIGKILL from outside, to a rank of a run that writes a file at its end."""

    victim: int
    delay: float  # seconds after the line of the last epoch was read
    hit: bool  # the process was still there
    in_time: bool  # the file was not there yet when the signal had been sent


def ranks_of(mark: str) -> dict[int, int]:
    """The process of each rank of a job."""
    found = {}
    for pid in marked_processes(mark):
        try:
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            program = os.readlink(f"/proc/{pid}/exe")
        except OSError:
            continue
        ranks = [word for word in words if word.startswith(b"OMPI_COMM_WORLD_RANK=")]
        if ranks and program == str(PROGRAM.resolve()):
            found[int(ranks[0].partition(b"=")[2])] = pid
    return found


def segments(processes: Iterable[int]) -> set[str]:
    """The files of shared memory that ranks have open now."""
    found = set()
    for pid in processes:
        try:
            lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        except OSError:
            continue
        found |= {line[line.index("/dev/shm/") :] for line in lines if "/dev/shm/sm_segment." in line}
    return {name.removesuffix(" (deleted)") for name in found}


class Watched:
    """A run of bitrift-train whose lines on stderr are read as they come. `line`: set with the first evaluation."""

    def __init__(self, arguments: tuple[object, ...], folder: Path) -> None:
        name, value = "BITRIFT_TEST_MARK", uuid.uuid4().hex
        self.mark = f"{name}={value}"
        self.command = [str(PROGRAM), *map(str, arguments)]
        self.line = threading.Event()
        self.line_time = 0.0
        self._errors: list[str] = []
        environment = os.environ | {name: value, "TMPDIR": str(folder)}
        self._out = (folder / "out").open("w+")
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for text in lines:
                if not self.line.is_set() and re.search(r"epoch \d+, step \d+: test loss", text):
                    self.line_time = time.monotonic()
                    self.line.set()
                self._errors.append(text)

    def end(self, patience: float, deaths: tuple[float, ...]) -> Ended:
        """Waits so many seconds."""
        try:
            code = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            code = None
        ended = time.monotonic()
        while code is not None and marked_processes(self.mark) and time.monotonic() < ended + 2:
            time.sleep(0.02)
        left = len(marked_processes(self.mark)) if code is not None else 0
        end_processes(self.mark)
        self.process.wait()
        self._reader.join()
        self._out.seek(0)
        with self._out:
            out = self._out.read()
        words = " ".join(self.command)
        return Ended(words, code, out, "".join(self._errors), deaths, self.began, ended, left)


def kill_at_end(
    *arguments: object, out: Path, victim: int, delay: float, patience: float = 30, limit: float = 120
) -> tuple[Ended, Strike]:
    """Kills rank `victim` so many seconds after the first evaluation: the run must have one epoch and write `out`."""
    with tempfile.TemporaryDirectory(prefix="bt-", ignore_cleanup_errors=True) as scratch:
        run = Watched(arguments, Path(scratch))
        pids: dict[int, int] = {}
        while not run.line.is_set() and run.process.poll() is None and time.monotonic() < run.began + limit:
            if victim not in pids:
                pids = ranks_of(run.mark)
            run.line.wait(0.01)
        time.sleep(max(0, run.line_time + delay - time.monotonic()))
        hit = run.line.is_set() and victim in pids
        try:
            if hit:
                os.kill(pids[victim], signal.SIGKILL)
        except ProcessLookupError:
            hit = False
        deaths = (time.monotonic(),) if hit else ()
        in_time = hit and not out.exists()
        return run.end(patience, deaths), Strike(victim, delay, hit, in_time)


def time_to_save(*arguments: object, out: Path) -> float:
    """Seconds from the line of the last epoch to the file, in a run that nobody disturbs."""
    with tempfile.TemporaryDirectory(prefix="bt-", ignore_cleanup_errors=True) as scratch:
        run = Watched(arguments, Path(scratch))
        while not out.exists() and run.process.poll() is None:
            time.sleep(0.0005)
        seen = time.monotonic()
        ended = run.end(30, ())
        assert ended.code == 0, ended.err
        return seen - run.line_time


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "no file"


class Bases:
    """Checkpoints after a first epoch, by task, and what undisturbed runs make of them."""

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
        return fail_ranks(*self.words(task, layout, out, *options), **limits)

    def words(self, task: str, layout: str, out: Path, *options: object) -> tuple[object, ...]:
        """Such a run's arguments."""
        return ("resume", self.file(task), "-o", out, "--epochs", 1, *LAYOUTS[layout], "--json", *options)
