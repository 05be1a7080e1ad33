"""`bitrift gate` a second time, from docs/statistics.md and docs/ci.md alone: by NumPy and SciPy, without bitrift.

    python tests/e2e/witness/gate.py DIR BASELINE [RULES]

BASELINE is a campaign's folder, or a file that `bitrift gate --update` wrote; RULES is a file for --tolerance. A number
is None where the pages leave it open, and where it needs an interval that is valid at every look.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from one_limit import Campaign, Pair, read_campaign
from scipy import stats
from verdict_rank import Array, Row

USUAL_FAMILIES = [{"outcomes": ["SDC", "crash"]}]


def mcnemar(b: int, c: int) -> float:
    """Exact, one-sided: c faults have the outcome only in the campaign."""
    return float(stats.binom.sf(c - 1, b + c, 0.5)) if b + c else 1.0


def fisher(first: Sequence[int], n1: Sequence[int], second: Sequence[int], n2: Sequence[int]) -> float:
    """Over cells, exact, one-sided: the hits of the second side are a weighted sum of hypergeometric numbers."""
    total, seen = np.ones(1), 0
    for k1, m1, k2, m2 in zip(first, n1, second, n2, strict=True):
        p = (k1 + k2 + 1) / (m1 + m2 + 2)
        weight = math.floor(2 / math.sqrt(p * (1 - p)) + 0.5)
        hits = np.zeros(weight * m2 + 1)
        hits[::weight] = stats.hypergeom.pmf(np.arange(m2 + 1), m1 + m2, k1 + k2, m2)
        total = np.convolve(total, hits)
        seen += weight * k2
    return min(1.0, float(total[seen:].sum()))


def holm(p: Sequence[float]) -> list[float]:
    adjusted, largest = [0.0] * len(p), 0.0
    for place, i in enumerate(np.argsort(p, kind="stable")):
        largest = max(largest, min(1.0, (len(p) - place) * p[i]))
        adjusted[i] = largest
    return adjusted


def dimensions(arm: str, stratum: str) -> dict[str, str]:
    role, _, field = stratum.partition(".")
    return {"arm": arm, "base": "base", "stratum": stratum, "role": role, "field": field}


@dataclass
class Line:
    """One outcome of one arm, in some of its strata."""

    outcome: str
    key: dict[str, str]
    pair: Pair
    strata: list[str]
    same_faults: bool
    fixed: bool
    tolerance: float
    must_see: float | None

    def hits(self, side: str) -> list[Array]:
        """For each stratum, whether each draw has the outcome: in the `first`, the `second`, or at the `fewest`."""
        found = []
        for one in self.strata:
            if side == "first":
                classes = self.pair.first_classes(one)
            else:
                classes = self.pair.second_classes(one, fewest=side == "fewest")
            if self.same_faults:  # only draws that both have
                classes = classes[
                    : min(len(cells.strata[one].classes) for cells in (self.pair.first, self.pair.second))
                ]
            found.append(np.array([outcome == self.outcome for outcome in classes]))
        return found

    @cached_property
    def first(self) -> list[Array]:
        return self.hits("first")

    @cached_property
    def second(self) -> list[Array]:
        return self.hits("second")

    @cached_property
    def fewest(self) -> list[Array]:
        return self.hits("fewest")

    def rate(self, sample: Any, hits: Sequence[Array]) -> float:
        bits = np.array([sample.strata[one].bits for one in self.strata], float)
        return float((bits / bits.sum() * [one.mean() for one in hits]).sum())

    @property
    def rates(self) -> tuple[float, float, float]:
        """First, second and fewest."""
        first = self.rate(self.pair.first, self.first)
        return first, self.rate(self.pair.second, self.second), self.rate(self.pair.second, self.fewest)

    @property
    def miss(self) -> float:
        return self.pair.miss if self.outcome == "SDC" else 0.0

    @property
    def kind(self) -> str:
        if self.same_faults:
            return "paired"
        first, second = self.pair.first.strata, self.pair.second.strata
        sizes = all(first[one].bits == second[one].bits for one in self.strata)
        return "unpaired" if sizes and self.fixed else "unrelated"

    @property
    def test(self) -> str:
        if self.tolerance > 0 or not self.fixed:
            return "interval"
        return "mcnemar" if self.same_faults else "fisher"

    def discordant(self, second: Sequence[Array]) -> tuple[int, int]:
        """Pairs with the outcome in the first only, and in the second only."""
        both = list(zip(self.first, second, strict=True))
        return sum(int((one & ~two).sum()) for one, two in both), sum(int((two & ~one).sum()) for one, two in both)

    @property
    def p(self) -> float | None:
        """None: only an interval decides."""
        first, _, fewest = self.rates
        if fewest - first <= self.tolerance:
            return 1.0
        if self.test == "interval":
            return None
        if self.test == "mcnemar":
            found = mcnemar(*self.discordant(self.fewest))
        else:
            found = self.fisher([int(self.fewest[place][draws].sum()) for place, _, draws in self.cells])
        return min(1.0, found + self.miss)

    @property
    def doubt(self) -> float:
        """The share of the campaign's trials with the outcome that are not among the fewest."""
        extra = sum(int(one.sum()) - int(two.sum()) for one, two in zip(self.second, self.fewest, strict=True))
        return extra / sum(map(len, self.second))

    @cached_property
    def cells(self) -> list[tuple[int, Array, Array]]:
        """The stratum, and the draws of both sides, of each group of sizes that both have draws of."""
        found = []
        for place, name in enumerate(self.strata):
            sides = zip((self.pair.first, self.pair.second), (self.first, self.second), strict=True)
            one, two = (side.strata[name].sizes[: len(hits[place])] for side, hits in sides)
            ranks = stats.rankdata(np.append(one, two), method="average", nan_policy="omit")
            groups = np.where(np.isnan(ranks), -1, (ranks - 1) // 20)
            for group in np.unique(groups):
                cell = [np.flatnonzero(side == group) for side in (groups[: len(one)], groups[len(one) :])]
                if all(map(len, cell)):
                    found.append((place, *cell))
        return found

    @property
    def first_in_cells(self) -> list[int]:
        return [int(self.first[place][draws].sum()) for place, draws, _ in self.cells]

    @property
    def trials_in_cells(self) -> list[int]:
        return [len(draws) for _, _, draws in self.cells]

    def fisher(self, hits: Sequence[int]) -> float:
        return fisher(self.first_in_cells, [len(one) for _, one, _ in self.cells], hits, self.trials_in_cells)

    def visible_points(self, lines: int, alpha: float) -> float | None:
        """By how much the rate of trials would have to rise above the baseline's; 100: no rise would do.

        None: only an interval decides.
        """
        if self.test == "interval":
            return None
        level = alpha / lines - self.miss
        if level <= 0:
            return 100.0
        trials, hits = sum(map(len, self.second)), int(sum(map(np.sum, self.first)))
        if self.test == "mcnemar":
            b, present = self.discordant(self.fewest)
            first, _, fewest = self.rates
            least = b + 1 if fewest > first else max(b + 1, present + math.floor((first - fewest) * trials) + 1)
            c = next(c for c in itertools.count(least) if mcnemar(b, c) <= level)
            return min(100.0, 100 * ((c - b) / trials + self.doubt)) if c <= trials - hits else 100.0
        rates = [hits / len(one) for hits, (_, one, _) in zip(self.first_in_cells, self.cells, strict=True)]
        table = rounded(rates, self.trials_in_cells)
        cells = list(further(table, self.trials_in_cells))

        def passes(x: int) -> bool:
            return self.fisher([hits + cells[:x].count(i) for i, hits in enumerate(table)]) > level

        if passes(len(cells)):
            return 100.0
        unseen, seen = 0, len(cells)
        while seen - unseen > 1:
            middle = (unseen + seen) // 2
            unseen, seen = (middle, seen) if passes(middle) else (unseen, middle)
        return min(100.0, 100 * (seen / trials + self.doubt))

    def name(self) -> str:
        return ", ".join([self.outcome, *(f"{one} {value}" for one, value in self.key.items())])


def rounded(rates: Sequence[float], trials: Sequence[int]) -> list[int]:
    """Hits of cells; what a cell lacks or cannot hold goes to the next one, and from the last one to the first."""
    wanted, owed = [rate * n for rate, n in zip(rates, trials, strict=True)], 0.0
    for _ in range(2):
        for i, n in enumerate(trials):
            exact = wanted[i] + owed
            wanted[i] = min(max(math.floor(exact + 0.5), 0), n)
            owed = exact - wanted[i]
    return [int(one) for one in wanted]


def further(hits: Sequence[int], trials: Sequence[int]) -> Iterator[int]:
    """The cells of further hits, one after the other, by the method of Sainte-Lague, until all are full."""
    given = [0] * len(hits)
    while open_cells := [i for i, n in enumerate(trials) if hits[i] + given[i] < n]:
        cell = max(open_cells, key=lambda i: (trials[i] / (2 * given[i] + 1), -i))
        given[cell] += 1
        yield cell


class Gate:
    """A campaign against a baseline."""

    def __init__(self, baseline: Campaign, campaign: Campaign, rules: Row | None = None):
        rules = rules or {}
        self.alpha = rules.get("alpha", 0.05)
        self.baseline, self.campaign = baseline, campaign
        self.pairs = {name: Pair(first, campaign.arms[name], self.alpha) for name, first in baseline.arms.items()}
        self.lines = [line for family in rules.get("families", USUAL_FAMILIES) for line in self.lines_of(family)]

    def same_faults(self, pair: Pair) -> bool:
        """Every draw that both have is the same fault."""
        cells = ((pair.first.strata[name], pair.second.strata[name]) for name in pair.first.strata)
        return all(a == b for one, two in cells for a, b in zip(one.faults, two.faults, strict=False))

    def place_of(self, stratum: str) -> tuple[int, int]:
        """Roles and then fields, as the spec has them."""
        strata, (role, _, field) = self.campaign.spec["strata"], stratum.partition(".")
        return strata["roles"].index(role), strata["fields"].index(field)

    def lines_of(self, family: Row) -> Iterator[Line]:
        names = ["arm", *(one for one in family.get("by", []) if one not in ("arm", "base"))]
        found: dict[tuple[str, ...], list[str]] = {}
        for arm, pair in self.pairs.items():
            for stratum in sorted(pair.first.strata, key=self.place_of):
                values = dimensions(arm, stratum)
                if all(values[one] in allowed for one, allowed in family.get("where", {}).items()):
                    found.setdefault(tuple(values[one] for one in names), []).append(stratum)
        fixed = not any(one.spec.get("sampling") for one in (self.baseline, self.campaign))
        for outcome in family["outcomes"]:
            for key, strata in found.items():
                pair = self.pairs[key[0]]
                yield Line(
                    outcome,
                    dict(zip(names, key, strict=True)),
                    pair,
                    strata,
                    self.same_faults(pair),
                    fixed,
                    family.get("tolerance_points", 0) / 100,
                    family.get("must_see_points"),
                )

    def flips(self) -> list[list[str]]:
        """For each fault that ends otherwise: its id, before and after."""
        found = []
        for arm, pair in self.pairs.items():
            for stratum, cell in pair.first.strata.items():
                other = pair.second.strata[stratum]
                classes = zip(pair.first_classes(stratum), pair.second_classes(stratum), strict=False)
                for draw, (before, after) in enumerate(classes):
                    if before != after and cell.faults[draw] == other.faults[draw]:
                        found.append([f"{arm}/{stratum}/{draw}", before, after])
        return sorted(found)

    def document(self) -> Row:
        """The keys of `bitrift gate --json` that this file computes."""
        p = [line.p for line in self.lines]
        known = [one for one in p if one is not None]
        adjusted = holm(known) if len(known) == len(p) else [None] * len(p)
        lines = [self.entry(line, one, after) for line, one, after in zip(self.lines, p, adjusted, strict=True)]
        verdicts = {line["verdict"] for line in lines}
        return {
            "alpha": self.alpha,
            "verdict": next(one for one in ("worse", None, "undecided", "passed") if one in verdicts),
            "new_arms": sorted(self.campaign.arms.keys() - self.baseline.arms.keys()),
            "same_faults": sum(
                a == b
                for pair in self.pairs.values()
                for name, cell in pair.first.strata.items()
                for a, b in zip(cell.faults, pair.second.strata[name].faults, strict=False)
            ),
            "flips": self.flips(),
            "arms": [self.arm(name, pair) for name, pair in self.pairs.items()],
            "lines": lines,
        }

    def arm(self, name: str, pair: Pair) -> Row:
        def named(values: Array) -> dict[str, float]:
            return dict(zip(pair.first.metrics, map(float, values), strict=True))

        shifts = [{"metric": m, "first": a, "second": b} for m, (a, b) in pair.shifts().items()]
        limits = {"limit": named(pair.limit), "allowance": named(pair.allowance)}
        return {"arm": name, **limits, "miss": pair.miss, "shifts": shifts}

    def entry(self, line: Line, p: float | None, adjusted: float | None) -> Row:
        first, second, _ = line.rates
        visible = line.visible_points(len(self.lines), self.alpha)
        verdict: str | None = "passed"
        if adjusted is None:
            verdict = None
        elif adjusted <= self.alpha:
            verdict = "worse"
        elif line.must_see is not None:
            verdict = None if visible is None else "undecided" if visible > line.must_see else "passed"
        found = {
            "name": line.name(),
            "key": line.key,
            "outcome": line.outcome,
            "kind": line.kind,
            "first_trials": sum(map(len, line.first)),
            "first_hits": int(sum(map(np.sum, line.first))),
            "first_rate": first,
            "second_trials": sum(map(len, line.second)),
            "second_hits": int(sum(map(np.sum, line.second))),
            "second_rate": second,
            "difference": second - first,
            "test": line.test,
            "p": p,
            "adjusted_p": adjusted,
            "tolerance_points": 100 * line.tolerance,
            "visible_points": visible,
            "verdict": verdict,
        }
        if line.same_faults:
            found["first_only"], found["second_only"] = line.discordant(line.second)
        return found | ({} if line.must_see is None else {"must_see_points": line.must_see})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("baseline", type=Path)
    parser.add_argument("rules", type=Path, nargs="?")
    asked = parser.parse_args()
    rules = json.loads(asked.rules.read_text()) if asked.rules else None
    gate = Gate(read_campaign(asked.baseline), read_campaign(asked.folder), rules)
    print(json.dumps(gate.document(), indent=1))


if __name__ == "__main__":
    main()
