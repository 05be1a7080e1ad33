"""Intervals through Python, against the definition tried out in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from math import comb, sqrt

import bitrift
import pytest


def wilson_by_hand(k: int, n: int) -> tuple[float, float]:
    z = 1.959963984540054
    p = k / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return centre - half, centre + half


def finite_by_search(k: int, n: int, population: int) -> tuple[float, float]:
    """Every total whose prior-posterior ratio stays below 1 / 0.05."""
    inside = [
        total
        for total in range(population + 1)
        if Fraction(comb(total, k) * comb(population - total, n - k), comb(population, n)) > Fraction(1, 20 * (n + 1))
    ]
    return inside[0] / population, inside[-1] / population


@pytest.mark.parametrize(("k", "n"), [(3, 10), (81, 263), (1, 29), (500, 1000)])
def test_wilson_is_its_formula(k: int, n: int) -> None:
    assert bitrift.wilson(k, n) == pytest.approx(wilson_by_hand(k, n), abs=1e-12)


@pytest.mark.parametrize("n", [0, 1, 7, 20, 39, 40])
def test_the_finite_interval_is_every_total_not_ruled_out(n: int) -> None:
    for k in range(n + 1):
        assert tuple(bitrift.anytime(k, n, population=40)) == finite_by_search(k, n, 40), (k, n)


def test_defaults_and_fields() -> None:
    interval = bitrift.anytime(3, 10)
    assert interval.low < 0.3 < interval.high
    assert interval == bitrift.anytime(3, 10, 0.95)
    assert bitrift.clopper_pearson(0, 20).high == pytest.approx(0.16843347098308534, abs=1e-12)
    assert bitrift.wilson(0, 0) == (0, 1)


def test_nonsense_is_refused() -> None:
    for call in (bitrift.wilson, bitrift.clopper_pearson, bitrift.anytime):
        for arguments in ((3, 2), (1, 2, 95.0), (1, 2, 0.0)):
            with pytest.raises(bitrift.Error) as raised:
                call(*arguments)
            assert raised.value.code == "bad_input"
    with pytest.raises(bitrift.Error):
        bitrift.anytime(1, 11, population=10)
    with pytest.raises(TypeError):
        bitrift.anytime(-1, 10)
