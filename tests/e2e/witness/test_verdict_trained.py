"""Every row of campaigns over the real trainer, judged by bitrift and by verdict.py (see test_verdict.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import verdict
from campaign_support import campaign
from verdict_compare import RANKED, judged, numbers

ROOT = Path(__file__).resolve().parents[3]
QUICKSTART = json.loads((ROOT / "campaigns" / "quickstart.json").read_text())
LEVEL = 0.02
CONTROLS = {"envelope": 49, "held_out": 15, "jitter": 15}  # as few as calibrate for this level
FAULTS = {  # from harmless to fatal
    "one": {"bits": "any", "count": 1},
    "many": {"bits": "23-26", "count": 200},
    "large": {"bits": "exponent_msb", "count": 1},
}
ALL_METRICS = ["test_accuracy", "test_capped_loss", "test_loss", "train_accuracy", "train_loss"]


def run(place: Path, spec: dict) -> Path:
    (place / "spec.json").write_text(json.dumps(spec))
    done = campaign("run", place / "spec.json", "-o", place / "campaign")
    assert done.returncode == 0, done.stderr
    return place / "campaign"


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All three arms, with fewer trials of one epoch."""
    fewer = {"resume": {"epochs": 1}, "trials_per_stratum": 6, "controls": CONTROLS, "analysis": {"level": LEVEL}}
    return run(tmp_path_factory.mktemp("quickstart"), QUICKSTART | fewer)


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three evaluations, two data orders, two bases that were trained for a short while."""
    train = QUICKSTART["base"]["train"] | {"epochs": 3}
    spec = {key: value for key, value in QUICKSTART.items() if key != "$schema"} | {
        "base": [{"name": f"seed-{seed}", "train": train | {"seed": seed}} for seed in (1, 2)],
        "resume": {"epochs": 3},
        "arms": [{"name": "serial", "parallel": {"kind": "serial"}}],
        "strata": {"models": [{"name": name, "roles": ["weight"]} | model for name, model in FAULTS.items()]},
        "trials_per_stratum": 8,
        "controls": {"envelope": 24, "held_out": 10, "jitter": 10, "orders": 2},
        "analysis": {"level": 0.05},
    }
    return run(tmp_path_factory.mktemp("orders"), spec)


def canaries(folder: Path) -> set[tuple[str, str]]:
    found = [one for arm in verdict.read_arms(folder) for one in arm.verdicts() if one.kind == "canary"]
    return {(one.stratum, one.outcome if one.outcome != "masked" else one.reason) for one in found}


def behaved(roles: str) -> set[tuple[str, str]]:
    """What the canaries must be; NaN in any of these roles makes the training crash."""
    readers = {(f"canary:reads-{role}", "crash") for role in roles.split()}
    return {("canary:nan", "crash"), ("canary:negate", "SDC"), ("canary:none", "bitwise")} | readers


# More arms and roles, judged by the rules of the campaigns below.
@pytest.mark.thorough
def test_the_quickstart_campaign_is_judged_alike(quickstart: Path) -> None:
    found = judged(quickstart)
    assert {kind: len(found[kind]) for kind in RANKED} == {"trial": 3 * 9 * 6, "held_out": 45, "jitter": 45}
    assert {one.outcome for one in found["trial"]} >= {"masked", "crash"}
    assert canaries(quickstart) == behaved("weight bias momentum")
    numbers(quickstart)
    for metric in ALL_METRICS[:3]:
        judged(quickstart, metrics=[metric])
    judged(quickstart, metrics=ALL_METRICS, level=0.1)


def test_horizons_orders_and_bases_are_judged_alike(orders: Path) -> None:
    arms = verdict.read_arms(orders)
    assert [arm.name for arm in arms] == ["serial@seed-1", "serial@seed-2"]
    assert [sorted(arm.golden) for arm in arms] == [[0, 1], [0, 1]]
    draws = {
        (row["id"]["draw"] % 2, row.get("order", 0)) for arm in arms for row in arm.judged if row["kind"] == "trial"
    }
    assert draws == {(0, 0), (1, 1)}
    assert {kind: len(rows) for kind, rows in judged(orders).items()} == {"trial": 48, "held_out": 20, "jitter": 20}
    assert canaries(orders) == behaved("weight")
    numbers(orders)
    verdicts = set()
    for horizon in (1, 2, 3):
        for metrics in (None, ALL_METRICS, ["test_loss", "train_loss"]):
            found = judged(orders, horizon=horizon, metrics=metrics, level=0.2)["trial"]
            verdicts |= {one.reason for one in found}
    assert verdicts > {"within_noise", "nonfinite"}
