"""One limit for the SDCs of two campaigns, by docs/statistics.md alone ("One limit"): NumPy and SciPy, no bitrift."""

from __future__ import annotations

import json
import math
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from verdict import CLASSES, Arm, read_arms
from verdict_rank import LOSSES, Array, Row, largest_rank

LETTERS = {"m": "masked", "s": "SDC", "c": "crash"}


@dataclass
class Stratum:
    """The trials of one arm in one stratum, in the order of their draws."""

    bits: int
    classes: list[str]  # by the campaign's own verdict
    bitwise: Array
    rises: Array  # (draws, metrics); NaN for crashes and for metrics that the run lacks, 0 for bitwise runs
    orders: Array
    faults: list[str]  # equal texts are equal faults
    sizes: Array  # the largest change of a value by the fault; NaN: it alters no number

    @property
    def crashed(self) -> Array:
        return np.array([one == "crash" for one in self.classes])


@dataclass
class Sample:
    """One arm of one campaign."""

    strata: dict[str, Stratum]
    metrics: tuple[str, ...]
    limit: Array  # of each metric
    clean: Array  # (envelope runs and then held-out runs, metrics): badness
    golden: dict[int, Array]  # of each data order: badness
    jitter: dict[int, Array]  # of each data order: (runs, metrics), rises

    def rises_in(self, order: int) -> Array:
        """The rises of the trials of one data order that did not crash."""
        every = self.strata.values()
        return np.concatenate([one.rises[(one.orders == order) & ~one.crashed] for one in every])


@dataclass
class Campaign:
    spec: Row
    base_digests: Row
    arms: dict[str, Sample]


def limits_of(arm: Arm) -> Array:
    """`S u`, from the envelope runs alone."""
    last, units = arm.clean[:, -1], arm.units()
    scores = ((last - np.median(last, axis=0)) / units).max(axis=1)
    r = largest_rank(arm.rule.level, len(scores))
    return max(0.0, float(np.sort(scores)[-r])) * units


def size_of(faults: list[Row]) -> float:
    """Only for float32."""
    sizes = [math.nan]
    for one in faults:
        if one.get("dtype") != "float32" or one.get("plane", "value") != "value":
            continue
        new, old = (struct.unpack("<f", struct.pack("<I", int(one[key], 16)))[0] for key in ("new", "old"))
        sizes.append(abs(new - old) if math.isfinite(new - old) else sys.float_info.max)
    return float(np.fmax.reduce(sizes))


def sample_of(arm: Arm) -> Sample:
    judged, golden = arm.measured[0][:, -1], arm.measured[1][:, -1]
    verdicts = arm.verdicts()
    strata: dict[str, Stratum] = {}
    trials: dict[str, list[int]] = {}
    for i, row in enumerate(arm.judged):
        if row["kind"] == "trial":
            trials.setdefault(row["id"]["stratum"], []).append(i)
    for name, rows in trials.items():
        rows.sort(key=lambda i: arm.judged[i]["id"]["draw"])
        bitwise = np.array([arm.endings[i] == "bitwise" for i in rows])
        strata[name] = Stratum(
            max(arm.judged[i]["stratum_bits"] for i in rows),
            [verdicts[i].outcome for i in rows],
            bitwise,
            np.where(bitwise[:, None], 0.0, judged[rows] - golden[rows]),
            np.array([arm.judged[i].get("order", 0) for i in rows]),
            [json.dumps(arm.judged[i]["faults"], sort_keys=True) for i in rows],
            np.array([size_of(arm.judged[i]["faults"]) for i in rows]),
        )
    kind = np.array([row["kind"] for row in arm.judged])
    order = np.array([row.get("order", 0) for row in arm.judged])
    ended = np.array([CLASSES.get(ending or "") != "crash" for ending in arm.endings])
    rises = judged - golden
    return Sample(
        strata,
        arm.rule.metrics,
        limits_of(arm),
        np.concatenate([arm.clean[:, -1], judged[(kind == "held_out") & ended]]),
        {k: arm.values(row["result"], arm.horizon)[-1] for k, row in sorted(arm.golden.items())},
        {k: rises[(kind == "jitter") & ended & (order == k)] for k in sorted(arm.golden)},
    )


def numbers_of(values: Any, columns: int) -> Array:
    """A table of a baseline file; null is NaN."""
    rows = [[math.nan if one is None else float(one) for one in (row or [None] * columns)] for row in values]
    return np.array(rows).reshape(-1, columns)


def sample_in(strata: Row, reference: Row) -> Sample:
    """An arm of a baseline file."""
    metrics = tuple(reference["metrics"])
    golden = dict(enumerate(numbers_of(reference["golden"], len(metrics))))
    found = {}
    for name, cell in strata.items():
        letters, rises = cell["outcomes"], cell["rises"]
        bitwise = np.array([one is None and letter != "c" for one, letter in zip(rises, letters, strict=True)])
        found[name] = Stratum(
            cell["bits"],
            [LETTERS[letter] for letter in letters],
            bitwise,
            np.where(bitwise[:, None], 0.0, numbers_of(rises, len(metrics))),
            np.arange(len(letters)) % len(golden),
            [cell["faults"][8 * i : 8 * i + 8] for i in range(len(letters))],
            np.array([math.nan if one is None else one for one in cell["sizes"]]),
        )
    jitter = {k: numbers_of(runs, len(metrics)) for k, runs in enumerate(reference["jitter"])}
    limit = np.array(reference["limit"], float)
    return Sample(found, metrics, limit, numbers_of(reference["clean"], len(metrics)), golden, jitter)


