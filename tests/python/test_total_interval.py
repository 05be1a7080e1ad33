"""The interval of a line over several strata, recomputed from docs/statistics.md alone.

That is the shuffle of a round, the bets in its order, and the Bonferroni interval.
"""

from __future__ import annotations

import json
import math
import random
import re
import subprocess
from bisect import bisect_right
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import bitrift
import pytest
from bitrift.program import program
from synthetic import GOLDEN, Row, clean_rows, result, row, write_campaign

DOCS = Path(__file__).resolve().parents[2] / "docs"
ALPHA = 0.05
SEED = 7  # of write_campaign
STRATA = {"weight.sign": 1000, "weight.exponent": 8000, "bias.sign": 100, "bias.exponent": 800}
RATES = {"weight.sign": 0.1, "weight.exponent": 0.45, "bias.sign": 0.3, "bias.exponent": 0.6}  # of an SDC


# --- docs/data-order.md, in plain Python ---------------------------------------------------------------------------


def random_u64(key: int, a: int, b: int) -> int:
    low = 2**32 - 1
    counter = [a & low, a >> 32, b & low, b >> 32]
    k0, k1 = key & low, key >> 32
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(second >> 32) ^ counter[1] ^ k0, second & low, (first >> 32) ^ counter[3] ^ k1, first & low]
        k0, k1 = (k0 + 0x9E3779B9) & low, (k1 + 0xBB67AE85) & low
    return counter[1] << 32 | counter[0]


def derive_key(seed: int, purpose: str) -> int:
    name = 0xCBF29CE484222325
    for byte in purpose.encode():
        name = ((name ^ byte) * 0x100000001B3) % 2**64
    return random_u64(seed, name, 0)


def random_below(key: int, a: int, b: int, bound: int) -> int:
    attempt = 0
    while (value := random_u64(key, a, b | attempt << 32)) < 2**64 % bound:
        attempt += 1
    return value % bound


# --- docs/statistics.md --------------------------------------------------------------------------------------------


def shuffled(seed: int, number: int, draws: list[int]) -> list[int]:
    key, left, picks = derive_key(seed, "picks"), list(draws), []
    for t in range(sum(draws)):
        stratum = bisect_right(list(accumulate(left)), random_below(key, number, t, sum(left)))
        left[stratum] -= 1
        picks.append(stratum)
    return picks


class FixedRound(NamedTuple):
    draws: list[int]  # of each stratum
    picks: list[int]


def bets(rounds: list[FixedRound], sizes: list[int], hits: list[list[int]]) -> list[tuple[float, float, float]]:
    """For each pick Z - L, L and what a deviation is multiplied by to give the stake."""
    weights = [size / sum(sizes) for size in sizes]
    drawn, found = [0] * len(sizes), [0] * len(sizes)
    made: list[tuple[float, float, float]] = []
    for one in rounds:
        left = list(one.draws)
        for pick in one.picks:
            if drawn[pick] == len(hits[pick]):
                return made  # the campaign is not finished
            guess = (sum(found) + 1 / 2) / (sum(drawn) + 1)
            open_ = [h for h, size in enumerate(sizes) if drawn[h] < size]
            reachable = [h for h in open_ if left[h] > 0]
            rest = {h: weights[h] * (1 - drawn[h] / sizes[h]) for h in open_}
            part = {h: left[h] / sum(left) for h in reachable}
            rate = {h: (found[h] + guess) / (drawn[h] + 1) for h in reachable}
            base = sum(weights[h] * found[h] / sizes[h] for h in range(len(sizes)))
            base += sum(rest[h] * rate[h] for h in reachable)  # of bits that cannot be drawn, none is a hit
            gain = {h: rest[h] / part[h] for h in reachable}
            least = base - max(gain[h] * rate[h] for h in reachable)
            variance = sum(part[h] * gain[h] ** 2 * rate[h] * (1 - rate[h]) for h in reachable)
            hit = hits[pick][drawn[pick]]
            value = base + gain[pick] * (hit - rate[pick])
            if sum(rest[h] for h in open_ if h not in reachable) <= 0.002:
                made.append((value - least, least, (base - least) / variance))
            drawn[pick] += 1
            found[pick] += hit
            left[pick] -= 1
    return made


