"""The parts of a checkpoint study that take time: saves that are timed, and trainings that are killed."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

import pytest
from study_support import SPEC, rows_of, study, write
from train_support import PROGRAM, tensors

COST = {
    "turns": 2,
    "ranks": [1, 2],
    "pause_seconds": 0,
    "between_seconds": 0.1,
    "models": [SPEC["base"]["train"] | {"batch_size": 32}],
    "shard_optimizer": [True],
}
POLICY = {"mean_time_between_failures": 3, "lives": 2, "factors": [0.5, 1], "modes": ["async"], "seed": 4}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    changes = {"formats": ["hdf5", "pytorch"], "parts": ["cost", "policy"], "cost": COST, "policy": POLICY}
    spec = write(folder, **changes)
    ended = study(spec, folder / "out")
    assert ended.returncode == 0, ended.stderr
    again = study(spec, folder / "out")
    assert again.returncode == 0 and again.stdout == ended.stdout
    assert "trainings" not in {path.name for path in (folder / "out").iterdir()}
    return folder / "out"


def test_every_case_is_timed_in_every_turn(done: Path) -> None:
    rows = [row for row in rows_of(done) if row["part"] == "cost"]
    ours = [row for row in rows if row["writer"] == "bitrift" and row["format"] == "hdf5"]
    shards = [row for row in ours if row.get("shard_optimizer")]
    ours = [row for row in ours if row not in shards]
    found = sorted((row["mode"], row["route"], row["ranks"], row["model"], row["turn"]) for row in shards)
    ways = [("sync", "gather"), ("sync", "shared"), ("async", "gather")]
    assert found == sorted((*way, 2, 0, turn) for way in ways for turn in (0, 1))
    cases = sorted((row.get("mode", "none"), row["route"], row["ranks"], row["model"], row["turn"]) for row in ours)
    sync = [("gather", 1), ("gather", 2), ("shared", 2)]
    expected = [("sync", *one, model, turn) for one in sync for model in (0, 1) for turn in (0, 1)]
    expected += [(mode, "gather", 1, 0, turn) for mode in ("async", "none") for turn in (0, 1)]
    assert cases == sorted(expected)
    base = (done / "base.h5").stat().st_size
    for row in rows:
        if row.get("mode") is None:
            assert row["block_seconds"] == 0 and row["step_seconds"] > 0
            continue
        assert row["block_seconds"] > 0
        assert (row["persist_seconds"] > 0) == (row["mode"] == "async")
        if row["format"] == "hdf5" and row["writer"] == "bitrift" and row["model"] == 0:
            assert row["bytes"] == base


def test_parallel_hdf5_is_timed_where_it_is_installed(done: Path) -> None:
    installed = PROGRAM.with_name("bitrift-hdf5-parallel").exists()
    rows = [row for row in rows_of(done) if row["format"] == "hdf5-parallel"]
    found = sorted((row["writer"], row["mode"], row["route"], row["ranks"], row["model"], row["turn"]) for row in rows)
    routes = ("collective", "independent")
    expected = [("native", "sync", route, 2, 0, turn) for route in routes for turn in (0, 1)]
    assert found == (expected if installed else [])
    values = sum(value.nbytes for value in tensors(done / "base.h5").values())
    assert all(row["bytes"] > values and row["library"].startswith("HDF5 ") for row in rows)
    assert json.loads((done / "summary.json").read_text())["cost"]["not_installed"] == (
        [] if installed else ["hdf5-parallel"]
    )
    table = study(done.parent / "spec.json", done).stdout
    assert ("hdf5-parallel native   not installed\n" in table) == (not installed)


def test_the_summary_has_ratios_within_turns(done: Path) -> None:
    rows = {(row["format"], row["writer"], row["turn"]): row for row in rows_of(done) if row.get("mode") == "sync"}
    summary = json.loads((done / "summary.json").read_text())["cost"]
    (torch_save,) = (one for one in summary["saves"] if (one["format"], one["writer"]) == ("pytorch", "native"))
    ratios = [
        rows["raw", "native", turn]["block_seconds"] / rows["pytorch", "native", turn]["block_seconds"]
        for turn in (0, 1)
    ]
    assert torch_save["as_fast_as_raw"]["median"] == pytest.approx(statistics.median(ratios))
    assert torch_save["as_fast_as_torch_save"]["median"] == 1


def test_lives_are_killed_when_they_must_be_and_advance_by_intervals(done: Path) -> None:
    rows = [row for row in rows_of(done) if row["part"] == "policy"]
    measured = [row for row in rows if "restart_seconds" in row]
    lives = [row for row in rows if row not in measured]
    intervals = sorted({row["interval"] for row in lives})
    # All at first, and then one in each turn.
    assert [(row["interval"], row["number"]) for row in measured] == [
        *((interval, 0) for interval in (0, *intervals)),
        (intervals[1 % len(intervals)], 1),
    ]
    times: dict[int, set[float]] = {}
    for row in lives:
        assert row["steps"] % row["interval"] == 0 and row["steps"] >= 0
        times.setdefault(row["number"], set()).add(round(row["seconds"], 1))
    # Every interval meets the same failures.
    assert all(max(found) - min(found) <= 0.5 for found in times.values()), times
    (mode,) = json.loads((done / "summary.json").read_text())["policy"]
    assert {cell["interval"] for cell in mode["intervals"]} == {row["interval"] for row in lives}
    for cell in mode["intervals"]:
        mine = [row for row in lives if row["interval"] == cell["interval"]]
        seconds = sum(row["seconds"] for row in mine)
        # Those that were measured last before a life.
        costs = {
            turn: [row for row in measured if row["interval"] == cell["interval"] and row["number"] <= turn][-1]
            for turn in range(POLICY["lives"])
        }
        steps = {row["number"]: row.get("step_seconds", costs[row["number"]]["step_seconds"]) for row in mine}
        useful = sum(row["steps"] * steps[row["number"]] for row in mine) / seconds
        assert cell["useful"] == pytest.approx(useful)
        assert 0 < cell["predicted"] < 1
        assert cell["block_seconds"] == pytest.approx(
            statistics.fmean(row["block_seconds"] for row in measured if row["interval"] == cell["interval"])
        )
        assert cell["predicted_own_costs"] == pytest.approx(expected_of_own_costs(cell["interval"], mine, costs))
        replayed = sum(kept(cell["interval"], costs[row["number"]], row["seconds"]) for row in mine) / seconds
        assert cell["replayed"] == pytest.approx(replayed)
        assert cell["difference"] == pytest.approx(useful - replayed)
        low, high = cell["difference_student_t"]
        assert low <= cell["difference"] <= high
    # What a life knows of its own costs is in its newest checkpoint: those of the steps after its first one and of
    # the saves before. A kill can come between a checkpoint and its provenance. Then the one before it counts.
    for row in lives:
        if row["steps"] - row["interval"] >= 2:
            assert row["step_seconds"] > 0
        if row["steps"] >= 4 * row["interval"]:
            assert row["block_seconds"] > 0 and row["persist_seconds"] > 0


def expected_of_own_costs(interval: int, lives: list[dict], before: dict[int, dict]) -> float:
    """The expectation for saves in the background with what they cost in these lives."""
    known = [row for row in lives if row.get("block_seconds")]
    weights = [row["steps"] for row in known]
    mean = POLICY["mean_time_between_failures"]

    def cost(name: str) -> float:
        if not known:
            return statistics.fmean(before[row["number"]][name] for row in lives)
        return statistics.fmean((row.get(name) or before[row["number"]][name] for row in known), weights)

    work = interval * cost("step_seconds")
    restart = statistics.fmean(before[row["number"]]["restart_seconds"] for row in lives)
    first = restart + work + cost("block_seconds") + cost("persist_seconds")
    between = cost("block_seconds") + max(work, cost("persist_seconds"))
    return work * math.exp(-first / mean) / -math.expm1(-between / mean) / mean


def kept(interval: int, costs: dict, seconds: float) -> float:
    """The work that the model keeps of a life with saves in the background."""
    work = interval * costs["step_seconds"]
    now, free, kept = costs["restart_seconds"], 0.0, 0.0
    while True:
        now = max(now + work, free) + costs["block_seconds"]
        free = now + costs["persist_seconds"]
        if free > seconds:
            return kept
        kept += work