def read_campaign(path: Path) -> Campaign:
    """A campaign's folder, or a file that `bitrift gate --update` wrote."""
    if path.is_file():
        document = json.loads(path.read_text())
        assert document["schema"] == "bitrift/baseline/3"
        arms = {name: sample_in(cells, document["references"][name]) for name, cells in document["arms"].items()}
        return Campaign(document["spec"], document["base_digests"], arms)
    identity = json.loads((path / "campaign.json").read_text())
    arms = {arm.name: sample_of(arm) for arm in read_arms(path)}
    return Campaign(identity["spec"], identity.get("base_digests", {}), arms)


@dataclass(frozen=True)
class Range:
    low: float
    centre: float
    high: float
    error: float = 0.0  # how likely the median is below it, and again above it

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


def median_range(values: Array, e: float) -> Range:
    m = len(values)
    values = np.sort(values)
    s = max([1, *(s for s in range(1, m // 2 + 1) if stats.binom.cdf(s - 1, m, 0.5) <= e)])
    error = float(stats.binom.cdf(s - 1, m, 0.5))
    return Range(float(values[s - 1]), float(np.median(values)), float(values[m - s]), error)


def centre_range(jitter: Array, clean: Array, trials: Array, e: float) -> tuple[Range, float]:
    """For one arm, data order and metric; and the errors of all ranges that it took. clean: badness minus golden's."""
    values = np.append(jitter, 0.0)
    if 2.0 ** -len(values) > 10 * e:
        found = median_range(clean, e)
        given = Range(min(0.0, found.low), 0.0, max(0.0, found.high), found.error)
    else:
        given = median_range(values, e)
    if not len(trials):
        return given, given.error
    seen = median_range(trials, e)
    error = given.error + seen.error
    if given.holds(seen.centre):
        return Range(max(seen.low, given.low), seen.centre, min(seen.high, given.high)), error
    centre = float(np.clip(seen.centre, clean.min(), clean.max()))
    return Range(min(given.low, centre), given.centre, max(given.high, centre)), error


Centres = dict[int, list[Range]]


def centres(sample: Sample, e: float) -> tuple[Centres, float]:
    """For each data order the centres of its metrics; and the sum of the errors."""
    found: Centres = {}
    total = 0.0
    for order, golden in sample.golden.items():
        trials = sample.rises_in(order)
        found[order] = []
        for m in range(len(sample.metrics)):
            columns = (table[~np.isnan(table[:, m]), m] for table in (sample.jitter[order], sample.clean, trials))
            jitter, clean, rises = columns
            centre, error = centre_range(jitter, clean - golden[m], rises, e)
            found[order].append(centre)
            total += error
    return found, total


class Pair:
    """An arm of the baseline and of the campaign, with one limit for both."""

    def __init__(self, first: Sample, second: Sample, alpha: float):
        self.first, self.second = first, second
        metrics = len(first.metrics)
        e = 0.02 * alpha / (2 * (len(first.golden) + len(second.golden))) / metrics
        self.first_centres, first_error = centres(first, e)
        self.second_centres, second_error = centres(second, e)
        self.miss = min(1.0, first_error + second_error)
        below = [max(one[m].centre - one[m].low for one in self.first_centres.values()) for m in range(metrics)]
        self.allowances = {
            order: np.array([one.high - one.centre + below[m] for m, one in enumerate(ranges)])
            for order, ranges in self.second_centres.items()
        }

    @property
    def limit(self) -> Array:
        return self.first.limit

    @property
    def allowance(self) -> Array:
        return np.array(list(self.allowances.values())).max(axis=0)

    def first_classes(self, stratum: str) -> list[str]:
        return list(self.classes(self.first.strata[stratum], self.first_centres, None))

    def second_classes(self, stratum: str, *, fewest: bool = False) -> list[str]:
        return list(self.classes(self.second.strata[stratum], self.second_centres, self.allowances if fewest else None))

    def classes(self, cell: Stratum, at: Centres, allowances: dict[int, Array] | None) -> Iterator[str]:
        for i, own in enumerate(cell.classes):
            if own == "crash" or cell.bitwise[i]:
                yield own
                continue
            order = int(cell.orders[i])
            limit = self.limit + (allowances[order] if allowances else 0)
            middle = np.array([one.centre for one in at[order]])
            yield "SDC" if (cell.rises[i] - middle > limit).any() else "masked"

    def shifts(self) -> dict[str, tuple[float, float]]:
        """Metrics in which the clean runs of both differ by Mood's median test, and the medians of both."""
        found = {}
        for m, metric in enumerate(self.first.metrics):
            one, two = self.first.clean[:, m], self.second.clean[:, m]
            if mood(one, two) <= 0.001:
                found[metric] = shown(metric, one), shown(metric, two)
        return found


def mood(one: Array, two: Array) -> float:
    """Mood's median test, exact and two-sided: values above the median of all, by Fisher's test."""
    middle = np.median(np.concatenate([one, two]))
    table = [[int((side > middle).sum()), int((side <= middle).sum())] for side in (one, two)]
    return float(stats.fisher_exact(table).pvalue)


def shown(metric: str, badness: Array) -> float:
    """A metric whose badness is the median."""
    median = float(np.median(badness))
    return math.exp(median) if metric in LOSSES else -median
