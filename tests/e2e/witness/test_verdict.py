"""Every row's verdict by bitrift and by the second implementation in verdict.py, which knows docs/outcomes.md only.

Journals made by hand stand at the borders of the rule, with what must come out written beside them.
test_verdict_trained.py has those of the real trainer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import bitrift
import numpy as np
import pytest
import verdict
from verdict_compare import RANKED, analyze, differences, judged, numbers, reasons, refused, trials
from verdict_journals import Hand, add_own_metrics, line, random_journal, write
from verdict_rank import false_sdc_chance, levels


def spread(runs: int = 99) -> list[dict[str, float]]:
    """Accuracies around 0.9, worst first, 0.851 to 0.949 for 99 runs: with one bad run more their median is 0.8995, and
    a run is outside when it is further below than 0.0485. Losses in two heaps, whose scores are lower than that.
    """
    middle = (runs - 1) / 2
    heaps = [0 if i == 50 else 0.01 * (-1) ** i for i in range(runs)]
    return [
        {"test_accuracy": round(0.9 + 0.001 * (i - middle), 4), "test_capped_loss": 0.25 * math.exp(heaps[i])}
        for i in range(runs)
    ]


def accuracies(folder: Path, golden: float, tried: Sequence[float], **options: Any) -> list[verdict.Verdict]:
    """Verdicts over trials that differ in accuracy only."""
    hand = Hand()
    hand.golden({"test_accuracy": golden})
    hand.envelope(spread())
    for accuracy in tried:
        hand.add("trial", {"test_accuracy": accuracy})
    return trials(write(folder, hand), **options)


def test_a_harm_equal_to_the_limit_is_inside_and_one_ulp_more_is_not(tmp_path: Path) -> None:
    found = accuracies(tmp_path, 0.9, [0.851, math.nextafter(0.851, 0), 0.85, math.nextafter(0.851, 1)])
    assert [one.reason for one in found] == ["within_noise", "low_test_accuracy", "low_test_accuracy", "within_noise"]
    assert [one.p_value for one in found] == [0.02, 0.01, 0.01, 0.02]
    assert {one.course for one in found} == {None}


def test_harm_is_counted_from_a_golden_run_in_the_bad_tail(tmp_path: Path) -> None:
    found = accuracies(tmp_path, 0.86, [0.86, 0.85, 0.812, 0.811, 0.95])
    assert [one.outcome for one in found] == ["masked", "masked", "masked", "SDC", "masked"]
    assert [one.p_value for one in found[2:4]] == [0.02, 0.01]


def test_a_golden_run_that_is_the_worst_of_all_makes_no_equal_trial_an_sdc(tmp_path: Path) -> None:
    found = accuracies(tmp_path, 0.84, [0.84, 0.839, 0.792, 0.791])
    assert [one.outcome for one in found] == ["masked", "masked", "masked", "SDC"]


def test_a_lucky_golden_run_makes_no_usual_trial_an_sdc(tmp_path: Path) -> None:
    assert {one.reason for one in accuracies(tmp_path, 0.96, [0.9, 0.86, 0.852])} == {"within_noise"}


def test_metrics_that_only_improve_are_never_outside(tmp_path: Path) -> None:
    hand = Hand()
    hand.golden()
    hand.envelope([{"test_accuracy": 0.9 - 0.001 * (i % 3), "test_capped_loss": 0.25 + 0.001 * i} for i in range(40)])
    hand.add("trial", {"test_accuracy": 1.0, "test_capped_loss": 0.0})
    hand.add("trial", {"test_accuracy": 0.9, "test_capped_loss": 5e-324})
    hand.add("trial", {"test_accuracy": 1.0, "test_capped_loss": 0.8})
    assert reasons(write(tmp_path, hand)) == ["within_noise", "within_noise", "high_test_loss"]


@pytest.mark.parametrize(("worst", "reason"), [(34, "low_test_accuracy"), (33, "within_noise")])
def test_ties_count_for_the_run(tmp_path: Path, worst: int, reason: str) -> None:
    hand = Hand(targets=36)
    hand.golden({"test_accuracy": 35 / 36})
    right = [34] * 60 + [35] * 38 + [worst]
    hand.envelope([{"test_accuracy": n / 36, "test_capped_loss": 0.25 + 1e-7 * i} for i, n in enumerate(right)])
    hand.add("trial", {"test_accuracy": 33 / 36})
    write(tmp_path, hand, metrics=["test_accuracy"])
    assert reasons(tmp_path) == [reason]


def test_a_constant_accuracy_is_counted_in_test_targets_beside_a_loss(tmp_path: Path) -> None:
    hand = Hand(targets=50)
    hand.golden({"test_accuracy": 1.0})
    hand.envelope([{"test_accuracy": 1.0, "test_capped_loss": 0.25 * math.exp(0.01 * (i - 49))} for i in range(99)])
    for wrong in (0, 1, 2):  # the worst loss lies 0.49 above the median, in units of 1.4826 times 0.25: 1.3
        hand.add("trial", {"test_accuracy": 1 - wrong / 50})
    assert reasons(write(tmp_path, hand)) == ["within_noise", "within_noise", "low_test_accuracy"]
    write(tmp_path, hand, metrics=["test_accuracy"])
    refused(tmp_path, "test_accuracy")
    for row in hand.rows:
        row.get("result", {}).pop("test_targets", None)
    write(tmp_path, hand)
    refused(tmp_path, "test_accuracy")


def test_without_test_targets_the_smallest_difference_of_clean_runs_is_the_unit(tmp_path: Path) -> None:
    hand = Hand(targets=None)
    hand.golden()
    hand.envelope([{"test_accuracy": 0.9 - (0.004 if i == 7 else 0)} for i in range(30)])
    for accuracy in (0.896, 0.895):
        hand.add("trial", {"test_accuracy": accuracy})
    write(tmp_path, hand, metrics=["test_accuracy"])
    assert reasons(tmp_path) == ["within_noise", "low_test_accuracy"]


def test_clean_runs_that_are_all_the_same_are_refused_with_the_cure(tmp_path: Path) -> None:
    hand = Hand()
    hand.golden()
    hand.envelope([{}] * 99)
    hand.add("trial")
    refused(write(tmp_path, hand), "larger test set", "learning rate")
    refused(write(tmp_path, hand, metrics=["test_accuracy", "train_accuracy"]), "larger test set", "learning rate")


@pytest.mark.parametrize("runs", [1, 19])
def test_fewer_than_twenty_clean_runs_are_refused(tmp_path: Path, runs: int) -> None:
    hand = Hand()
    hand.golden()
    hand.envelope(spread(runs))
    hand.add("trial")
    refused(write(tmp_path, hand), f"{runs} envelope runs", "campaign run")


@pytest.mark.parametrize("value", ["NaN", "Infinity"])
def test_a_clean_run_with_a_metric_that_is_not_finite_is_refused(tmp_path: Path, value: str) -> None:
    hand = Hand()
    hand.golden()
    hand.envelope(spread())
    hand.rows[20]["result"]["replicas"][0][0]["test_capped_loss"] = value
    refused(write(tmp_path, hand), "test_capped_loss")


def test_a_capped_loss_that_no_row_has_is_left_out_unless_it_is_all_that_counts(tmp_path: Path) -> None:
    hand = Hand()
    hand.golden()
    hand.envelope(spread())
    for row in hand.rows:
        for one in row["result"]["replicas"]:
            for evaluation in one:
                evaluation.pop("test_capped_loss", None)
    hand.add("trial", {"test_accuracy": 0.85})
    hand.rows[-1]["result"]["replicas"][0][0].pop("test_capped_loss")
    assert reasons(write(tmp_path, hand)) == ["low_test_accuracy"]
    assert reasons(write(tmp_path, hand, metrics=None)) == ["low_test_accuracy"]  # a spec of an earlier version
    refused(write(tmp_path, hand, metrics=["test_capped_loss"]), "test_capped_loss", "--metrics")
    refused(write(tmp_path, hand, metrics=["test_accuracy", "train_loss"]), "train_loss", "--metrics")


def test_with_two_thousand_clean_runs_the_twentieth_is_the_limit(tmp_path: Path) -> None:
    hand = Hand(targets=10_000)
    hand.golden({"test_accuracy": 0.6})
    hand.envelope([{"test_accuracy": round(0.5 + 1e-4 * i, 4)} for i in range(2000)])
    for accuracy in (0.5019, 0.50185, 0.4):
        hand.add("trial", {"test_accuracy": accuracy})
    found = trials(write(tmp_path, hand, metrics=["test_accuracy"]))
    assert [one.reason for one in found] == ["within_noise", "low_test_accuracy", "low_test_accuracy"]
    assert [round(one.p_value * 2001) for one in found] == [21, 20, 1]
    assert reasons(tmp_path, level=0.001) == ["within_noise", "within_noise", "low_test_accuracy"]


def test_every_data_order_has_its_own_golden_run(tmp_path: Path) -> None:
    hand = Hand()
    for order, accuracy in enumerate((0.9, 0.86, 0.96)):
        hand.golden({"test_accuracy": accuracy}, order)
    hand.envelope(spread())
    for accuracy in (0.85, 0.811):
        for order in range(3):
            hand.add("trial", {"test_accuracy": accuracy}, order=order)
    hand.add("trial", {}, order=1, digest="golden1")
    hand.add("trial", {}, order=1, digest="golden0")
    hand.add("held_out", {"test_accuracy": 0.849})
    hand.add("jitter", {"test_accuracy": 0.849}, order=1)
    found = judged(write(tmp_path, hand, controls={"orders": 3}))
    low = "low_test_accuracy"
    expected = [low, "within_noise", low, low, low, low, "bitwise", "within_noise"]
    assert [one.reason for one in found["trial"]] == expected
    assert [one.reason for one in found["held_out"] + found["jitter"]] == [low, "within_noise"]


def test_worst_judges_the_worst_replica_and_rank0_the_first(tmp_path: Path) -> None:
    hand = Hand(replicas=3)
    hand.golden([[{"test_accuracy": 0.95}], [{"test_accuracy": 0.9}], [{"test_accuracy": 0.94}]])
    best = {"test_accuracy": 1.0, "test_capped_loss": 0.1}
    for i, one in enumerate(spread()):
        hand.add("envelope", [[one | {"test_accuracy": 0.95 - 0.001 * (i % 4)}], [one], [best]])
    for accuracies in ((0.95, 0.95, 0.85), (0.85, 0.95, 0.95), (0.946, 0.9, 0.94), (0.95, 0.86, 0.95)):
        hand.add("trial", [[{"test_accuracy": value}] for value in accuracies])
    hand.add("trial", [[{}], [{}], [{"test_loss": "NaN"}]])
    hand.add("trial", [[{}], [{}], [{}]], replica_digests=["golden0", "golden0", "other"], digest="golden0")
    low = "low_test_accuracy"
    expected = [low, low, "within_noise", "within_noise", "nonfinite", "within_noise"]
    assert reasons(write(tmp_path / "worst", hand)) == expected
    expected = ["within_noise", low, low, "within_noise", "nonfinite", low]
    assert reasons(write(tmp_path / "rank0", hand, judge="rank0")) == expected


def hand_of_three_evaluations() -> Hand:
    hand = Hand(length=3)
    hand.golden()
    hand.envelope([[one, one, one] for one in spread()])
    return hand


def test_courses_and_recoveries_follow_the_evaluations_on_the_way(tmp_path: Path) -> None:
    hand = hand_of_three_evaluations()
    good, bad = {}, {"test_accuracy": 0.7}
    for way in ((bad, bad, bad), (good, bad, bad), (good, good, bad), (bad, good, bad)):
        hand.add("trial", way)
    for way in ((bad, good, good), (bad, bad, good), (good, bad, good), (good, good, good)):
        hand.add("trial", way)
    found = trials(write(tmp_path, hand))
    assert [one.course for one in found] == ["sharp", "slow", "slow", "relapsed", *[None] * 4]
    assert [one.steps_to_recover for one in found] == [*[None] * 4, 40, 60, 60, None]
    assert {one.reason for one in found[4:7]} == {"reconverged"}
    early = trials(tmp_path, horizon=1)
    assert [one.outcome == "SDC" for one in early] == [True, False, False, True, True, True, False, False]
    assert {one.course for one in early} == {None}
    assert [one.course for one in trials(tmp_path, horizon=2)][:4] == ["sharp", "slow", None, None]


def test_earlier_evaluations_are_ranked_all_together(tmp_path: Path) -> None:
    hand = Hand(length=3)
    hand.golden()
    hand.envelope([[one, {"test_accuracy": 0.9}, one] for one in spread()])
    hand.rows[30]["result"]["replicas"][0][1]["test_accuracy"] = 0.8  # 100 targets, and the unit there is one
    hand.add("trial", [{"test_accuracy": 0.7}, {}, {}])
    hand.add("trial", [{}, {"test_accuracy": 0.8}, {}])
    hand.add("trial", [{}, {"test_accuracy": 0.799}, {}])
    hand.add("trial", [{}, {}, {"test_accuracy": 0.85}])
    assert reasons(write(tmp_path, hand)) == ["within_noise", "within_noise", "reconverged", "low_test_accuracy"]


def test_a_run_that_ends_behind_the_horizon_counts_as_what_it_was_by_then(tmp_path: Path) -> None:
    hand = hand_of_three_evaluations()
    broken = {"status": "nonfinite", "nonfinite_step": 20, "steps": 20}
    hand.add("trial", [{}], **broken)
    hand.add("trial", [{"test_accuracy": 0.7}, {}], **broken | {"nonfinite_step": 47})
    hand.add("trial", [{}, {"test_loss": "Infinity"}], **broken | {"nonfinite_step": 40})
    hand.add("trial", [{"test_accuracy": 0.7}, {}], status="rejected", detail="guard")
    hand.add("trial", failure="hang")
    hand.add("trial", [{}, {}, {}], digest="golden0", returned_step=21)
    hand.add("trial", [{}, {}, {}], digest="golden0")
    hand.add("trial", [{}, {}, {}], digest="other", returned_step=20)
    crash = ["nonfinite", "nonfinite", "nonfinite", "rejected", "hang"]
    assert reasons(write(tmp_path, hand)) == [*crash, "bitwise", "bitwise", "within_noise"]
    found = reasons(tmp_path, horizon=2)
    low, same, back = "low_test_accuracy", "within_noise", "reconverged"
    assert found == ["nonfinite", back, "nonfinite", back, "hang", "bitwise", same, same]
    assert reasons(tmp_path, horizon=1) == [same, low, same, low, "hang", same, same, same]


def test_training_metrics_are_asked_for_and_lacking_ones_take_no_part(tmp_path: Path) -> None:
    hand = Hand()
    hand.golden()
    runs = spread()
    hand.envelope([one | {"train_loss": 0.125 * math.exp(0.001 * i)} for i, one in enumerate(runs)])
    hand.add("trial", {"train_loss": 0.5})
    hand.add("trial", {"train_loss": 0.5, "test_accuracy": 0.5})
    hand.add("trial", {"test_accuracy": 0.5})
    del hand.rows[-1]["result"]["replicas"][0][0]["train_loss"]
    hand.add("trial", {})
    del hand.rows[-1]["result"]["replicas"][0][0]["train_loss"]
    low = "low_test_accuracy"
    assert reasons(write(tmp_path, hand)) == ["within_noise", low, low, "within_noise"]
    metrics = ["test_accuracy", "train_loss"]
    assert reasons(tmp_path, metrics=metrics) == ["training_only", low, low, "within_noise"]


def test_a_campaign_whose_clean_runs_fall_to_nothing_is_blind(tmp_path: Path) -> None:
    hand = Hand()
    hand.golden()
    hand.envelope(spread())
    hand.rows[-1]["result"]["replicas"][0][0]["test_accuracy"] = 0.0
    hand.add("trial", {"test_accuracy": 0.0})
    assert reasons(write(tmp_path, hand)) == ["within_noise"]
    (arm,) = verdict.read_arms(tmp_path)
    assert arm.resolution()["test_accuracy"] is None
    numbers(tmp_path)


def test_retracted_rows_do_not_count(tmp_path: Path) -> None:
    hand = Hand()
    hand.golden()
    hand.envelope(spread())
    hand.add("trial", {"test_accuracy": 0.1})
    hand.add("trial", {"test_accuracy": 0.1})
    write(tmp_path, hand)
    again = json.loads(json.dumps(hand.rows[-1]))
    again["result"]["replicas"][0][0]["test_accuracy"] = 0.9
    with (tmp_path / "trials.jsonl").open("ab") as journal:
        journal.write(line({"kind": "retract", "ids": ["serial/weight.sign/1"], "reason": "r"}))
        journal.write(line(again))
    assert reasons(tmp_path) == ["low_test_accuracy", "within_noise"]


@pytest.mark.parametrize("kind", ["held_out", "jitter"])
def test_measured_false_sdcs_that_refute_the_stated_level_end_with_one(tmp_path: Path, kind: str) -> None:
    fewest = next(bad for bad in range(31) if false_sdc_chance(bad, 30, 99, 0.01) < 0.001)
    for bad, code in ((fewest - 1, 0), (fewest, 1)):
        hand = Hand()
        hand.golden()
        hand.envelope(spread())
        hand.add("trial")
        for i in range(30):
            hand.add(kind, {"test_accuracy": 0.8 if i < bad else 0.9})
        folder = write(tmp_path / str(bad), hand)
        (arm,) = verdict.read_arms(folder)
        measured = arm.false_sdcs(kind)
        assert (measured.runs, measured.sdc, measured.contradicts) == (30, bad, code == 1)
        done = analyze(folder)
        assert done.returncode == code, done.stderr
        if code == 0:
            assert [one.outcome for one in judged(folder)[kind]].count("SDC") == bad
            continue
        with pytest.raises(bitrift.Error) as raised:
            bitrift.outcomes(folder, kinds=RANKED)
        assert raised.value.code == "conflict"


LEVELS = [(20, 4.8, 13.9), (50, 2.0, 5.8), (99, 1.0, 3.0), (199, 1.0, 2.4), (499, 1.0, 1.8)]


@pytest.mark.parametrize(("runs", "stated", "likely"), LEVELS)
def test_the_levels_are_those_of_the_document(runs: int, stated: float, likely: float) -> None:
    assert [round(100 * one, 1) for one in levels(runs, 0.01)] == [stated, likely]


@pytest.mark.parametrize("seed", range(12))
def test_random_journals_with_many_ties_are_judged_alike(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    hand = random_journal(random)
    judge = str(random.choice(["worst", "rank0"]))
    folder = write(tmp_path, hand, judge=judge, level=float(random.choice([0.01, 0.05, 0.2])))
    found = judged(folder)["trial"]
    numbers(folder)
    assert len({one.reason for one in found}) > 1
    test = random.permutation(["test_accuracy", "test_capped_loss", "test_loss"]).tolist()  # the canaries need one
    for metrics in (test[:1], [*test[:1], "train_loss"], [*test, "train_accuracy", "train_loss"]):
        for horizon in range(1, hand.length + 1):
            judged(folder, metrics=metrics, horizon=horizon, level=float(random.choice([0.02, 0.1])))


@pytest.mark.parametrize("seed", range(100, 106))
def test_random_journals_of_metrics_that_a_program_names_are_judged_alike(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    hand = random_journal(random)
    add_own_metrics(hand)
    folder = write(tmp_path, hand, metrics=None, level=float(random.choice([0.01, 0.05, 0.2])))
    assert "worse_metric" in {one.reason for one in judged(folder)["trial"]}
    numbers(folder)
    for metrics in (["perplexity=lower"], ["points=higher", "train_loss"]):
        for horizon in range(1, hand.length + 1):
            judged(folder, metrics=metrics, horizon=horizon, level=float(random.choice([0.02, 0.1])))


def test_a_verdict_that_differs_in_any_field_is_noticed(tmp_path: Path) -> None:
    """The comparison itself can fail: by a changed field, a missing row, and a rule that is off by one rank."""
    hand = hand_of_three_evaluations()
    for way in ({"test_accuracy": 0.7}, {}, [{"test_accuracy": 0.7}, {}, {}], {"test_accuracy": 0.851}):
        hand.add("trial", way)
    folder = write(tmp_path, hand)
    (arm,) = verdict.read_arms(folder)
    ours, theirs = [one for one in arm.verdicts() if one.kind in RANKED], bitrift.outcomes(folder, kinds=RANKED)
    assert differences(ours, theirs) == []
    changes: list[dict[str, Any]] = [{"outcome": "crash"}, {"reason": "hang"}, {"course": "slow"}, {"p_value": 0.5}]
    for change in [*changes, {"steps_to_recover": 1}, {"draw": 9}]:
        for i, one in enumerate(ours):
            assert differences([*ours[:i], replace(one, **change), *ours[i + 1 :]], theirs), (i, change)
    assert differences(ours[1:], theirs)
    (loose,) = verdict.read_arms(folder, level=0.02)
    changed = [one for one in loose.verdicts() if one.kind in RANKED]
    assert [text.split(": ")[1] for text in differences(changed, theirs)] == ["outcome", "reason", "course"]
