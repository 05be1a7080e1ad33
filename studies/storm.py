#!/usr/bin/env python3
"""A training in a storm of faults: how much of the time is useful, and does it end in the same file?

    python studies/storm.py [--minutes 30] [--every 30] [--recoveries respawn,restart,relaunch] [--seed 1] [--torchrun]

Trains a LeNet on four ranks for a fixed number of steps, which take --minutes when nobody disturbs them, and again
under each recovery while faults strike a random rank from outside, at exponential times with a mean of --every seconds:
SIGKILL, SIGSTOP for ever (noticed by --detect-hang 2), or SIGSTOP for half a second, in equal shares. Goodput is the
undisturbed time divided by the disturbed one: the undisturbed training runs before and after, and their mean counts.
With --torchrun, a DistributedDataParallel training of the same model goes through the same kinds of faults, at moments
from the same seed, under torchrun (torch_storm.py): it saves every 200 steps, and notices a rank that hangs because a
collective call takes longer than two seconds; it is ended after five times --minutes. Prints a table. Exit code 1 when
a file differs or a run fails. BITRIFT_BIN_DIR names the folder of bitrift-train.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "e2e" / "train"))

from failure_support import RECOVERIES, Bases, Ended, Watched, digest, end_processes, marked_processes, ranks_of
from train_support import run

EVERY = 200  # steps between the checkpoints of those that need them
ALL = {**RECOVERIES, "relaunch": ("--on-failure", "relaunch", "--checkpoint-every", str(EVERY))}
KINDS = ("kill", "hang", "slow")
SLOW = 0.5  # seconds
HANG = 2  # seconds after which a rank that hangs is noticed
RANKS = 4
TORCH_STORM = Path(__file__).resolve().parent / "torch_storm.py"
NEVER = 1e12


def workers_of(mark: str) -> dict[int, int]:
    """The process of each rank of a job of torchrun."""
    found = {}
    for pid in marked_processes(mark):
        try:
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for word in words:
            if word.startswith(b"LOCAL_RANK="):
                found[int(word.partition(b"=")[2])] = pid
    return found


def strike(ranks: dict[int, int], kind: str, chance: random.Random) -> bool:
    if not ranks:
        return False
    victim = ranks[chance.choice(sorted(ranks))]
    try:
        os.kill(victim, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
        if kind == "slow":
            time.sleep(SLOW)
            os.kill(victim, signal.SIGCONT)
    except ProcessLookupError:
        return False
    return True


class Storm:
    """Faults at exponential times from now on; every: mean seconds between them."""

    def __init__(self, every: float, seed: int) -> None:
        self.chance, self.every = random.Random(seed), every
        self.faults = dict.fromkeys(KINDS, 0)
        self.due = time.monotonic() + self.chance.expovariate(1 / every)

    def look(self, ranks: Callable[[], dict[int, int]]) -> None:
        if time.monotonic() < self.due:
            return
        kind = self.chance.choice(KINDS)
        self.faults[kind] += strike(ranks(), kind, self.chance)
        self.due += self.chance.expovariate(1 / self.every)

    def __str__(self) -> str:
        return ", ".join(str(self.faults[kind]) for kind in KINDS)


def train(words: tuple[object, ...], every: float, seed: int) -> tuple[Ended, Storm]:
    """A run under faults."""
    with tempfile.TemporaryDirectory(prefix="bw-", ignore_cleanup_errors=True) as folder:
        job = Watched(words, Path(folder))
        job.line.wait(60)
        storm = Storm(every, seed)
        while job.process.poll() is None:
            storm.look(lambda: ranks_of(job.mark))
            time.sleep(0.02)
        return job.end(10, ()), storm


def torchrun(spec: Path, steps: int, every: float, seed: int, limit: float) -> tuple[float, int, Storm]:
    """The same under torchrun, for at most `limit` seconds: seconds since the first step, exit code, faults."""
    name, value = "BITRIFT_TEST_MARK", uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="bw-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", RANKS]
        command += ["--max-restarts", 1000, TORCH_STORM, spec, folder, steps, EVERY, HANG]
        job = subprocess.Popen(
            list(map(str, command)),
            env=os.environ | {"OMP_NUM_THREADS": "1", name: value},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while job.poll() is None and not (folder / "begun").exists():
            time.sleep(0.02)
        storm, until = Storm(every, seed), time.monotonic() + limit
        while job.poll() is None and time.monotonic() < until:
            storm.look(lambda: workers_of(f"{name}={value}"))
            time.sleep(0.02)
        end_processes(f"{name}={value}")
        job.wait()
        seconds = folder / "seconds"
        return float(seconds.read_text()) if seconds.exists() else float("nan"), job.returncode, storm


def beside_torchrun(spec: Path, options: argparse.Namespace) -> None:
    """Prints the rows of torchrun."""
    trial, limit = 300, 60 + 5 * 60 * options.minutes
    speed = torchrun(spec, trial, NEVER, options.seed, limit)[0] / trial
    steps = max(100, int(60 * options.minutes / speed))
    before = torchrun(spec, steps, NEVER, options.seed, limit)[0]
    seconds, code, storm = torchrun(spec, steps, options.every, options.seed, limit)
    after = torchrun(spec, steps, NEVER, options.seed, limit)[0]
    print(f"torchrun: {steps} steps; undisturbed {before:.1f} s before and {after:.1f} s after; exit code {code}")
    print(f"| torchrun | {storm} | | | {seconds:.1f} | {(before + after) / 2 / seconds:.3f} | |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--every", type=float, default=30)
    parser.add_argument("--recoveries", default="respawn,restart,relaunch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--torchrun", action="store_true")
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="bw-") as scratch:
        base, out = Bases(Path(scratch)).file("sgd"), Path(scratch) / "out.h5"
        layout = ("--parallel", "data", "--ranks", RANKS)
        speed = run("resume", base, "-o", out, *layout, "--steps", 1000)["seconds"] / 1000
        steps = max(100, int(60 * options.minutes / speed))
        words = ("resume", base, "-o", out, *layout, "--steps", steps, "--json")

        def quiet() -> float:
            ended, _ = train(words, NEVER, options.seed)
            return ended.ended - ended.began

        undisturbed = [quiet()]
        golden = digest(out)
        disturbed = {}
        for recovery in options.recoveries.split(","):
            out.unlink()
            ended, storm = train((*words, *ALL[recovery], "--detect-hang", HANG), options.every, options.seed)
            same = digest(out) == golden
            if ended.code != 0 or not same:
                wrong += 1
                lines = [line for line in ended.err.splitlines() if "info: epoch" not in line]
                print(f"WRONG {recovery}: exit code {ended.code}, same file: {same}", *lines, sep="\n", flush=True)
            disturbed[recovery] = (ended, storm, same)
        undisturbed.append(quiet())
        mean = sum(undisturbed) / 2
        print(f"{steps} steps; undisturbed {undisturbed[0]:.1f} s before and {undisturbed[1]:.1f} s after")
        print("| recovery | faults (kill, hang, slow) | recoveries | steps redone | seconds | goodput | same file |")
        for recovery, (ended, storm, same) in disturbed.items():
            known = ended.json()["recoveries"] if ended.code == 0 and '"recoveries"' in ended.out else []
            redone = sum(one["steps_redone"] for one in known)
            seconds = ended.ended - ended.began
            goodput = f"{mean / seconds:.3f}"
            print(f"| {recovery} | {storm} | {len(known)} | {redone} | {seconds:.1f} | {goodput} | {same} |")
        if options.torchrun:
            beside_torchrun(base.with_suffix(".json"), options)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{os.cpu_count()} cores, load average {load}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
