#!/usr/bin/env python3
"""How often the verdict of docs/outcomes.md is wrong, and what it is blind to: measured on the quickstart's training.

    python studies/verdict.py golden-tail|clean-rate|sensitivity|power DIR [--quick] [--workers N] [--seeds 2-59]

`golden-tail`: flips of low bits in campaigns over many bases, by this rule and by that of earlier versions.
`clean-rate`: clean runs and flipped seeds that are called SDC, by the number of clean runs that calibrate.
`sensitivity`: how many of all faults in the biases are SDC, by which clean runs calibrate.
`power`: planted falls of known size (verdict_power.py).

Campaigns run in folders below DIR and go on where they stopped; what is complete there is used again. The verdicts are
those of tests/e2e/witness/verdict.py, since campaigns are judged with parts of their clean runs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "e2e" / "witness"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "e2e" / "campaign"))

import verdict as witness
from campaign_support import BIN

ROOT = Path(__file__).resolve().parents[1]
SUBSETS = 200
FIRST_RULE = ("test_accuracy", "test_loss", "train_accuracy", "train_loss")  # what the rule of earlier versions judged
FIRST_RUNS = 20  # and its clean runs
Spec = dict[str, Any]


@dataclass(frozen=True)
class Study:
    """Where the campaigns lie, and how much is run."""

    place: Path
    quick: bool
    workers: int
    seeds: range

    def campaign(self, name: str, spec: Spec) -> witness.Arm:
        """The only arm of a campaign that ran to its end, now or earlier."""
        folder = self.place / name
        self.place.mkdir(parents=True, exist_ok=True)
        path = self.place / f"{name}.json"
        path.write_text(json.dumps(spec))
        if not (folder / "summary.json").exists():
            command = [BIN / "bitrift", "campaign", "run", path, "-o", folder, "--workers", str(self.workers)]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            if done.returncode == 1:  # what contradicts the stated level is what is looked for
                print(f"{name}: {done.stderr.strip().splitlines()[-1]}", flush=True)
            elif done.returncode != 0:
                sys.exit(f"{name}: {done.stderr}")
        (arm,) = witness.read_arms(folder)
        return arm


def quickstart(**changes: Any) -> Spec:
    """The arm `serial` alone, whatever accuracy its base has; `train` changes the base's training."""
    spec = json.loads((ROOT / "campaigns" / "quickstart.json").read_text())
    for key in ("$schema", "strata", "trials_per_stratum"):
        del spec[key]
    train = spec["base"]["train"] | changes.pop("train", {})
    return spec | {"base": {"train": train}, "arms": spec["arms"][:1]} | changes


def clopper_pearson(hits: float, runs: int) -> tuple[float, float]:
    """95 %, two-sided; `hits` may be a mean over calibrations."""
    low = stats.beta.ppf(0.025, hits, runs - hits + 1) if hits > 0 else 0.0
    high = stats.beta.ppf(0.975, hits + 1, runs - hits) if hits < runs else 1.0
    return float(low), float(high)


def share(hits: float, runs: int) -> str:
    low, high = clopper_pearson(hits, runs)
    return f"{hits:g} of {runs} = {hits / runs:.2%} [{low:.2%}, {high:.2%}]"


def subsets(random: np.random.Generator, total: int, size: int, many: int) -> Iterator[np.ndarray]:
    """Random sets of clean runs; one where there is only one."""
    for _ in range(1 if size == total else many):
        yield random.choice(total, size, replace=False)


def called_sdc(arm: witness.Arm, kind: str, chosen: Sequence[int] | None = None) -> np.ndarray:
    """For the rows of a kind, in file order, whether they are SDC with these clean runs."""
    ranked = np.array([ending is None for ending in arm.endings]) & arm.rank(chosen).sdc
    return ranked[[row["kind"] == kind for row in arm.judged]]


def called_by_first_rule(arm: witness.Arm, chosen: Sequence[int]) -> int:
    """Trials that are SDC by limits from normal theory for each metric, the rule before this one (rule 1)."""

    def last(row: Spec) -> list[float]:
        return [float(row["result"]["replicas"][0][-1][metric]) for metric in FIRST_RULE]

    clean = np.array([last(arm.envelope[i]) for i in chosen])
    n = len(clean)
    width = stats.t.ppf(0.99, n - 1) * clean.std(axis=0, ddof=1) * math.sqrt(1 + 1 / n)
    sign = np.array([1 if metric in witness.LOSSES else -1 for metric in FIRST_RULE])
    rows = zip(arm.judged, arm.endings, strict=True)
    trials = np.array([last(row) for row, ending in rows if row["kind"] == "trial" and ending is None])
    return int((sign * (trials - clean.mean(axis=0)) > width).any(axis=1).sum()) if len(trials) else 0