def log_wealth(made: list[tuple[float, float, float]], candidate: float) -> float:
    logs = []
    for power in range(2, 12):
        total = 0.0
        for above, least, scale in made:
            stake = min(0.9, 2.0**-power * scale)
            if candidate <= least:
                return math.inf
            total += math.log(1 - stake + stake * above / (candidate - least))
        logs.append(total)
    return max(logs) + math.log(sum(math.exp(one - max(logs)) for one in logs) / 10)


def betting_end(made: list[tuple[float, float, float]], least: float, most: float) -> float:
    limit = math.log(2 / (0.9 * ALPHA))
    if log_wealth(made, least) < limit:
        return least
    for _ in range(40):
        middle = (least + most) / 2
        least, most = (least, middle) if log_wealth(made, middle) < limit else (middle, most)
    return (least + most) / 2


def finite(hits: int, draws: int, size: int, alpha: float) -> tuple[float, float]:
    def log_choose(n: int, k: int) -> float:
        return -math.inf if not 0 <= k <= n else math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

    def likely(total: int) -> bool:
        chance = log_choose(total, hits) + log_choose(size - total, draws - hits) - log_choose(size, draws)
        return chance > math.log(alpha / (draws + 1))

    inside = [total for total in range(size + 1) if likely(total)]
    return inside[0] / size, inside[-1] / size


def interval(rounds: list[FixedRound], sizes: list[int], hits: list[list[int]]) -> tuple[float, float]:
    """The interval of the weighted total; each stratum has a draw."""
    misses = [[1 - hit for hit in one] for one in hits]
    known, unknown = sum(map(sum, hits)) / sum(sizes), sum(map(sum, misses)) / sum(sizes)
    low = betting_end(bets(rounds, sizes, hits), known, 1 - unknown)
    high = 1 - betting_end(bets(rounds, sizes, misses), unknown, 1 - known)
    ends = [finite(sum(one), len(one), size, 0.1 * ALPHA / len(sizes)) for one, size in zip(hits, sizes, strict=True)]
    sums = [sum(size * end[i] for end, size in zip(ends, sizes, strict=True)) / sum(sizes) for i in (0, 1)]
    return max(low, sums[0]), min(high, sums[1])


# --- campaigns -----------------------------------------------------------------------------------------------------


def outcomes(stratum: str, draws: int) -> list[int]:
    """1: an SDC."""
    chance = random.Random(stratum)
    return [int(chance.random() < RATES[stratum]) for _ in range(draws)]


def trials(stratum: str, draws: int) -> list[Row]:
    rows = []
    for draw, sdc in enumerate(outcomes(stratum, draws)):
        ending = result(GOLDEN | {"test_accuracy": 0.1}, "other") if sdc else result(GOLDEN, "golden")
        rows.append(row("trial", "serial", stratum, draw, result=ending) | {"stratum_bits": STRATA[stratum]})
    return rows


def write(folder: Path, draws: dict[str, int]) -> None:
    write_campaign(
        folder, clean_rows("serial") + [one for name in draws for one in trials(name, draws[name])], ["serial"]
    )


