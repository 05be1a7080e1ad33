#!/usr/bin/env python3
"""Ranks that hang and ranks that are only slow: are the first ended, and the second left alone?

    python studies/hangs.py [--hangs 100] [--slow 100] [--minutes 60 --load 20] [--seed 1]

Strikes trainings of a LeNet on four ranks at random moments:

- a hang is SIGSTOP, or an endless loop or sleep in a signal handler that a preloaded library brings. With
  `--detect-hang 1` the rank has to be ended, and the run to write the undisturbed run's file;
- a slow rank is stopped for 0.1 to 2 s and continued, with the default limit. No rank may be ended.

Then trains for some minutes beside so many busy processes, with the default limit: no rank may be ended. Needs a C
compiler (cc). BITRIFT_BIN_DIR names the folder that holds bitrift-train. Prints each run that is wrong, and a table.
Exit code 1 when any was.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "e2e" / "train"))

from failure_support import LAYOUTS, RECOVERIES, Bases, Ended, Watched, digest, ranks_of
from train_support import run

LIMIT = 1.0  # seconds, of --detect-hang where ranks hang
STEPS = 600
ALL = {**RECOVERIES, "relaunch": ("--on-failure", "relaunch", "--checkpoint-every", "50")}
STUCK = """
#include <signal.h>
#include <unistd.h>
static void spin(int s) { for (volatile int i = s;; ++i) {} }
static void sleep_for_ever(int s) { (void)s; for (;;) pause(); }
__attribute__((constructor)) static void begin(void) { signal(SIGUSR2, spin); signal(SIGPROF, sleep_for_ever); }
"""
HANGS = {"stopped": signal.SIGSTOP, "endless loop": signal.SIGUSR2, "endless sleep": signal.SIGPROF}


def stuck_library(folder: Path) -> Path:
    source = folder / "stuck.c"
    source.write_text(STUCK)
    library = folder / "stuck.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    return library


class Trainings:
    """Runs of STEPS steps, and the files that undisturbed ones write."""

    def __init__(self, folder: Path) -> None:
        self.bases = Bases(folder)
        self.folder = folder
        self._golden: dict[str, str] = {}

    def words(self, layout: str, out: Path, *options: object) -> tuple[object, ...]:
        steps = ("--steps", STEPS, *LAYOUTS[layout])
        return ("resume", self.bases.file("sgd"), "-o", out, *steps, "--json", *options)

    def golden(self, layout: str) -> str:
        if layout not in self._golden:
            out = self.folder / f"{layout}.h5"
            run(*self.words(layout, out)[:-1])
            self._golden[layout] = digest(out)
        return self._golden[layout]

    def struck(self, chance: random.Random, *options: object) -> tuple[str, Watched, tempfile.TemporaryDirectory[str]]:
        """A run a moment after its first evaluation."""
        layout = chance.choice(list(LAYOUTS))
        self.golden(layout)
        folder = tempfile.TemporaryDirectory(prefix="bh-", ignore_cleanup_errors=True)
        job = Watched(self.words(layout, Path(folder.name) / "out.h5", *options), Path(folder.name))
        if job.line.wait(60):
            time.sleep(chance.uniform(0, 0.5))
        return layout, job, folder


def judge(ended: Ended, same: bool, hung: bool) -> str:
    """Why a run is wrong; "" where it is right."""
    alarms = ended.err.count("ending it (--detect-hang")
    if ended.hangs:
        return "hangs"
    if ended.code != 0 or not same or ended.left:
        return f"exit code {ended.code}, {'the same' if same else 'another'} file, {ended.left} processes left"
    # A rank that hangs in MPI looks like one that waits: another may be ended first.
    return "" if alarms in ((1, 2) if hung else (0,)) else f"{alarms} ranks ended"


def strike(trainings: Trainings, chance: random.Random, hung: bool) -> tuple[str, str, float, str]:
    """Kind, why the run is wrong, seconds from the strike to its end, and what it said; kind "": it was over first."""
    recovery = chance.choice(list(ALL))
    options = [*ALL[recovery], *(("--detect-hang", LIMIT) if hung else ())]
    layout, job, folder = trainings.struck(chance, *options)
    kind = chance.choice(list(HANGS)) if hung else "slow"
    with folder:
        ranks = ranks_of(job.mark)
        if not ranks or job.process.poll() is not None:
            job.end(60, ())
            return "", "", 0, ""
        victim = ranks[chance.choice(sorted(ranks))]
        began = time.monotonic()
        try:
            os.kill(victim, HANGS.get(kind, signal.SIGSTOP))
            if not hung:
                time.sleep(chance.uniform(0.1, 2))
                os.kill(victim, signal.SIGCONT)
        except ProcessLookupError:
            pass
        ended = job.end(60, ())
        same = digest(Path(folder.name) / "out.h5") == trainings.golden(layout)
        over = not ended.hangs and ended.ended - began < 0.9 * LIMIT and hung  # it was struck after its last step
        why = "" if over else judge(ended, same, hung)
        no_copy = layout == "pipeline" and "cannot continue" in ended.err
        return ("" if over or no_copy else kind), ("" if no_copy else why), ended.ended - began, ended.err


def under_load(trainings: Trainings, minutes: float, load: int, chance: random.Random) -> tuple[int, int]:
    """Runs, and ranks that were ended, beside `load` busy processes."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(load)]
    runs = alarms = 0
    end = time.monotonic() + 60 * minutes
    try:
        while time.monotonic() < end:
            _, job, folder = trainings.struck(chance, *ALL[chance.choice(list(ALL))])
            with folder:
                ended = job.end(600, ())
            runs += 1
            alarms += ended.err.count("ending it (--detect-hang")
            if ended.code != 0:
                print(f"WRONG under load: exit code {ended.code}\n{ended.err}", flush=True)
                alarms += 1
    finally:
        for one in busy:
            one.kill()
            one.wait()
    return runs, alarms


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hangs", type=int, default=100)
    parser.add_argument("--slow", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--load", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    wrong = 0
    rows: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="bh-") as scratch:
        os.environ["LD_PRELOAD"] = str(stuck_library(Path(scratch)))
        trainings = Trainings(Path(scratch))
        for hung, wanted in ((True, options.hangs), (False, options.slow)):
            done = 0
            while done < wanted:
                kind, why, seconds, said = strike(trainings, chance, hung)
                if not kind and not why:
                    continue
                done += 1
                rows.setdefault(kind, []).append(seconds)
                if why:
                    wrong += 1
                    print(f"WRONG {kind}: {why}\n{said}", flush=True)
        for kind, seconds in rows.items():
            median, most = statistics.median(seconds), max(seconds)
            print(f"{kind}: {len(seconds)} runs, ended {median:.2f} s after the strike (median; at most {most:.2f} s)")
        print(f"{wrong} wrong runs")
        if options.minutes:
            runs, alarms = under_load(trainings, options.minutes, options.load, chance)
            print(f"{options.minutes:g} min beside {options.load} busy processes: {runs} runs, {alarms} ranks ended")
            wrong += alarms
    print(f"{os.cpu_count()} cores, load average {', '.join(f'{value:.1f}' for value in os.getloadavg())}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