def tail_base(study: Study, seed: int) -> witness.Arm:
    strata = {"roles": ["weight"], "fields": ["mantissa"]}
    spec = quickstart(seed=20260101 + seed, train={"seed": seed}, strata=strata, trials_per_stratum=20)
    return study.campaign(f"tail-{seed}", spec)


def golden_tail(study: Study) -> None:
    """Nearly all of these flips are harmless, so what is called SDC mostly depends on where the golden run lies."""
    rows = []
    for seed in study.seeds:
        arm = tail_base(study, seed)
        flips = called_sdc(arm, "trial")
        first = [called_by_first_rule(arm, range(runs)) for runs in (FIRST_RUNS, len(arm.envelope))]
        rows.append((seed, len(flips), int(flips.sum()), *first))
        print(
            f"base seed {seed}: {rows[-1][2]} of {len(flips)} SDC; rule 1 with {FIRST_RUNS} runs {first[0]}", flush=True
        )
    total = sum(row[1] for row in rows)
    print(f"\n{len(rows)} campaigns, {total} mantissa flips\n")
    named = (("rule 2", 2), (f"rule 1, {FIRST_RUNS} clean runs", 3), ("rule 1, all clean runs", 4))
    for name, column in named:
        worst = max(rows, key=lambda row: row[column])
        called = sum(row[column] for row in rows)
        campaigns = sum(row[column] > 0 for row in rows)
        print(f"{name:<24} {share(called, total)}; in {campaigns} campaigns; worst: seed {worst[0]}, {worst[column]}")


def sizes(study: Study) -> tuple[int, ...]:
    return (20, 50) if study.quick else (20, 50, 100, 200)


def print_clean_rate(name: str, arm: witness.Arm, study: Study) -> None:
    """Prints, for one campaign, the mean over calibrations, and between which rates 95 % of the calibrations lie."""
    random = np.random.default_rng(1)
    print(f"\n{name}: held-out runs called SDC\n   n   stated  rate over all calibrations, 95 % for one  calibrations")
    for n in sizes(study):
        if n > len(arm.envelope):
            continue
        counts = [
            called_sdc(arm, "held_out", chosen).sum() for chosen in subsets(random, len(arm.envelope), n, SUBSETS)
        ]
        runs = sum(row["kind"] == "held_out" for row in arm.judged)
        low, high = np.percentile(counts, [2.5, 97.5]) / runs
        stated, likely = witness.levels(n, arm.rule.level)
        print(
            f"{n:>4} {stated:>7.2%}  {share(round(float(np.mean(counts)), 2), runs)}  {low:.2%} to {high:.2%}, "
            f"worst {max(counts) / runs:.2%}; 95 % should be below {likely:.2%}"
        )


def replica_spec(clean: int) -> Spec:
    """Under Horovod's semantics batch normalisation keeps each replica's own statistics, so their metrics differ."""
    model = {"name": "mlp", "hidden": [32], "norm": "batch"}
    return quickstart(
        train={"model": model},
        arms=[{"name": "data-8", "parallel": {"kind": "data", "ranks": 8, "semantics": "horovod"}}],
        strata={"roles": ["weight"], "fields": ["sign"]},
        trials_per_stratum=1,
        controls={"envelope": clean, "held_out": clean, "jitter": 0},
        analysis={"judge": "worst"},
    )


def seed_flips(study: Study, seed: int, clean: int) -> witness.Arm:
    """Every bit of the stored seed: a flip gives another data order and harms nothing."""
    tail_base(study, seed)
    spec = quickstart(
        seed=20260101 + seed,
        base={"checkpoint": f"tail-{seed}/base.h5"},
        strata={"roles": ["rng"], "fields": ["any"], "tensors": ["rng/seed"]},
        exhaustive=True,
        controls={"envelope": clean, "held_out": 0, "jitter": 0},
    )
    return study.campaign(f"seeds-{seed}", spec)


