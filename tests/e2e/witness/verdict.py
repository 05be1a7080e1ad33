"""The verdict of docs/outcomes.md a second time, from the document alone: by NumPy and SciPy, without bitrift.

    python tests/e2e/witness/verdict.py DIR [--horizon N] [--level L] [--judge worst|rank0] [--metric M]... [--rows]

prints what the rule says of every arm of a campaign's folder.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from campaign_support import crc32c
from verdict_rank import (
    ACCURACIES,
    LOSSES,
    Array,
    Ranked,
    Row,
    badness,
    false_sdc_bound,
    false_sdc_chance,
    largest_rank,
    levels,
    rank,
    smallest_change,
    smallest_fall,
    smallest_rise,
)

JUDGED = ("trial", "held_out", "jitter", "canary")
TRAINING = ("train_accuracy", "train_loss")
TEST = ("test_accuracy", "test_capped_loss", "test_loss")
LEAST_RUNS = 20
CONTRADICTION = 0.001  # a count of false SDCs that is less likely than this refutes the stated level
CLASSES = {
    "exception": "crash",
    "signal": "crash",
    "hang": "crash",
    "rejected": "crash",
    "nonfinite": "crash",
    "unrecovered": "crash",
    "bitwise": "masked",
    "within_noise": "masked",
    "reconverged": "masked",
    "low_test_accuracy": "SDC",
    "high_test_loss": "SDC",
    "worse_metric": "SDC",
    "training_only": "SDC",
}


class Refused(Exception):
    """The rule gives no verdict for such a campaign."""


@dataclass(frozen=True)
class Rule:
    """What the spec, or whoever asks, leaves open."""

    metrics: tuple[str, ...] = ("test_accuracy", "test_capped_loss")
    level: float = 0.01
    judge: str = "worst"
    confidence: float = 0.95
    alone: frozenset[str] = frozenset()  # arms in which ranks fail and nothing recovers
    horizon: int | None = None  # evaluation after the resume, the first being 1; None: the last


@dataclass(frozen=True)
class Verdict:
    """One row's."""

    kind: str
    arm: str
    stratum: str
    draw: int
    outcome: str
    reason: str
    course: str | None = None
    p_value: float | None = None  # None where no rank decided: crashes, bitwise, canaries of zero steps
    steps_to_recover: int | None = None


@dataclass(frozen=True)
class FalseSdc:
    """How many of the clean runs that are judged like trials were not masked."""

    runs: int
    sdc: int
    crash: int
    bound: float  # largest rate that is not refuted, one-sided
    chance: float  # of so many or more, if the stated level is right

    @property
    def contradicts(self) -> bool:
        return self.chance < CONTRADICTION


def read_rows(folder: Path) -> list[Row]:
    """The effective rows of a journal, by docs/journal.md; throws ValueError on damage before the last line."""
    rows: dict[str, Row] = {}
    whole, _, _ = (Path(folder) / "trials.jsonl").read_bytes().rpartition(b"\n")  # what follows was torn
    for number, line in enumerate(whole.split(b"\n"), 1):
        prefix, _, tail = line.partition(b',"row":')
        if prefix != b'{"crc32c":"%08x"' % crc32c(tail[:-1]):
            raise ValueError(f"trials.jsonl:{number}: the checksum does not fit")
        row = json.loads(tail[:-1])
        if row["kind"] == "retract":
            for name in row["ids"]:
                rows.pop(name, None)
        else:
            rows.setdefault("{arm}/{stratum}/{draw}".format(**row["id"]), row)
    for row in rows.values():
        for replica in row.get("result", {}).get("replicas", []):
            replica[:] = map(with_own_metrics, replica)
    return list(rows.values())


def with_own_metrics(evaluation: Row) -> Row:
    """Metrics of a program's own, {"lower_is_better": {"perplexity": 8}}, as "perplexity=lower": 8."""
    flat = {key: value for key, value in evaluation.items() if not isinstance(value, dict)}
    for direction in ("lower", "higher"):
        own = evaluation.get(f"{direction}_is_better", {})
        flat |= {f"{name}={direction}": value for name, value in own.items()}
    return flat


def rule_of(spec: Row, **changes: Any) -> Rule:
    """As the stored spec says, or as asked."""
    stored = {key: value for key, value in spec.get("analysis", {}).items() if key in Rule.__dataclass_fields__}
    asked = stored | {key: value for key, value in changes.items() if value is not None}
    processes = "process" in spec.get("strata", {})
    alone = frozenset(
        arm["name"] for arm in spec.get("arms", []) if processes and arm.get("recovery", "none") == "none"
    )
    metrics = tuple(map(metric_of, asked.get("metrics", Rule.metrics)))
    return Rule(**asked | {"metrics": metrics, "alone": alone})


