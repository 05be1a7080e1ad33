"""The same model, the same kinds of faults, under torchrun and torchft."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from failure_support import end_processes, marked_processes
from faults import NEVER, Storm

HERE = Path(__file__).resolve().parent
MARK = "BITRIFT_TEST_MARK"
RANKS = 4
EVERY = 200  # steps between two checkpoints
HANG = 2  # seconds after which a rank that hangs is noticed
TRIAL = 300  # steps


@dataclasses.dataclass(frozen=True)
class Run:
    """seconds: since the first step; NaN if it did not end. lost: samples that no step has seen; None: unknown."""

    seconds: float
    storm: Storm
    lost: int | None = None


class Rival(Protocol):
    def __call__(self, spec: Path, steps: int, every: float, seed: int, limit: float) -> Run: ...


def _environment(mark: str) -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", MARK: mark}


def _wait_for(file: Path, going: Callable[[], bool]) -> None:
    while going() and not file.exists():
        time.sleep(0.02)


def _workers(mark: str) -> dict[int, int]:
    """The process of each rank of a job of torchrun."""
    found = {}
    for pid in marked_processes(f"{MARK}={mark}"):
        try:
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for word in words:
            if word.startswith(b"LOCAL_RANK="):
                found[int(word.partition(b"=")[2])] = pid
    return found


def torchrun(spec: Path, steps: int, every: float, seed: int, limit: float) -> Run:
    """For at most `limit` seconds."""
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="bw-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", RANKS]
        command += ["--max-restarts", 1000, HERE / "torchrun_rank.py", spec, folder, steps, EVERY, HANG]
        quiet = subprocess.DEVNULL
        job = subprocess.Popen(list(map(str, command)), env=_environment(mark), stdin=quiet, stdout=quiet, stderr=quiet)
        _wait_for(folder / "begun", lambda: job.poll() is None)
        storm, until = Storm(every, seed), time.monotonic() + limit
        while job.poll() is None and time.monotonic() < until:
            storm.look(lambda: _workers(mark))
            time.sleep(0.02)
        end_processes(f"{MARK}={mark}")
        job.wait()
        seconds = folder / "seconds"
        return Run(float(seconds.read_text()) if seconds.exists() else math.nan, storm)


class _Supervisor:
    """Starts the ranks of torchft, and again those that end or have been stopped for longer than HANG."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._command, self._environment = command, environment
        self._ranks = {rank: self._start(rank) for rank in range(RANKS)}
        self._stopped: dict[int, float] = {}
        self.done: set[int] = set()

    def _start(self, rank: int) -> subprocess.Popen[bytes]:
        quiet = subprocess.DEVNULL
        words = [*self._command, str(rank), str(RANKS)]
        return subprocess.Popen(words, env=self._environment, stdin=quiet, stdout=quiet, stderr=quiet)

    def processes(self) -> dict[int, int]:
        return {rank: one.pid for rank, one in self._ranks.items() if one.poll() is None}

    def look(self) -> None:
        for rank, one in self._ranks.items():
            if one.poll() is None:
                self._end_if_stopped(one)
            elif one.returncode == 0:
                self.done.add(rank)
            else:
                self._ranks[rank] = self._start(rank)

    def _end_if_stopped(self, one: subprocess.Popen[bytes]) -> None:
        try:
            state = Path(f"/proc/{one.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return
        if state != "T":
            self._stopped.pop(one.pid, None)
        elif time.monotonic() - self._stopped.setdefault(one.pid, time.monotonic()) > HANG:
            one.kill()


def torchft(spec: Path, steps: int, every: float, seed: int, limit: float) -> Run:
    """For at most `limit` seconds. Needs torchft."""
    from torchft._torchft import LighthouseServer  # type: ignore[import-not-found]

    mark = uuid.uuid4().hex
    lighthouse = LighthouseServer(bind="127.0.0.1:0", min_replicas=1, join_timeout_ms=100, heartbeat_timeout_ms=500)
    with tempfile.TemporaryDirectory(prefix="bw-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        address = f"http://127.0.0.1:{lighthouse.address().rpartition(':')[2]}"  # it says the name of the machine
        words = [sys.executable, HERE / "torchft_rank.py", spec, folder, steps, HANG]
        ranks = _Supervisor(list(map(str, words)), _environment(mark) | {"TORCHFT_LIGHTHOUSE": address})
        start = time.monotonic()
        _wait_for(folder / "begun", lambda: time.monotonic() < start + limit)
        storm, until = Storm(every, seed), time.monotonic() + limit
        while not ranks.done and time.monotonic() < until:
            ranks.look()
            storm.look(ranks.processes)
            time.sleep(0.02)
        first = min(folder.glob("seconds-*"), default=None)
        time.sleep(1 if first else 0)  # the others
        end_processes(f"{MARK}={mark}")
        lighthouse.shutdown()
        told = [json.loads(file.read_text()) for file in folder.glob("seconds-*")]
        if not told:
            return Run(math.nan, storm)
        return Run(min(seconds for seconds, _ in told), storm, max(lost for _, lost in told))


def row_of(name: str, rival: Rival, spec: Path, minutes: float, every: float, seed: int) -> str:
    """A line of the table of storm.py. The rival's own undisturbed time counts."""
    limit = 60 + 5 * 60 * minutes
    steps = max(100, int(60 * minutes / rival(spec, TRIAL, NEVER, seed, limit).seconds * TRIAL))
    before = rival(spec, steps, NEVER, seed, limit)
    run = rival(spec, steps, every, seed, limit)
    after = rival(spec, steps, NEVER, seed, limit)
    mean = (before.seconds + after.seconds) / 2
    lost = "" if run.lost is None else f"{run.lost} of {steps * json.loads(spec.read_text())['batch_size']}"
    print(f"{name}: {steps} steps; undisturbed {before.seconds:.1f} s before and {after.seconds:.1f} s after")
    return f"| {name} | {run.storm} | | | {lost} | {run.seconds:.1f} | {mean / run.seconds:.3f} | |"
