"""The harmful rate of docs/statistics.md a second time, from the document alone, for lines of one stratum."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats
from verdict import Arm
from verdict_rank import Array, at_least, harms, largest_rank


@dataclass(frozen=True)
class Limits:
    """The places of two limits among the scores of the envelope runs, counted from the largest."""

    lenient: int
    strict: int | None  # None: too few envelope runs


def limits(n: int, level: float, alpha: float) -> Limits:
    """The limits of n envelope runs; level as in the spec."""
    r = largest_rank(level, n)
    level = min(level, r / (n + 1))
    lenient = next(k for k in range(r, n + 2) if stats.binom.sf(k - 1, n, level) <= alpha / 4)
    strict = max((k for k in range(1, r + 1) if stats.binom.cdf(k - 1, n, level) <= alpha / 4), default=None)
    return Limits(lenient, strict)


def ends(k: int, n: int, population: int, alpha: float) -> tuple[float, float]:
    """The anytime interval of one stratum: by trying every number of hits that the population can have."""
    tried = np.arange(k, population - (n - k) + 1)
    likely = stats.hypergeom.logpmf(k, population, tried, n) > math.log(alpha / (n + 1))
    held = tried[likely]
    return float(held[0]) / population, float(held[-1]) / population


def clean_runs_at_least(arm: Arm) -> Array:
    """For each judged row: how many envelope runs match or exceed its score; NaN for crashes and bitwise runs."""
    judged, golden = (table[:, -1] for table in arm.measured)
    clean, floors = arm.clean[:, -1], arm.floors(arm.clean)
    parts = [harms(clean[:, m], judged[:, m], golden[:, m], floor) for m, floor in enumerate(floors)]
    score = np.max([harm for harm, _ in parts], axis=0)
    others = np.max([scores for _, scores in parts], axis=0)
    ranked = np.array([ending is None for ending in arm.endings]) & np.isfinite(score)
    return np.where(ranked, at_least(others, score[:, None])[:, 0], np.nan)


def harmful(arm: Arm) -> dict[str, tuple[float, float]]:
    """By stratum: the interval of the share of harmful faults."""
    alpha = 1 - arm.rule.confidence
    places = limits(len(arm.envelope), arm.rule.level, alpha)
    above = clean_runs_at_least(arm)
    verdicts = arm.verdicts()
    found = {}
    for name in sorted({one.stratum for one in verdicts if one.kind == "trial"}):
        rows = [i for i, one in enumerate(verdicts) if (one.kind, one.stratum) == ("trial", name)]
        population = max(arm.judged[i]["stratum_bits"] for i in rows)
        called = np.array([verdicts[i].outcome == "SDC" for i in rows])
        most = int(((above[rows] < places.lenient) | called).sum())
        low = 0.0
        if places.strict is not None:
            fewest = int(((above[rows] < places.strict) & called).sum())
            low = ends(fewest, len(rows), population, alpha / 4)[0]
        found[name] = low, ends(most, len(rows), population, alpha / 4)[1]
    return found