def metric_of(named: str | dict[str, str]) -> str:
    """A spec's {"perplexity": "lower"} as "perplexity=lower"."""
    return named if isinstance(named, str) else "{}={}".format(*next(iter(named.items())))


class Arm:
    """The rows of one arm, to be judged with all its envelope runs or with some of them."""

    def __init__(self, name: str, rows: Sequence[Row], rule: Rule):
        self.name, self.rule = name, rule
        self.golden: dict[int, Row] = {}
        self.zero: Row | None = None
        controls = [row for row in rows if row["kind"] == "control"]
        for row in controls:
            self.take_control(row)
        self.envelope = [row for row in rows if row["kind"] == "envelope"]
        self.judged = [row for row in rows if row["kind"] in JUDGED]
        if 0 not in self.golden:
            raise Refused(f"{name}: no golden run")
        self.length = len(self.golden[0]["result"]["replicas"][0])
        self.horizon = self.length if rule.horizon is None else rule.horizon
        if not 1 <= self.horizon <= self.length:
            raise Refused(f"{name}: there is no evaluation {rule.horizon}")
        self.rule = replace(rule, metrics=self.judged_metrics(rule.metrics))
        for row in [*controls, *self.envelope]:
            self.must_be_healthy(row)
        for row in self.judged:
            self.must_be_whole(row)

    def judged_metrics(self, metrics: tuple[str, ...]) -> tuple[str, ...]:
        """Several metrics go without a usual one that no clean run has; without a choice, a program's own join them."""
        if len(metrics) == 1:
            return metrics
        evaluations = [row["result"]["replicas"][0][self.horizon - 1 :][:1] for row in self.envelope if "result" in row]
        found = {metric for last in evaluations for one in last for metric in one}
        kept = tuple(metric for metric in metrics if metric in found or metric not in Rule.metrics)
        own = sorted(metric for metric in found if "=" in metric) if metrics == Rule.metrics else []
        return (*kept, *own) or ("test_loss",)

    def take_control(self, row: Row) -> None:
        if row["id"]["stratum"] == "control:zero":
            self.zero = row
            return
        first = self.golden.setdefault(row.get("order", 0), row)
        for key in ("replicas", "final_digest", "replica_digests"):
            if first.get("result", {}).get(key) != row.get("result", {}).get(key):
                raise Refused(f"{self.name}: no-flip runs differ in {key}")

    def must_be_healthy(self, row: Row) -> None:
        result = row.get("result", {})
        values = [float(value) for one in result.get("replicas", []) for step in one for value in step.values()]
        if result.get("status") != "done" or not np.isfinite(values).all():
            raise Refused(f"{self.name}: the clean run {row['id']} failed or is not finite")
        if row is not self.zero and len(result["replicas"][0]) != self.length:
            raise Refused(f"{self.name}: the clean run {row['id']} has another number of evaluations")

    def must_be_whole(self, row: Row) -> None:
        done = row.get("result", {}).get("status") == "done"
        if done and not self.is_zero_step(row) and len(row["result"]["replicas"][0]) != self.length:
            raise Refused(f"{self.name}: {row['id']} is finished and has another number of evaluations")

    def is_zero_step(self, row: Row) -> bool:
        """A canary that took no step; a trial never is one."""
        replicas = row.get("result", {}).get("replicas") or [[]]
        return row["kind"] == "canary" and [one["step"] for one in replicas[0]] == [0]

    def golden_of(self, row: Row) -> Row:
        """The golden run of its own data order; held-out runs, whose orders have none, go with the checkpoint's own."""
        return self.golden[row.get("order", 0)]["result"]

    def values(self, result: Row, evaluations: int) -> Array:
        """(evaluations, metrics)."""
        table = np.full((evaluations, len(self.rule.metrics)), np.nan)
        for e, replicas in enumerate(zip(*result["replicas"], strict=True)):
            if e < evaluations:
                table[e] = [badness(replicas, metric, self.rule.judge) for metric in self.rule.metrics]
        return table

    @cached_property
    def clean(self) -> Array:
        """(envelope runs, evaluations up to the horizon, metrics)."""
        if len(self.envelope) < LEAST_RUNS:
            raise Refused(f"{self.name}: {len(self.envelope)} envelope runs, at least {LEAST_RUNS} are needed")
        found = np.array([self.values(row["result"], self.horizon) for row in self.envelope])
        goldens = np.array([self.values(row["result"], self.horizon) for row in self.golden.values()])
        if np.isnan(found).any() or np.isnan(goldens).any():
            raise Refused(f"{self.name}: rows do not have all of {', '.join(self.rule.metrics)}")
        return found

    @cached_property
    def endings(self) -> list[str | None]:
        """Reasons that need no ranking, of the judged rows; None for the others."""
        return [self.ending(row) for row in self.judged]

    def ending(self, row: Row) -> str | None:
        if "failure" in row:
            processes = any("process" in fault for fault in row["faults"])
            alone = self.name in self.rule.alone or row["id"]["stratum"] == "canary:no-recovery"
            reason = row["failure"]["reason"]
            return "unrecovered" if processes and alone and reason != "hang" else reason
        result, golden = row["result"], self.golden_of(row)
        zero_step = self.is_zero_step(row)
        horizon = 1 if zero_step else self.horizon
        final_step = golden["replicas"][0][horizon - 1]["step"]
        evaluations = min((len(one) for one in result["replicas"]), default=0)
        stopped = evaluations < horizon or self.horizon == self.length  # the last horizon is the whole run
        if result["status"] == "rejected" and stopped:
            return "rejected"
        if result["status"] == "unrecovered" and stopped:
            return "unrecovered"
        values = [float(v) for one in result["replicas"] for step in one[:horizon] for v in step.values()]
        broken = not np.isfinite(values).all() or result.get("nonfinite_step", math.inf) < final_step
        if broken or (result["status"] == "nonfinite" and stopped):
            return "nonfinite"
        same = all(result[key] == golden[key] for key in ("final_digest", "replica_digests"))
        if horizon < self.length and not zero_step:
            same = same and result.get("returned_step", math.inf) <= final_step
        return "bitwise" if same and result["status"] == "done" else None

    @cached_property
    def measured(self) -> tuple[Array, Array]:
        """The badness of judged rows and of their golden runs; rows that crashed are NaN."""
        judged = np.full((len(self.judged), self.horizon, len(self.rule.metrics)), np.nan)
        golden = np.full(judged.shape, np.nan)
        for i, (row, ending) in enumerate(zip(self.judged, self.endings, strict=True)):
            golden[i] = self.values(self.golden_of(row), self.horizon)
            if CLASSES.get(ending or "") != "crash" and not self.is_zero_step(row):
                judged[i] = self.values(row["result"], self.horizon)
        return judged, golden

    def floors(self, clean: Array) -> list[float]:
        """The floor of each metric; refuses a metric in which all these clean runs are the same."""
        found = []
        targets = self.golden[0]["result"].get("test_targets")
        all_same = (np.ptp(clean[:, -1], axis=0) == 0).all()
        for m, metric in enumerate(self.rule.metrics):
            steps = np.diff(np.unique(clean[:, -1, m]))
            counted = metric in ACCURACIES and targets is not None
            if not len(steps) and (all_same or not counted):
                raise Refused(f"{self.name}: {metric} is the same in all clean runs")
            found.append(1e-9 if metric in LOSSES else 1 / targets if counted else steps.min())
        return found

    def rank(self, chosen: Sequence[int] | None = None) -> Ranked:
        """All judged rows among the chosen envelope runs (by index), or among all of them."""
        clean = self.clean if chosen is None else self.clean[np.asarray(chosen)]
        r = largest_rank(self.rule.level, len(clean))
        return rank(clean, *self.measured, self.floors(clean), r)

    def verdicts(self, chosen: Sequence[int] | None = None) -> list[Verdict]:
        ranked = self.rank(chosen)
        parts = zip(self.judged, self.endings, ranked.outside, ranked.p_values, strict=True)
        return [self.verdict(*part) for part in parts]

    def verdict(self, row: Row, ending: str | None, outside: Array, p: float) -> Verdict:
        name = row["kind"], row["id"]["arm"], row["id"]["stratum"], row["id"]["draw"]
        if ending is not None:
            return Verdict(*name, CLASSES[ending], ending)
        p_value = None if math.isnan(p) else float(p)
        if self.is_zero_step(row):
            reason = sdc_reason(self.worse_as_loaded(row))
            return Verdict(*name, "SDC", reason) if reason else Verdict(*name, "masked", "within_noise")
        reason = sdc_reason([m for m, out in zip(self.rule.metrics, outside[-1], strict=True) if out])
        anywhere = outside.any(axis=1)
        if reason:
            return Verdict(*name, "SDC", reason, course_of(anywhere), p_value)
        if not anywhere.any():
            return Verdict(*name, "masked", "within_noise", None, p_value)
        back = int(np.flatnonzero(anywhere)[-1]) + 1
        steps = row["result"]["replicas"][0][back]["step"]
        return Verdict(*name, "masked", "reconverged", None, p_value, steps)

    def worse_as_loaded(self, row: Row) -> list[str]:
        """Test metrics, judged or not, in which a canary of no step is worse than the zero-step run."""
        if self.zero is None:
            raise Refused(f"{self.name}: no zero-step run")

        def value(result: Row, metric: str) -> float:
            return badness([one[0] for one in result["replicas"]], metric, self.rule.judge)

        own = [metric for metric in self.rule.metrics if "=" in metric]
        return [m for m in (*TEST, *own) if value(row["result"], m) > value(self.zero["result"], m)]

    def false_sdcs(self, kind: str, chosen: Sequence[int] | None = None) -> FalseSdc:
        """How many held-out or jitter runs are called SDC."""
        n = len(self.envelope) if chosen is None else len(chosen)
        found = Counter(one.outcome for one in self.verdicts(chosen) if one.kind == kind)
        runs, bad = found.total(), found["SDC"] + found["crash"]
        bound = false_sdc_bound(bad, runs, self.rule.confidence)
        return FalseSdc(runs, found["SDC"], found["crash"], bound, false_sdc_chance(bad, runs, n, self.rule.level))

    def units(self) -> Array:
        """The unit of each metric at the horizon, from the envelope runs alone."""
        last = self.clean[:, -1]
        spread = 1.4826 * np.median(np.abs(last - np.median(last, axis=0)), axis=0)
        return np.maximum(spread, self.floors(self.clean))

    def jitter_distance(self) -> float | None:
        """How far jitter runs end from their golden run in any metric, in units; None without one that ended."""
        judged, golden = self.measured
        jitter = [i for i, row in enumerate(self.judged) if row["kind"] == "jitter"]
        distances = (np.abs(judged - golden)[jitter, -1] / self.units()).ravel()
        distances = distances[~np.isnan(distances)]
        return float(distances.max()) if len(distances) else None

    def resolution(self, chosen: Sequence[int] | None = None) -> dict[str, float | None]:
        """The smallest change of each metric against the golden run that is an SDC, the largest one of several orders.

        Rises of losses are shares of the golden run's. None: no change is. Accuracies need the number of test targets.
        """
        clean = self.clean if chosen is None else self.clean[np.asarray(chosen)]
        last, floors, r = clean[:, -1], self.floors(clean), largest_rank(self.rule.level, len(clean))
        found: dict[str, float | None] = {}
        for m, metric in enumerate(self.rule.metrics):
            changes = []
            for row in self.golden.values():
                golden = self.values(row["result"], self.horizon)[-1]
                if metric in LOSSES:
                    changes.append(smallest_rise(last, golden, m, floors, r))
                elif metric not in ACCURACIES:
                    changes.append(smallest_change(last, golden, m, floors, r))
                else:
                    changes.append(smallest_fall(last, golden, m, floors, r, row["result"]["test_targets"]))
            found[metric] = None if None in changes else max(changes)
        return found


