#!/usr/bin/env python3
"""Random ranks fail at random moments: does every run end in the undisturbed run's file, or say why it cannot?

    python tests/studies/rank_failures.py [--kills 500] [--seed 1] [--jobs 1] [--patience 30]

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
import os
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e" / "train"))

from failure_support import LAYOUTS, PHASES, RANKS, RECOVERIES, STEPS, Bases, Ended, digest, step_of

OPTIMIZERS = ("sgd", "adamw")  # tasks of failure_support.py
SITUATIONS = (*PHASES, "recovery", "together", "in turn")
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
    if situation in PHASES:
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
        if ended.deaths and not recovered and trial.situation not in ("save", "evaluate"):
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500, help="ranks that fail, at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--patience", type=float, default=30, help="seconds after a kill at which a run counts as hung")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no run after so many seconds")
    options = parser.parse_args()
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
