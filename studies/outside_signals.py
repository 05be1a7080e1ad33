#!/usr/bin/env python3
"""Signals from outside at random moments of a run's whole life: does every run end, rightly, and leave nothing?

    python studies/outside_signals.py [--signals 500] [--seed 1] [--recoveries shrink,relaunch]

Each run gets one signal (SIGKILL, SIGSEGV, SIGABRT, SIGTERM, or SIGSTOP with --detect-hang) in one rank, or SIGKILL in
mpirun, at a moment drawn evenly from its start to beyond its end. A third of the runs are struck before the training
begins. BITRIFT_BIN_DIR names the folder that holds bitrift-train.

A run is right if it ends within --patience seconds of the signal, leaves no process, no file and no shared memory of
its own, and either writes the undisturbed run's file with exit code 0, or, where nothing recovers (recovery `none`, a
lost mpirun, a stage of which nobody has a copy), ends with one line of error. Prints each run that is wrong, and a
table. Exit code 1 when any was.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "e2e" / "train"))

from failure_support import LAYOUTS, RECOVERIES, Bases, Ended, Watched, digest, ranks_of, segments

ALL = {
    **RECOVERIES,
    "expand": ("--on-failure", "shrink", "--expand-after", "2"),
    "relaunch": ("--on-failure", "relaunch"),
    "none": ("--on-failure", "none"),
}
SIGNALS = ("SIGKILL", "SIGKILL", "SIGSEGV", "SIGABRT", "SIGTERM", "SIGSTOP")
LONG = 1.0  # of --detect-hang


def mpirun_of(job: Watched) -> int | None:
    """The process whose children the ranks are."""
    for rank in ranks_of(job.mark).values():
        try:
            return int(Path(f"/proc/{rank}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    return None


def judge(ended: Ended, same: bool, left: list[str], may_end: bool) -> str:
    """Why a run is wrong; "" where it is right."""
    if ended.hangs:
        return "hangs"
    if ended.left or left:
        return f"left: {ended.left} processes, {left}"
    if ended.code == 0:
        return "" if same else "another file than the undisturbed run's"
    if not may_end:
        return f"exit code {ended.code}"
    return "" if len(ended.errors) == 1 else f"exit code {ended.code} and {len(ended.errors)} lines of error"


def life_of(bases: Bases, layout: str, words: list[object]) -> tuple[float, float]:
    """Seconds from the start of a run that nobody disturbs to the line of its epoch, and to its end."""
    with tempfile.TemporaryDirectory(prefix="bo-") as folder:
        job = Watched(bases.words("sgd", layout, Path(folder) / "quiet.h5", *words), Path(folder))
        job.line.wait(60)
        whole = job.end(60, ())
        return job.line_time - job.began, whole.ended - whole.began


def strike(job: Watched, kind: signal.Signals | None, chance: random.Random) -> tuple[bool, set[str]]:
    """Sends the signal to a rank, or SIGKILL to mpirun for None; waits for the first rank. Returns whether the process
    was still there, and the shared memory that the ranks had open.
    """
    ranks = ranks_of(job.mark)
    while not ranks and job.process.poll() is None and not job.line.is_set():
        ranks = ranks_of(job.mark)
    target = mpirun_of(job) if kind is None else (chance.choice(sorted(ranks.values())) if ranks else None)
    seen = segments(ranks.values())
    if target is None:
        return False, seen
    try:
        os.kill(target, kind or signal.SIGKILL)
    except ProcessLookupError:
        return False, seen
    return True, seen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--signals", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--recoveries", default="shrink,expand,spare,respawn,restart,relaunch,none")
    parser.add_argument("--patience", type=float, default=30)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no run after so many seconds")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    began, struck, wrong = time.monotonic(), 0, 0
    rows: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    lives: dict[tuple[str, str], tuple[float, float]] = {}
    with tempfile.TemporaryDirectory(prefix="bo-") as scratch:
        bases = Bases(Path(scratch))
        while struck < options.signals and time.monotonic() - began < options.seconds:
            layout, recovery = chance.choice(list(LAYOUTS)), chance.choice(options.recoveries.split(","))
            words = [*ALL[recovery], "--detect-hang", LONG]
            bases.golden("sgd", layout)
            if (layout, recovery) not in lives:
                lives[layout, recovery] = life_of(bases, layout, words)
            line, life = lives[layout, recovery]
            moment = chance.uniform(0, line) if chance.random() < 1 / 3 else chance.uniform(0, 1.1 * life)
            name = chance.choice(SIGNALS)
            at_mpirun = chance.random() < 0.1
            with tempfile.TemporaryDirectory(prefix="bo-") as folder:
                out, temporary = Path(folder) / "out.h5", Path(folder) / "tmp"
                temporary.mkdir()
                job = Watched(bases.words("sgd", layout, out, *words), temporary)
                time.sleep(max(0.0, job.began + moment - time.monotonic()))
                hit, seen = strike(job, None if at_mpirun else getattr(signal, name), chance)
                early = hit and not job.line.is_set()
                ended = job.end(options.patience, (time.monotonic(),) if hit else ())
                left = [str(path) for path in temporary.glob("bitrift*")]
                left += [name for name in seen if os.path.exists(name)]
                may_end = hit and (recovery == "none" or (at_mpirun and recovery != "relaunch"))
                no_copy = "cannot continue" in ended.err and layout == "pipeline"
                why = judge(ended, digest(out) == bases.golden("sgd", layout), left, may_end or no_copy)
            struck += hit
            wrong += bool(why)
            row = rows[recovery]
            row["runs"] += 1
            row["struck"] += hit
            row["before the last epoch's line"] += early
            row["started again"] += "starting the ranks again" in ended.err
            row["same file"] += ended.code == 0
            row["one line"] += not ended.hangs and ended.code != 0 and not why
            row["wrong"] += bool(why)
            if why:
                where = f"{layout} {recovery} {'mpirun' if at_mpirun else name} after {moment:.3f} of {life:.3f} s"
                print(f"WRONG {where} | {why}\n{ended.err}", flush=True)
    kinds = ("runs", "struck", "before the last epoch's line", "started again", "same file", "one line", "wrong")
    print("| recovery |", " | ".join(kinds), "|")
    for recovery, row in rows.items():
        print(f"| {recovery} |", " | ".join(str(row[kind]) for kind in kinds), "|")
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{struck} signals, {wrong} wrong runs")
    print(f"{time.monotonic() - began:.0f} s, {os.cpu_count()} cores, load average {load}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