def print_seed_flips(study: Study, clean: int) -> None:
    arms = [seed_flips(study, seed, clean) for seed in study.seeds]
    random = np.random.default_rng(2)
    flips = sum(len(called_sdc(arm, "trial")) for arm in arms)
    print(f"\n{flips} flips of rng/seed over {len(arms)} bases: called SDC\n   n   stated  rate over all calibrations")
    for n in sizes(study):
        rates = []
        for arm in arms:
            found = [called_sdc(arm, "trial", chosen).mean() for chosen in subsets(random, clean, n, SUBSETS // 4)]
            rates.append(np.mean(found))
        bases = random.choice(rates, (10_000, len(rates))).mean(axis=1)  # flips of a base share its clean runs
        low, high = np.percentile(bases, [2.5, 97.5])
        stated = witness.levels(n, 0.01)[0]
        print(f"{n:>4} {stated:>7.2%}  {np.mean(rates):.2%} [{low:.2%}, {high:.2%}]; worst base {max(rates):.2%}")
    for n in (FIRST_RUNS, clean):
        called = sum(called_by_first_rule(arm, range(n)) for arm in arms)
        print(f"rule 1 with {n} clean runs: {called / flips:.2%}")


def clean_rate(study: Study) -> None:
    """Held-out runs of one campaign each, then flips of the stored seed."""
    clean = 50 if study.quick else 200
    strata = {"roles": ["weight"], "fields": ["sign"]}
    controls = {"envelope": clean, "held_out": 2 * clean, "jitter": 0}
    serial = quickstart(strata=strata, trials_per_stratum=1, controls=controls)
    print_clean_rate("serial", study.campaign("clean-serial", serial), study)
    arm = study.campaign("clean-replicas", replica_spec(clean))
    values = {json.dumps(one[-1]) for one in arm.envelope[0]["result"]["replicas"]}
    print_clean_rate(f"8 replicas with {len(values)} different results, the worst judged", arm, study)
    print_seed_flips(study, clean)


def sensitivity(study: Study) -> None:
    """The same faults, judged by other clean runs each time."""
    spec = quickstart(
        strata={"roles": ["bias"], "fields": ["sign", "exponent"]},
        controls={"envelope": 120 if study.quick else 400},
        **({"trials_per_stratum": 50} if study.quick else {"exhaustive": True}),
    )
    arm = study.campaign("sensitivity", spec)
    total, flips = len(arm.envelope), len(called_sdc(arm, "trial"))
    print(f"{flips} faults in biases, {SUBSETS} random sets of {total} clean runs: how many are called SDC\n")
    print("rule  clean runs    5 %  median   95 %  least   most")
    for rule, n in ((2, 99), (2, 20), (1, 99), (1, FIRST_RUNS)):
        counts = []
        for chosen in subsets(np.random.default_rng(3), total, n, SUBSETS):
            counts.append(called_sdc(arm, "trial", chosen).sum() if rule == 2 else called_by_first_rule(arm, chosen))
        low, middle, high = np.percentile(counts, [5, 50, 95])
        print(f"{rule:>4}  {n:>10} {low:>6g} {middle:>7g} {high:>6g} {min(counts):>6} {max(counts):>6}")
    print(f"with all {total} clean runs: {called_sdc(arm, 'trial').sum()}")
    crashed = sum(row["kind"] == "trial" for row, e in zip(arm.judged, arm.endings, strict=True) if e is not None)
    print(f"{crashed} crashed or are bitwise")


def power(study: Study) -> None:
    from verdict_power import measure_power

    strata = {"roles": ["weight"], "fields": ["sign"]}
    arm = study.campaign("power", quickstart(strata=strata, trials_per_stratum=1))
    measure_power(arm, study.place / "power", study.quick, study.workers)


STUDIES: dict[str, Callable[[Study], None]] = {
    "golden-tail": golden_tail,
    "clean-rate": clean_rate,
    "sensitivity": sensitivity,
    "power": power,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("place", type=Path, metavar="DIR", help="where campaigns run")
    parser.add_argument("--seeds", metavar="FIRST-LAST", help="of the bases (default 2-59)")
    parser.add_argument("--quick", action="store_true", help="four bases, fewer runs")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    first, last = map(int, (options.seeds or ("2-5" if options.quick else "2-59")).split("-"))
    seeds = range(first, last + 1)
    STUDIES[options.study](Study(options.place.resolve(), options.quick, options.workers, seeds))


if __name__ == "__main__":
    main()
