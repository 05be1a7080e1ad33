#!/usr/bin/env python3
"""Random ranks fail at random moments: does every run end in the undisturbed run's file, or say why it cannot?

    python studies/rank_failures.py [--kills 500] [--seed 1] [--jobs 1] [--patience 30]
    python studies/rank_failures.py --at-the-end [--kills 200] [--recoveries shrink,spare,respawn]

The first command has ranks end themselves at kill points. With --at-the-end another process kills a rank at a random
moment between the line of the last epoch and the end of the save, or soon after it; kills after it do not count as
kills, but their runs are judged, too.

BITRIFT_BIN_DIR names the folder that holds bitrift-train. Prints each run that is wrong or hangs, with its command, and
then a table: layout x recovery x phase. Exit code 1 when any run was wrong or hung. A run is right when its file equals
the undisturbed run's; where the deaths of a run took the last copy of a stage, a refusal that names the stage is right
too.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import enum
import itertools
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "e2e" / "train"))


from failure_support import (
    LAYOUTS,
    PHASES,
    RANKS,
    RECOVERIES,
    STEPS,
    Bases,
    Ended,
    Strike,
    digest,
    kill_at_end,
    step_of,
    time_to_save,
)

OPTIMIZERS = ("sgd", "adamw")  # tasks of failure_support.py
SITUATIONS = (*PHASES, "leave", "recovery", "together", "in turn")
ENDINGS = ("kill", "kill", "kill", "exit")


class Outcome(enum.Enum):
    equal = "equal"
    refused = "refused"
    unstruck = "unstruck"  # the run ended before the moment came, in the right file
    wrong = "wrong"
    hang = "hang"


@dataclasses.dataclass(frozen=True)
class Trial:
    optimizer: str
    layout: str
    recovery: str
    situation: str
    kills: tuple[tuple[int, str], ...]  # rank, "STEP:PHASE.POINT=HOW"
    snapshot_every: int | None
    state: str | None  # not from the file that the run began with

    def options(self) -> list[str]:
        words = list(RECOVERIES[self.recovery])
        if self.snapshot_every is not None:
            words += ["--snapshot-every", str(self.snapshot_every)]
        if self.state is not None:
            words += ["--state-from", self.state]
        for rank, moment in self.kills:
            words += ["--kill", f"{rank}@{moment}"]
        return words

    def may_lose_a_stage(self) -> bool:
        """Whether these deaths can take the last copy of a stage: live, of its snapshot, and in a file."""
        if self.state is None:
            return False
        dead = {rank for rank, _ in self.kills}
        snapshots = self.snapshot_every is not None or "restart" in self.recovery or self.layout == "pipeline"
        if self.layout == "pipeline":
            # A rank's snapshot is with itself and with the next one.
            return any((rank + 1) % RANKS["pipeline"] in dead for rank in dead)
        stages = 2 if self.layout == "hybrid" else 1
        replicas = RANKS[self.layout] // stages
        of_stage = collections.Counter(rank % stages for rank in dead)
        return max(of_stage.values()) == replicas and not snapshots


def random_trial(chance: random.Random, layout: str, recovery: str, situation: str) -> Trial:
    def moment(phase: str, step: int) -> str:
        return f"{step_of(phase, step)}:{phase}.{chance.randint(0, 8)}={chance.choice(ENDINGS)}"

    victims = chance.sample(range(RANKS[layout]), 2)
    step = chance.randint(1, STEPS)
    if situation in (*PHASES, "leave"):
        kills = [(victims[0], moment(situation, step))]
    elif situation == "recovery":
        first = chance.choice(("forward", "backward", "reduce", "update"))
        kills = [(victims[0], moment(first, step))]
        kills.append((victims[1], f"{step}:recovery.{chance.randint(0, 3)}={chance.choice(ENDINGS)}"))
    elif situation == "together":
        phase = chance.choice(PHASES)
        kills = [(victim, moment(phase, step)) for victim in victims]
    else:
        steps = chance.sample(range(1, STEPS + 1), 2)
        kills = [
            (victim, moment(chance.choice(PHASES[:4]), each))
            for victim, each in zip(victims, sorted(steps), strict=True)
        ]
    snapshot_every = chance.choice((None, None, 1, 3))
    no_file = "buddy" if snapshot_every is not None or layout == "pipeline" or "restart" in recovery else "replica"
    state = chance.choice((None, no_file))
    return Trial(chance.choice(OPTIMIZERS), layout, recovery, situation, tuple(kills), snapshot_every, state)


def judge(trial: Trial, ended: Ended, same: bool) -> tuple[Outcome, str]:
    """The outcome, and why it is wrong."""
    last = ended.errors[-1] if ended.errors else ended.err.strip().splitlines()[-1] if ended.err.strip() else ""
    if ended.hangs:
        return Outcome.hang, f"{len(ended.deaths)} ranks failed; {last}"
    if ended.left:
        return Outcome.wrong, f"{ended.left} processes are left"
    if ended.code == 0:
        if not same:
            return Outcome.wrong, "another file than the undisturbed run's"
        recovered = ended.json().get("recoveries", [])
        if ended.deaths and not recovered and trial.situation not in ("save", "evaluate", "leave"):
            return Outcome.wrong, "a rank failed, and the result says nothing of it"
        return (Outcome.equal if ended.deaths else Outcome.unstruck), ""
    names_a_stage = "cannot continue: " in last and "stage" in last and len(ended.errors) == 1
    if ended.code == 1 and names_a_stage and trial.may_lose_a_stage():
        return Outcome.refused, ""
    return Outcome.wrong, f"exit code {ended.code}: {last}"


@dataclasses.dataclass
class Row:
    counts: collections.Counter[Outcome] = dataclasses.field(default_factory=collections.Counter)
    kills: int = 0
    slowest: float = 0

    def add(self, outcome: Outcome, ended: Ended) -> None:
        self.counts[outcome] += 1
        self.kills += len(ended.deaths)
        self.slowest = max(self.slowest, ended.after_death)


def run_trial(bases: Bases, trial: Trial, patience: float) -> tuple[Trial, Ended, bool]:
    with tempfile.TemporaryDirectory(dir=bases.folder) as folder:
        out = Path(folder) / "out.h5"
        ended = bases.fail(trial.optimizer, trial.layout, out, *trial.options(), patience=patience)
        return trial, ended, digest(out) == bases.golden(trial.optimizer, trial.layout)


def print_table(table: dict[tuple[str, str, str], Row]) -> None:
    print(f"{'layout':<9} {'recovery':<16} {'phase':<9} {'runs':>5} {'kills':>5}", end="")
    print(*(f"{outcome.value:>8}" for outcome in Outcome), " slowest end after a kill")
    for key in sorted(table, key=lambda one: (one[0], one[1], SITUATIONS.index(one[2]))):
        row = table[key]
        layout, recovery, phase = key
        print(f"{layout:<9} {recovery:<16} {phase:<9} {row.counts.total():>5} {row.kills:>5}", end="")
        print(*(f"{row.counts[outcome]:>8}" for outcome in Outcome), f" {row.slowest:6.2f} s")


SPARES = {"spare": 2, "restart, spares": 2}


@dataclasses.dataclass(frozen=True)
class AtTheEnd:
    """A kill from outside."""

    task: str
    layout: str
    recovery: str
    victim: int
    share: float  # of the time from the last epoch's line to the file

    def options(self) -> tuple[str, ...]:
        if self.recovery == "relaunch":
            return ("--on-failure", "relaunch")  # no checkpoint on the way: the file would be there before its time
        return RECOVERIES[self.recovery]


def judge_end(ended: Ended, same: bool, files: list[str]) -> str:
    """Why the run is wrong; "" where it is right."""
    if ended.hangs:
        return "hangs"
    if ended.left:
        return f"{ended.left} processes are left"
    if ended.code != 0:
        return f"exit code {ended.code}: {ended.errors[-1] if ended.errors else ended.err.strip().splitlines()[-1:]}"
    if not same:
        return "another file than the undisturbed run's"
    if files != ["out.h5", "out.h5.json"]:
        return f"files are left: {files}"
    try:
        status = json.loads(ended.out)["status"]
    except json.JSONDecodeError as error:
        return f"the result is not one JSON document: {error}"
    return "" if status == "done" and not ended.errors else f"status {status}, {ended.errors}"


def study_the_end(options: argparse.Namespace) -> int:
    chance = random.Random(options.seed)
    recoveries = options.recoveries.split(",")
    cells = list(itertools.product(("sgd", "wide"), LAYOUTS, recoveries))
    rows: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    slowest: dict[str, float] = collections.defaultdict(float)
    began, kills, wrong = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        bases = Bases(Path(scratch))
        windows = {}
        for task, layout, recovery in cells:
            bases.golden(task, layout)
            out = Path(scratch) / "quiet" / f"{len(windows)}.h5"
            out.parent.mkdir(exist_ok=True)
            end = AtTheEnd(task, layout, recovery, 0, 0)
            words = bases.words(task, layout, out, *end.options())
            windows[task, layout, recovery] = time_to_save(*words, out=out)
        while kills < options.kills and time.monotonic() - began < options.seconds:
            task, layout, recovery = chance.choice(cells)
            # A spare is struck less often than a rank that works.
            spare = chance.random() < 0.1 and recovery in SPARES
            victim = RANKS[layout] + chance.randrange(SPARES[recovery]) if spare else chance.randrange(RANKS[layout])
            trial = AtTheEnd(task, layout, recovery, victim, chance.uniform(0, 1.2))
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                out = Path(folder) / "out.h5"
                words = bases.words(task, layout, out, *trial.options())
                delay = trial.share * windows[task, layout, recovery]
                ended, strike = kill_at_end(*words, out=out, victim=victim, delay=delay, patience=options.patience)
                why = judge_end(ended, digest(out) == bases.golden(task, layout), sorted(os.listdir(folder)))
            note_end(rows[recovery], ended, strike, why, spare)
            slowest[recovery] = max(slowest[recovery], ended.after_death)
            kills += strike.in_time
            wrong += bool(why)
            if why:
                print(f"WRONG {ended.after_death:.1f} s: {trial} {strike} | {why}\n{ended.err}", flush=True)
    kinds = ("in time", "rank 0", "a spare", "recovered", "after the save", "gone", "wrong")
    print(f"{'recovery':<16}", *(f"{kind:>14}" for kind in kinds), " slowest end after a kill")
    for recovery, row in rows.items():
        print(f"{recovery:<16}", *(f"{row[kind]:>14}" for kind in kinds), f" {slowest[recovery]:6.2f} s")
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        "from the line to the file, undisturbed: " + ", ".join(sorted(f"{one * 1000:.0f}" for one in windows.values())),
        "ms",
    )
    print(f"{kills} kills between the last epoch's line and the end of the save, {wrong} wrong runs")
    print(f"{time.monotonic() - began:.0f} s, {os.cpu_count()} cores, load average {load}")
    return 1 if wrong else 0


def note_end(row: collections.Counter[str], ended: Ended, strike: Strike, why: str, spare: bool) -> None:
    row["in time"] += strike.in_time
    row["rank 0"] += strike.in_time and strike.victim == 0
    row["a spare"] += strike.in_time and spare
    row["after the save"] += strike.hit and not strike.in_time
    row["gone"] += not strike.hit
    row["wrong"] += bool(why)
    row["recovered"] += not why and strike.in_time and bool(ended.json().get("recoveries"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500, help="ranks that fail, at least")
    parser.add_argument("--at-the-end", action="store_true", help="kill from outside, after the last epoch")
    parser.add_argument(
        "--recoveries",
        default="shrink,spare,respawn",
        help="with --at-the-end, of these and restart, relaunch, and 'restart, spares' alone",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--patience", type=float, default=30, help="seconds after a kill at which a run counts as hung")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no run after so many seconds")
    options = parser.parse_args()
    if options.at_the_end:
        return study_the_end(options)
    chance = random.Random(options.seed)
    began = time.monotonic()
    cells = list(itertools.product(LAYOUTS, RECOVERIES, SITUATIONS))
    table: dict[tuple[str, str, str], Row] = collections.defaultdict(Row)
    whole = Row()
    with tempfile.TemporaryDirectory() as folder:
        bases = Bases(Path(folder))
        for optimizer, layout in itertools.product(OPTIMIZERS, LAYOUTS):
            bases.golden(optimizer, layout)
        while whole.kills < options.kills and time.monotonic() - began < options.seconds:
            chance.shuffle(cells)
            trials = [random_trial(chance, *cell) for cell in cells]
            for first in range(0, len(trials), 4 * options.jobs):
                if whole.kills >= options.kills or time.monotonic() - began > options.seconds:
                    break
                with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                    part = trials[first : first + 4 * options.jobs]
                    for trial, ended, same in pool.map(lambda one: run_trial(bases, one, options.patience), part):
                        outcome, why = judge(trial, ended, same)
                        table[trial.layout, trial.recovery, trial.situation].add(outcome, ended)
                        whole.add(outcome, ended)
                        if why:
                            command = " ".join(trial.options())
                            where = f"{trial.optimizer} {' '.join(LAYOUTS[trial.layout])} {command}"
                            print(f"{outcome.value.upper()} {ended.after_death:.1f} s: {where} | {why}", flush=True)
    print_table(table)
    counts = ", ".join(f"{outcome.value} {whole.counts[outcome]}" for outcome in Outcome)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"{whole.kills} kills in {whole.counts.total()} runs: {counts}; slowest end after a kill {whole.slowest:.1f} s"
    )
    print(f"{time.monotonic() - began:.0f} s, {os.cpu_count()} cores, load average {load}")
    return 1 if whole.counts[Outcome.wrong] or whole.counts[Outcome.hang] else 0


if __name__ == "__main__":
    sys.exit(main())
