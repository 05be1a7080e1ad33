"""Chips of a mesh that die in a campaign: the run is judged by noise where its sums changed their order."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from campaign_support import BIN, CONTROLS, SMALL_BASE, campaign, run_rows

MESH = {"rows": 2, "columns": 3}  # connected whichever chip dies
PHASES = ["reduce", "update"]


def arm(name: str, schedule: str, recovery: str) -> dict:
    return {"name": name, "parallel": {"kind": "data", "mesh": MESH | {"schedule": schedule}}, "recovery": recovery}


SPEC = {
    "name": "mesh",
    "seed": 18,
    "base": {"train": SMALL_BASE["train"] | {"batch_size": 60, "epochs": 5}},
    "resume": {"epochs": 2},
    "arms": [arm("trees", "trees", "shrink"), arm("spare", "rings-2d", "spare")],
    "strata": {"process": {"phases": PHASES}},
    "trials_per_stratum": 1,  # each loses a process that starts LibTorch again
    "controls": CONTROLS,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mesh")


@pytest.fixture(scope="module")
def rows(place: Path) -> dict:
    return run_rows(place / "mesh", SPEC)


def trials(rows: dict, arm: str) -> list:
    return [row for row in rows.values() if row["kind"] == "trial" and row["id"]["arm"] == arm]


def test_survivors_go_on_with_other_sums(rows: dict) -> None:
    golden = rows["trees/control/0"]["result"]
    assert len(trials(rows, "trees")) == len(PHASES)
    for row in trials(rows, "trees"):
        result = row["result"]
        assert result["status"] == "done"
        assert result["recoveries"][0]["ranks_after"] == 5
        assert len(set(result["replica_digests"])) == 1
        assert result["final_digest"] != golden["final_digest"]
        for found, expected in zip(result["replicas"][0], golden["replicas"][0], strict=True):
            assert abs(found["test_loss"] - expected["test_loss"]) <= 1e-4


def test_a_spare_takes_the_chip_and_the_bits_stay(rows: dict) -> None:
    golden = rows["spare/control/0"]["result"]["final_digest"]
    assert [row["result"]["final_digest"] for row in trials(rows, "spare")] == [golden] * len(PHASES)


def test_only_an_arm_that_promises_the_golden_bits_is_held_to_them(rows: dict, place: Path) -> None:
    assert "spare/canary:recovers/0" in rows
    assert "trees/canary:recovers/0" not in rows
    command = [BIN / "bitrift", "analyze", place / "mesh"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_replay_gives_the_same_row(rows: dict, place: Path) -> None:
    again = campaign("replay", place / "mesh", "trees/process.update/0")
    assert again.returncode == 0, again.stdout + again.stderr


def test_arms_on_different_meshes_are_refused(place: Path, tmp_path: Path) -> None:
    other = arm("other", "trees", "shrink")
    other["parallel"]["mesh"] = MESH | {"dead": ["1,2"]}
    (tmp_path / "spec.json").write_text(json.dumps(SPEC | {"arms": [SPEC["arms"][0], other]}))
    done = campaign("run", tmp_path / "spec.json", "-o", tmp_path / "out")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "arms[1].parallel" in line and "each strategy and mesh" in line, line