def sdc_reason(outside: Sequence[str]) -> str | None:
    """By the metrics that are outside at the horizon."""
    if "test_accuracy" in outside:
        return "low_test_accuracy"
    if any(metric in TEST for metric in outside):
        return "high_test_loss"
    if any("=" in metric for metric in outside):
        return "worse_metric"
    return "training_only" if outside else None


def course_of(outside: Array) -> str | None:
    """The course of an SDC, by whether anything was outside at each evaluation."""
    if len(outside) == 1:
        return None
    if outside.all():
        return "sharp"
    return "relapsed" if outside[0] else "slow"


def read_arms(folder: Path, **changes: Any) -> list[Arm]:
    """changes: `metrics`, `level`, `judge` or `horizon` other than in the campaign's spec."""
    spec = json.loads((Path(folder) / "campaign.json").read_text())["spec"]
    by_arm: dict[str, list[Row]] = {}
    for row in read_rows(folder):
        by_arm.setdefault(row["id"]["arm"], []).append(row)
    rule = rule_of(spec, **changes)
    return [Arm(name, rows, rule) for name, rows in by_arm.items()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--horizon", type=int)
    parser.add_argument("--level", type=float)
    parser.add_argument("--judge", choices=("worst", "rank0"))
    parser.add_argument("--metric", action="append", dest="metrics")
    parser.add_argument("--rows", action="store_true", help="a line for every judged row")
    options = vars(parser.parse_args())
    rows = options.pop("rows")
    for arm in read_arms(options.pop("folder"), **options):
        stated, likely = levels(len(arm.envelope), arm.rule.level)
        print(
            f"{arm.name}: {len(arm.envelope)} clean runs, stated level {stated:.2%}, with 95 % confidence {likely:.2%}"
        )
        for kind in ("held_out", "jitter"):
            print(f"  {kind}: {arm.false_sdcs(kind)}")
        print(f"  resolution: {arm.resolution()}")
        verdicts = arm.verdicts()
        print(f"  trials: {dict(Counter(one.reason for one in verdicts if one.kind == 'trial'))}")
        for one in verdicts if rows else []:
            print(f"  {one}")


if __name__ == "__main__":
    main()
