"""What a worker saves must change nothing: early ends, the base in memory, and what it might leave behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from campaign_support import CONTROLS, SMALL_BASE, campaign, read_incidents, read_rows

SPEC = {
    "name": "small-steps",
    "seed": 3,
    "base": SMALL_BASE,
    "resume": {"epochs": 2},
    "arms": [{"name": "serial", "parallel": {"kind": "serial"}}],
    "strata": {"roles": ["weight", "momentum"], "fields": ["sign", "exponent", "mantissa"]},
    "trials_per_stratum": 334,
    "controls": CONTROLS,
}


def run(place: Path, name: str, *options: object, **changes: object) -> tuple[Path, str]:
    (place / f"{name}.json").write_text(json.dumps(SPEC | changes))
    done = campaign("run", place / f"{name}.json", "-o", place / name, *options)
    assert done.returncode == 0, done.stderr
    return place / name, done.stderr


def without_returns(rows: dict) -> tuple[dict, list[int]]:
    returns = [row["result"].pop("returned_step") for row in rows.values() if "returned_step" in row.get("result", {})]
    return rows, returns


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("full"), "full", worker={"early_end": False})[0]


def test_two_thousand_trials_end_alike_with_and_without_an_early_end(full: Path, tmp_path: Path) -> None:
    early, _ = run(tmp_path, "early")
    rows, returns = without_returns(read_rows(early))
    reference, none = without_returns(read_rows(full))
    assert sum(row["kind"] == "trial" for row in rows.values()) == 6 * 334
    assert rows == reference
    assert none == []
    # Some come back at once, some later, most never.
    assert min(returns) == 1 and max(returns) > 2 and 50 < len(returns) < 1000


@pytest.mark.parametrize(
    ("parallel", "changes"),
    [
        ({"kind": "data", "ranks": 2}, {"schedule": {"name": "plateau", "patience": 0, "monitor": "train_loss"}}),
        pytest.param(
            {"kind": "pipeline", "ranks": 2, "micro_batches": 2},
            {"schedule": {"name": "step", "every": 10}},
            marks=pytest.mark.thorough,
        ),
        ({"kind": "serial"}, {"optimizer": {"name": "adam", "learning_rate": 0.01}}),
    ],
)
def test_other_strategies_schedules_and_optimizers(tmp_path: Path, parallel: dict, changes: dict) -> None:
    base = {"train": SMALL_BASE["train"] | changes}
    roles = ["weight", "exp_avg"] if "optimizer" in changes else ["weight", "momentum"]
    more = {
        "base": base,
        "arms": [{"name": "a", "parallel": parallel}],
        "strata": {"roles": roles, "fields": ["exponent", "mantissa"]},
        "trials_per_stratum": 60,
        "resume": {"epochs": 1},
    }
    early, _ = run(tmp_path, "early", **more)
    complete, _ = run(tmp_path, "complete", **more, worker={"early_end": False})
    rows, returns = without_returns(read_rows(early))
    assert rows == read_rows(complete)
    assert returns


def test_a_worker_with_something_left_behind_loses_its_rows_and_they_run_again(full: Path, tmp_path: Path) -> None:
    drill = ("--drill", "leak@serial/weight.exponent/150")
    checks = {"controls": CONTROLS | {"every": 40}, "worker": {"early_end": False}}
    leaking, text = run(tmp_path, "leaking", *drill, **checks)
    lines = [json.loads(line)["row"] for line in (leaking / "trials.jsonl").read_text().splitlines()]
    (retraction,) = [row for row in lines if row.get("kind") == "retract"]
    assert 1 < len(retraction["ids"]) <= 40 and "serial/weight.exponent/150" in retraction["ids"]
    assert "are retracted and run again" in text
    done = campaign("diff", leaking, full)
    assert done.returncode == 0, done.stdout + done.stderr
    assert read_incidents(leaking) == []
