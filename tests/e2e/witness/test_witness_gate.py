"""Gates and harmful rates by bitrift and by a second implementation, which knows docs/statistics.md and docs/ci.md."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import gate_compare
import numpy as np
import pytest
from gate_compare import bitrift, compared
from gate_journals import GAIN, Making, make
from harmful import harmful, limits
from verdict import read_arms
from verdict_rank import Row

USUAL = Making()
OTHER = {"seed": 8, "faults": 1}


def agreed(place: Path, first: Making, second: Making, rules: Row | None = None) -> Row:
    """What bitrift says of this pair, after our own gate said the same; by the folder and by the file of --update."""
    baseline, folder = make(place / "first", first), make(place / "second", second)
    path = None
    if rules is not None:
        path = place / "rules.json"
        path.write_text(json.dumps(rules))
    found = gate_compare.theirs(folder, baseline, path)
    assert compared(gate_compare.ours(folder, baseline, path), found) == []
    files = place / "first.json", place / "second.json"
    for one, file in zip((baseline, folder), files, strict=True):
        done = bitrift("gate", one, "--baseline", file, "--update")
        assert done.returncode == 0, done.stderr
    assert without_provenance(gate_compare.theirs(folder, files[0], path)) == without_provenance(found)
    assert compared(gate_compare.ours(files[1], files[0], path), found) == []
    return found


def without_provenance(document: Row) -> Row:
    return {key: value for key, value in document.items() if key != "provenance"}


def kinds_of(document: Row) -> set[tuple[str, str]]:
    return {(line["kind"], line["test"]) for line in document["lines"]}


def test_a_campaign_with_the_same_rows_has_no_flip(tmp_path: Path) -> None:
    found = agreed(tmp_path, USUAL, USUAL)
    assert (found["verdict"], found["flips"], kinds_of(found)) == ("passed", [], {("paired", "mcnemar")})


def test_new_clean_runs_of_a_chaotic_training_move_the_centres(tmp_path: Path) -> None:
    making = Making(chaotic=True, orders=2, jitter=40)
    found = agreed(tmp_path, making, making.but(runs=1, more_harm=0.5))
    assert all(value > 0.1 * found["arms"][0]["limit"][key] for key, value in found["arms"][0]["allowance"].items())
    assert found["verdict"] == "worse"


@pytest.mark.parametrize("jitter", [0, 3])
def test_without_enough_jitter_runs_the_clean_runs_bound_the_centre(tmp_path: Path, jitter: int) -> None:
    making = Making(jitter=jitter, orders=2)
    agreed(tmp_path, making, making.but(runs=1, more_harm=0.4, jolt=0.2))


def test_most_faults_do_harm(tmp_path: Path) -> None:
    """The median of trials is then no centre."""
    making = Making(harm=0.9, orders=2, jitter=40)
    found = agreed(tmp_path, making, making.but(runs=1, jolt=0.5, more_crashes=0.2))
    assert found["arms"][0]["allowance"]["test_accuracy"] > found["arms"][0]["limit"]["test_accuracy"]


def test_arms_and_orders_of_both_sides_differ(tmp_path: Path) -> None:
    first = Making(arms=("serial", "data-2"), orders=3, draws=20)
    found = agreed(tmp_path, first, first.but(arms=("serial", "data-2", "bf16"), orders=2, runs=1, more_crashes=0.3))
    assert found["new_arms"] == ["bf16"]
    assert found["verdict"] == "worse"


def test_other_faults_are_tested_by_fisher(tmp_path: Path) -> None:
    found = agreed(tmp_path, USUAL, USUAL.but(**OTHER, runs=1, more_harm=0.3, draws=25))
    assert kinds_of(found) == {("unpaired", "fisher")}
    assert found["same_faults"] == 0
    assert found["verdict"] == "worse"


def test_strata_of_other_sizes_are_tested_by_fisher(tmp_path: Path) -> None:
    bits = tuple((name, bits + 10) for name, bits in USUAL.bits)
    assert kinds_of(agreed(tmp_path, USUAL, USUAL.but(**OTHER, bits=bits))) == {("unrelated", "fisher")}


@pytest.mark.parametrize("other", [{}, OTHER])
def test_strata_of_a_few_bits_have_fewer_draws(tmp_path: Path, other: dict[str, int]) -> None:
    making = Making(bits=(("weight.sign", 800), ("weight.exponent", 90), ("bias.sign", 7), ("bias.exponent", 12)))
    found = agreed(tmp_path, making, making.but(**other, runs=1, more_harm=0.2))
    assert {line["first_trials"] for line in found["lines"]} == {40 + 40 + 7 + 12}


def test_bitwise_trials_stay_masked_beside_a_golden_run_in_the_bad_tail(tmp_path: Path) -> None:
    """Harmless runs end so far above it that its own metrics would be an SDC."""
    making = Making(chaotic=True, luck=4, evaluations=3)
    found = agreed(tmp_path, making, making.but(runs=1, more_harm=0.3))
    assert found["arms"][0]["limit"]["test_accuracy"] < 4 * GAIN


def test_a_tolerance_above_the_increase_needs_no_interval(tmp_path: Path) -> None:
    rules: Row = {"alpha": 0.1, "families": [{"outcomes": ["SDC", "crash"], "by": ["role"], "tolerance_points": 90}]}
    rules["families"] += [{"outcomes": ["crash"], "where": {"field": ["sign"]}, "must_see_points": 1}]
    found = agreed(tmp_path, USUAL, USUAL.but(runs=1, more_harm=0.2), rules)
    assert kinds_of(found) == {("paired", "interval"), ("paired", "mcnemar")}
    assert found["verdict"] == "undecided"


def test_a_campaign_of_the_trainer_against_itself() -> None:
    """Three arms, one of them with crashes; the verdict's numbers come from trained runs."""
    folder = Path(__file__).resolve().parents[2] / "data" / "earlier" / "2026-11" / "campaigns" / "trained"
    found = gate_compare.theirs(folder, folder)
    assert compared(gate_compare.ours(folder, folder), found) == []
    assert {line["p"] for line in found["lines"]} == {1}
    assert any(line["first_hits"] for line in found["lines"])


