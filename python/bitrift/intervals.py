"""Confidence intervals for a rate (docs/statistics.md)."""

from __future__ import annotations

from typing import NamedTuple

from bitrift import _core


class Interval(NamedTuple):
    """Both ends of an interval for a rate, in 0..1."""

    low: float
    high: float


def wilson(successes: float, n: float, confidence: float = 0.95) -> Interval:
    """Wilson's score interval (1927), for one look at a fixed n. n = 0 gives (0, 1).

    Raises BadInput unless 0 <= successes <= n and 0 < confidence < 1.
    """
    return Interval(*_core.wilson(successes, n, confidence))


def clopper_pearson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Clopper and Pearson (1934), exact for a fixed n. Raises as `wilson` does."""
    return Interval(*_core.clopper_pearson(successes, n, confidence))


def anytime(successes: int, n: int, confidence: float = 0.95, *, population: int | None = None) -> Interval:
    """An interval that stays valid however often one looks.

    With a `population` the n draws are without replacement from that many (Waudby-Smith and Ramdas, arXiv 2006.04347);
    without one they are independent (Robbins 1970; Howard et al., arXiv 1810.08240). Raises as `wilson` does, and
    BadInput when n is larger than the population.
    """
    return Interval(*_core.anytime(successes, n, confidence, population))