def analyzed(folder: Path) -> tuple[tuple[float, float], str]:
    """The interval of the SDC rate over all strata, and the printed table."""
    (group,) = bitrift.summary(folder, by=["arm"])["groups"]
    command = [program("bitrift"), "analyze", folder, "--by", "arm"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
    return tuple(group["rates"]["SDC"]["anytime"]), done.stdout


def change(folder: Path, **changes: Any) -> dict[str, Any]:
    """Other keys in the stored spec; returns the whole document."""
    path = folder / "campaign.json"
    stored = json.loads(path.read_text())
    stored["spec"] |= changes
    path.write_text(json.dumps(stored))
    return stored


def test_the_shuffle_is_that_of_the_page() -> None:
    page = (DOCS / "statistics.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(def shuffled\(.*?)```", page, re.DOTALL)
    assert code
    names: dict[str, Any] = {"derive_key": derive_key, "random_below": random_below}
    exec(code[1], names)
    for number, draws in ((0, [2, 3, 1]), (2, [3, 0, 5, 1])):
        picks = shuffled(1, number, draws)
        assert picks == names["shuffled"](1, number, draws)
        assert [picks.count(h) for h in range(len(draws))] == draws
    example = re.search(r"For seed 1, round 0 and 2, 3 and 1 draws, the picks are `([\d ]+)`", page)
    assert example and list(map(int, example[1].split())) == shuffled(1, 0, [2, 3, 1])


def test_a_campaign_of_one_round_bets_in_the_order_of_its_shuffle(tmp_path: Path) -> None:
    draws = 40
    write(tmp_path / "a", dict.fromkeys(STRATA, draws))
    change(tmp_path / "a", trials_per_stratum=draws)
    found, text = analyzed(tmp_path / "a")
    sizes, hits = list(STRATA.values()), [outcomes(name, draws) for name in STRATA]

    def expected(seed: int, number: int = 0) -> tuple[float, float]:
        plan = FixedRound([draws] * len(sizes), shuffled(seed, number, [draws] * len(sizes)))
        return interval([plan], sizes, hits)

    assert found == pytest.approx(expected(SEED), abs=1e-7)
    # Any other order gives other ends: the comparison above would notice one.
    assert all(abs(expected(*other)[0] - found[0]) > 1e-4 for other in ((SEED + 1,), (SEED, 1)))
    assert "Extended:" not in text


def test_the_bets_of_an_unfinished_campaign_end_at_the_first_draw_without_a_row(tmp_path: Path) -> None:
    there = {"weight.sign": 40, "weight.exponent": 40, "bias.sign": 40, "bias.exponent": 12}
    write(tmp_path / "a", there)
    change(tmp_path / "a", trials_per_stratum=40)
    found, text = analyzed(tmp_path / "a")
    sizes, hits = list(STRATA.values()), [outcomes(name, there[name]) for name in STRATA]
    plan = FixedRound([40] * len(sizes), shuffled(SEED, 0, [40] * len(sizes)))
    assert found == pytest.approx(interval([plan], sizes, hits), abs=1e-7)
    assert "Unfinished: 132 of 160 trials." in text
    assert 0 < len(bets([plan], sizes, hits)) < 100


def test_an_extended_campaign_bets_round_by_round_and_the_table_says_so(tmp_path: Path) -> None:
    first, second = 25, 15
    draws = {
        "weight.sign": first + second,
        "weight.exponent": first + second,
        "bias.sign": second,
        "bias.exponent": second,
    }
    folder = tmp_path / "a"
    write(folder, draws)
    plans = []
    for number, (names, begin, count) in enumerate(
        [
            (list(STRATA)[:2], 0, first),
            (list(STRATA)[:2], first, 0),
            (list(STRATA), first, second),
            (list(STRATA), first + second, 0),
        ]
    ):
        plan: dict[str, Any] = {"schema": 1, "round": number, "seed": SEED, "measure": "bit", "plane": "value"}
        plan |= {"arms": ["serial"], "strata": [], **({} if count else {"stop": "plan"})}
        for name in names:
            role, field = name.split(".")
            before = begin if role == "weight" else max(0, begin - first)
            cell = {"name": name, "role": role, "field": field, "bits": STRATA[name]}
            plan["strata"].append(cell | {"draws": count, "first_draw": before})
        plans.append(plan)
    (folder / "rounds").mkdir()
    for plan in plans:
        (folder / "rounds" / f"{plan['round']:04}.json").write_text(json.dumps(plan))
    strata = {"roles": ["weight"], "fields": ["sign", "exponent"]}
    stored = change(folder, strata=strata, trials_per_stratum=first)
    before = json.loads(json.dumps(stored["spec"]))
    stored = change(folder, strata=strata | {"roles": ["weight", "bias"]}, trials_per_stratum=first + second)
    stored["extensions"] = [{"before": before, "environment": {}, "provenance": {}}]
    (folder / "campaign.json").write_text(json.dumps(stored))

    found, text = analyzed(folder)
    sizes, hits = list(STRATA.values()), [outcomes(name, draws[name]) for name in STRATA]
    counts = [[first, first, 0, 0], [second] * 4]
    plan_of = [FixedRound(counts[i], shuffled(SEED, number, counts[i])) for i, number in ((0, 0), (1, 2))]
    assert found == pytest.approx(interval(plan_of, sizes, hits), abs=1e-7)
    at_once = [draws[name] for name in STRATA]
    assert abs(interval([FixedRound(at_once, shuffled(SEED, 0, at_once))], sizes, hits)[0] - found[0]) > 1e-4
    note = "Extended: the interval of a line over several strata"
    assert note in text
    # Lines of single strata need no order, and neither have intervals for one look.
    for options in (["--by", "stratum"], ["--by", "arm", "--interval", "wilson"]):
        command = [program("bitrift"), "analyze", folder, *options]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
        assert note not in done.stdout and "masked %" in done.stdout