@pytest.mark.parametrize("seed", range(10))
def test_random_pairs(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)

    def one_of(*values: Any) -> Any:
        return values[random.integers(len(values))]

    first = Making(
        runs=2 * seed,
        arms=one_of(("serial",), ("serial", "data-2")),
        orders=one_of(1, 2, 3, 5),
        targets=one_of(36, 360, 10_000),
        chaotic=one_of(False, False, True),
        stray=one_of(False, False, True),
        envelope=one_of(20, 40, 99),
        held_out=one_of(0, 5, 16),
        jitter=one_of(0, 1, 4, 12, 30, 60),
        draws=one_of(3, 10, 20),
        harm=one_of(0.0, 0.1, 0.3, 0.8),
        crashes=one_of(0.0, 0.1, 0.5),
        missing=one_of(0.0, 0.0, 0.3),
        level=one_of(0.01, 0.01, 0.2),
        evaluations=one_of(1, 1, 3),
    )
    second = first.but(
        runs=2 * seed + 1,
        jolt=one_of(0.0, 0.1, 0.5),
        more_harm=one_of(0.0, 0.2, 0.5),
        more_crashes=one_of(0.0, 0.2, 0.5),
        worse=one_of(0.0, 0.5, 1.0, 1.5),
        jitter=one_of(first.jitter, 0, 30),
        draws=one_of(first.draws, 20),
        orders=one_of(first.orders, 2),
    )
    if one_of(False, False, True):
        second = second.but(**OTHER)
    by = one_of([], ["role"], ["field"], ["stratum"], ["arm", "role"])
    families = [{"outcomes": ["SDC", "crash"], "by": by, "must_see_points": one_of(1, 30.0)}]
    agreed(tmp_path, first, second, {"alpha": one_of(0.05, 0.01, 0.2), "families": families})


def test_shifts_are_found_from_a_thousandth_on(tmp_path: Path) -> None:
    """Some of these shifts are found and some are not, by both."""
    found = []
    for step in range(6):
        making = Making(targets=100, draws=1, held_out=15 + step)
        found.append(
            agreed(tmp_path / str(step), making, making.but(runs=1, worse=0.4 + 0.1 * step))["arms"][0]["shifts"]
        )
    assert {len(one) for one in found} >= {0, 2}


@pytest.mark.parametrize(
    ("envelope", "level", "strict"),
    [(40, 0.01, None), (99, 0.01, None), (99, 0.019, None), (499, 0.01, 1), (499, 0.0119, 1), (999, 0.01, 4)],
)
def test_harmful_rates_of_single_strata(tmp_path: Path, envelope: int, level: float, strict: int | None) -> None:
    assert limits(envelope, level, 0.05).strict == strict
    making = Making(
        envelope=envelope, level=level, targets=1000, orders=2, harm=0.4, missing=0.1, chaotic=envelope > 99
    )
    folder = make(tmp_path, making)
    done = bitrift("analyze", folder, "--by", "stratum", "--json")
    assert done.returncode == 0, done.stderr
    groups = json.loads(done.stdout)["groups"]
    (arm,) = read_arms(folder)
    ours = harmful(arm)
    assert {one["key"]["stratum"] for one in groups} == ours.keys() == dict(making.bits).keys()
    for one in groups:
        assert one["harmful"]["interval"] == pytest.approx(ours[one["key"]["stratum"]], rel=1e-9)
    assert any(low > 0 for low, _ in ours.values()) == (strict is not None)
    assert any(high > one["rates"]["SDC"]["anytime"][1] for one, (_, high) in zip(groups, ours.values(), strict=True))


def test_a_gate_that_differs_in_any_number_is_noticed(tmp_path: Path) -> None:
    first = make(tmp_path / "first", USUAL)
    second = make(tmp_path / "second", USUAL.but(runs=1, more_harm=0.3))
    ours, theirs = gate_compare.ours(second, first), gate_compare.theirs(second, first)
    assert compared(ours, theirs) == []
    for place, key in (("lines", "p"), ("lines", "adjusted_p"), ("lines", "visible_points"), ("arms", "miss")):
        changed = copy.deepcopy(ours)
        changed[place][0][key] *= 1 + 1e-8
        assert compared(changed, theirs) != [], key
    changed = copy.deepcopy(ours)
    changed["flips"].pop()
    assert compared(changed, theirs) != []
