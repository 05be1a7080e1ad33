#!/usr/bin/env python3
"""A training in a storm of faults: how much of the time is useful, and does it end in the same file?

    python studies/storm.py [--minutes 30] [--every 30] [--recoveries respawn,restart,relaunch] [--seed 1]

Trains a LeNet on four ranks for a fixed number of steps, which take --minutes when nobody disturbs them, and again
under each recovery while faults strike a random rank from outside, at exponential times with a mean of --every seconds:
SIGKILL, SIGSTOP for ever (noticed by --detect-hang 2), or SIGSTOP for half a second, in equal shares. Goodput is the
undisturbed time divided by the disturbed one: the undisturbed training runs before and after, and their mean counts.
Prints a table. Exit code 1 when a file differs or a run fails. BITRIFT_BIN_DIR names the folder of bitrift-train.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "e2e" / "train"))

from failure_support import RECOVERIES, Bases, Ended, Watched, digest, ranks_of
from train_support import run

ALL = {**RECOVERIES, "relaunch": ("--on-failure", "relaunch", "--checkpoint-every", "200")}
KINDS = ("kill", "hang", "slow")
SLOW = 0.5  # seconds
NEVER = 1e12


def strike(job: Watched, kind: str, chance: random.Random) -> bool:
    ranks = ranks_of(job.mark)
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


def train(words: tuple[object, ...], every: float, chance: random.Random) -> tuple[Ended, dict[str, int]]:
    """A run under faults; every: mean seconds between them."""
    faults = dict.fromkeys(KINDS, 0)
    with tempfile.TemporaryDirectory(prefix="bw-", ignore_cleanup_errors=True) as folder:
        job = Watched(words, Path(folder))
        job.line.wait(60)
        due = time.monotonic() + chance.expovariate(1 / every)
        while job.process.poll() is None:
            if time.monotonic() < due:
                time.sleep(0.02)
                continue
            kind = chance.choice(KINDS)
            faults[kind] += strike(job, kind, chance)
            due += chance.expovariate(1 / every)
        return job.end(10, ()), faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--every", type=float, default=30)
    parser.add_argument("--recoveries", default="respawn,restart,relaunch")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="bw-") as scratch:
        base, out = Bases(Path(scratch)).file("sgd"), Path(scratch) / "out.h5"
        layout = ("--parallel", "data", "--ranks", 4)
        speed = run("resume", base, "-o", out, *layout, "--steps", 1000)["seconds"] / 1000
        steps = max(100, int(60 * options.minutes / speed))
        words = ("resume", base, "-o", out, *layout, "--steps", steps, "--json")

        def quiet() -> float:
            ended, _ = train(words, NEVER, chance)
            return ended.ended - ended.began

        undisturbed = [quiet()]
        golden = digest(out)
        disturbed = {}
        for recovery in options.recoveries.split(","):
            out.unlink()
            ended, faults = train((*words, *ALL[recovery], "--detect-hang", 2), options.every, chance)
            same = digest(out) == golden
            if ended.code != 0 or not same:
                wrong += 1
                lines = [line for line in ended.err.splitlines() if "info: epoch" not in line]
                print(f"WRONG {recovery}: exit code {ended.code}, same file: {same}", *lines, sep="\n", flush=True)
            disturbed[recovery] = (ended, faults, same)
        undisturbed.append(quiet())
        mean = sum(undisturbed) / 2
        print(f"{steps} steps; undisturbed {undisturbed[0]:.1f} s before and {undisturbed[1]:.1f} s after")
        print("| recovery | faults (kill, hang, slow) | recoveries | steps redone | seconds | goodput | same file |")
        for recovery, (ended, faults, same) in disturbed.items():
            known = ended.json()["recoveries"] if ended.code == 0 and '"recoveries"' in ended.out else []
            redone = sum(one["steps_redone"] for one in known)
            seconds = ended.ended - ended.began
            counts = ", ".join(str(faults[kind]) for kind in KINDS)
            goodput = f"{mean / seconds:.3f}"
            print(f"| {recovery} | {counts} | {len(known)} | {redone} | {seconds:.1f} | {goodput} | {same} |")
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{os.cpu_count()} cores, load average {load}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
