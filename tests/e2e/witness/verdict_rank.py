"""The arithmetic of tests/e2e/witness/verdict.py: ranks of runs among clean ones, by docs/outcomes.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

Row = dict[str, Any]
Array = np.ndarray

ACCURACIES = ("test_accuracy", "train_accuracy")
LOSSES = ("test_capped_loss", "test_loss", "train_loss")  # others are a program's own: "perplexity=lower"
SMALLEST = 2.2250738585072014e-308  # losses below count as this


def badness(evaluations: Sequence[Row], metric: str, judge: str) -> float:
    """The badness of one evaluation in all replicas; NaN where it lacks the metric."""
    if judge == "rank0":
        evaluations = evaluations[:1]
    found = [float(one[metric]) for one in evaluations if metric in one]
    if not found:
        return math.nan
    if metric in LOSSES:
        return math.log(max(max(found), SMALLEST))
    return max(found) if metric.endswith("=lower") else -min(found)


def harms(clean: Array, judged: Array, golden: Array, floor: float) -> tuple[Array, Array]:
    """The harm of each judged run in one metric, and the (runs, clean runs) scores that it is ranked among.

    Runs that lack the metric (NaN) get minus infinity for both: it does not take part.
    """
    harm = np.full(len(judged), -np.inf)
    scores = np.full((len(judged), len(clean)), -np.inf)
    here = ~np.isnan(judged)
    if here.any():
        together = np.column_stack([np.tile(clean, (here.sum(), 1)), judged[here]])
        middle = np.median(together, axis=1)
        spread = 1.4826 * np.median(np.abs(together - middle[:, None]), axis=1)
        unit = np.maximum(spread, floor)
        harm[here] = (judged[here] - np.maximum(middle, golden[here])) / unit
        scores[here] = (clean - middle[:, None]) / unit[:, None]
    return harm, scores


def at_least(scores: Array, harm: Array) -> Array:
    """For each judged run and column of `harm`: how many clean runs score at least as high."""
    return (scores[:, :, None] >= harm[:, None, :]).sum(axis=1)


@dataclass(frozen=True)
class Ranked:
    """The judged runs among the clean ones."""

    outside: Array  # (runs, evaluations, metrics)
    p_values: Array

    @property
    def sdc(self) -> Array:
        """Worse at the horizon; says nothing of runs that crashed or are bitwise."""
        return self.outside[:, -1].any(axis=1)


def rank(clean: Array, judged: Array, golden: Array, floors: Sequence[float], r: int) -> Ranked:
    """clean, judged and golden (one for each judged run): runs x evaluations x metrics, the horizon last."""
    runs, evaluations, metrics = judged.shape
    harm = np.empty(judged.shape)
    scores = np.empty((evaluations, metrics, runs, len(clean)))
    for e in range(evaluations):
        for m in range(metrics):
            harm[:, e, m], scores[e, m] = harms(clean[:, e, m], judged[:, e, m], golden[:, e, m], floors[m])
    outside = np.zeros(judged.shape, bool)
    final = scores[-1].max(axis=0)
    outside[:, -1] = (harm[:, -1] > 0) & (1 + at_least(final, harm[:, -1]) <= r)
    if evaluations > 1:
        earlier = scores[:-1].max(axis=(0, 1))
        for e in range(evaluations - 1):
            outside[:, e] = (harm[:, e] > 0) & (1 + at_least(earlier, harm[:, e]) <= r)
    worst = harm[:, -1].max(axis=1)
    p_values = (1 + at_least(final, worst[:, None])[:, 0]) / (len(clean) + 1)
    return Ranked(outside, np.where(np.isneginf(worst), np.nan, p_values))


def largest_rank(level: float, n: int) -> int:
    return max(1, math.floor(level * (n + 1) + 1e-9))


def levels(n: int, level: float) -> tuple[float, float]:
    """The stated level, and what the share of further clean runs stays below with 95 % confidence."""
    r = largest_rank(level, n)
    return r / (n + 1), float(stats.beta.ppf(0.95, r, n + 1 - r))


def false_sdc_bound(bad: int, runs: int, confidence: float) -> float:
    """The largest rate that so many among so many runs do not refute: Clopper and Pearson, one-sided."""
    return 1.0 if bad == runs else float(stats.beta.ppf(confidence, bad + 1, runs - bad))


def false_sdc_chance(bad: int, runs: int, n: int, level: float) -> float:
    """How likely so many or more among so many runs are, if the level stated for n clean runs is right."""
    r = largest_rank(level, n)
    return float(stats.betabinom.sf(bad - 1, runs, r, n + 1 - r)) if bad else 1.0


def first_sdc(clean: Array, golden: Array, metric: int, values: Array, floors: Sequence[float], r: int) -> int | None:
    """Index of the first of these values of one metric that makes an otherwise golden run an SDC.

    clean: runs x metrics, golden: metrics, all badness at the horizon.
    """
    judged = np.tile(golden, (len(values), 1, 1))
    judged[:, 0, metric] = values
    found = rank(clean[:, None], judged, np.tile(golden, (len(values), 1, 1)), floors, r).sdc
    return int(found.argmax()) if found.any() else None


def smallest_fall(
    clean: Array, golden: Array, metric: int, floors: Sequence[float], r: int, targets: int
) -> float | None:
    """For an accuracy, tries every number of right answers below the golden run's; None: it is blind."""
    right = round(-golden[metric] * targets)
    tried = np.arange(right - 1, -1, -1) / targets
    first = first_sdc(clean, golden, metric, -tried, floors, r)
    return None if first is None else float(-golden[metric] - tried[first])


def smallest_change(clean: Array, golden: Array, metric: int, floors: Sequence[float], r: int) -> float | None:
    """For a program's own metric, in its own unit: ever finer grids, as for a loss."""
    low, high = 0.0, math.inf
    changes = np.geomspace(1e-12, 1e12, 1000)
    for _ in range(4):
        first = first_sdc(clean, golden, metric, golden[metric] + changes, floors, r)
        if first is None:
            return None
        low, high = changes[first - 1] if first else low, changes[first]
        changes = np.linspace(low, high, 500)
    return float(high)


def smallest_rise(clean: Array, golden: Array, metric: int, floors: Sequence[float], r: int) -> float | None:
    """For a loss, as a share of the golden run's: ever finer grids, each within the first piece that ends in an SDC."""
    start = math.exp(golden[metric])
    low, high = 0.0, math.inf
    rises = start * np.geomspace(1e-12, 1e6, 500)
    for _ in range(4):
        first = first_sdc(clean, golden, metric, np.log(start + rises), floors, r)
        if first is None:
            return None
        low, high = rises[first - 1] if first else low, rises[first]
        rises = np.linspace(low, high, 500)
    return float(high / start)
