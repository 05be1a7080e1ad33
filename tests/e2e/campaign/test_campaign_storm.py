"""Storms: ranks that fail again and again in one run (docs/spec.md, "Storms"), under the real trainer."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from campaign_support import BIN, CONTROLS, SMALL_BASE, campaign, read_incidents, run_rows
from philox import derive_key, philox_u64

RANKS, TRIALS, PHASES, HOW = 3, 3, ["forward", "reduce", "update"], ["kill", "slow"]
SLOW = {"factor": 2.0, "steps": 2}
RECOVERIES: dict[str, object] = {
    "respawn": "respawn",
    "expand": {"kind": "shrink", "expand_after": 2},
    "restart": {"kind": "restart", "snapshot_every": 4},
    "relaunch": {"kind": "relaunch", "checkpoint_every": 4},
    "none": "none",
}
RECOVERING = [name for name in RECOVERIES if name != "none"]
SPEC = {
    "name": "storm",
    "seed": 16,
    "base": {"train": SMALL_BASE["train"] | {"batch_size": 60, "epochs": 5}},
    "resume": {"epochs": 6},
    "arms": [
        {"name": name, "parallel": {"kind": "data", "ranks": RANKS}, "recovery": recovery}
        for name, recovery in RECOVERIES.items()
    ],
    "strata": {"process": {"phases": PHASES, "every": [4, 1000000], "how": HOW, "slow": SLOW}},
    "trials_per_stratum": TRIALS,
    "controls": CONTROLS,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("storm")


@pytest.fixture(scope="module")
def rows(place: Path) -> dict:
    return run_rows(place / "plain", SPEC)


def trial(rows: dict, arm: str, every: int, draw: int) -> dict:
    return rows[f"{arm}/process.every_{every}/{draw}"]


def below(key: int, draw: int, place: int, bound: int) -> int:
    """As in docs/spec.md; a bound below 2^32 is all but certain not to need a second number."""
    one = int(philox_u64(key, np.array([draw], np.uint64), place)[0])
    return int(philox_u64(one, np.array([0], np.uint64), 0)[0]) % bound


def test_draws_are_those_of_the_documented_random_numbers(rows: dict, place: Path) -> None:
    points = json.loads((place / "plain" / "campaign.json").read_text())["spec"]["strata"]["process"]["points"]
    steps = 6 * points["steps_per_epoch"]
    (stage,) = points["stages"]
    found = 0
    for every in (4, 1000000):
        key = derive_key(SPEC["seed"], f"stratum/process.every_{every}")
        for draw in range(TRIALS):
            expected = []
            for step in range(1, steps + 1):
                if below(key, draw, 5 * step, every) != 0:
                    continue
                phase = PHASES[below(key, draw, 5 * step + 2, len(PHASES))]
                one = {"rank": below(key, draw, 5 * step + 1, RANKS), "step": step, "phase": phase}
                one |= {"point": below(key, draw, 5 * step + 3, stage[phase])}
                one |= {"how": HOW[below(key, draw, 5 * step + 4, len(HOW))]}
                expected.append({"process": one | ({"slowness": SLOW} if one["how"] == "slow" else {})})
            found += len(expected)
            for arm in RECOVERIES:
                assert trial(rows, arm, every, draw)["faults"] == expected, (arm, every, draw)
    assert found > TRIALS


@pytest.mark.parametrize("arm", RECOVERING)
def test_every_failure_is_recovered_from(rows: dict, arm: str) -> None:
    golden = rows[f"{arm}/control/0"]["result"]["final_digest"]
    for draw in range(TRIALS):
        row = trial(rows, arm, 4, draw)
        assert row["landed"] and row["result"]["status"] == "done", row
        assert row["result"]["final_digest"] == golden
        killed = [one["process"]["rank"] for one in row["faults"] if one["process"]["how"] == "kill"]
        lost = [rank for one in row["result"]["recoveries"] for rank in one["failed"]]
        assert killed and all(lost.count(rank) >= killed.count(rank) for rank in killed), row["id"]
        if arm != "expand":  # there, one process may do the work of two ranks
            assert sorted(lost) == sorted(killed)


def test_runs_without_a_failure_count(rows: dict) -> None:
    for arm in RECOVERIES:
        for draw in range(TRIALS):
            row = trial(rows, arm, 1000000, draw)
            assert row["faults"] == [] and row["no_change"] and row["landed"]
            assert row["result"]["final_digest"] == rows[f"{arm}/control/0"]["result"]["final_digest"]
            assert "returned_step" not in row["result"]  # it took as long as the others


def test_the_view_has_goodput_and_outcomes_by_storm(rows: dict, place: Path) -> None:
    command = [BIN / "bitrift", "analyze", place / "plain", "--view", "process"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    counts = {(line["arm"], line["phase"]): line["counts"] for line in found["lines"]}
    assert len(counts) == 2 * len(RECOVERIES)
    for arm in RECOVERING:
        assert counts[arm, "every_4"]["recovered_bitwise"] == TRIALS
    assert counts["none", "every_4"]["lost"] == TRIALS
    goodput = {(line["arm"], line["storm"]): line for line in found["goodput"]}
    for arm in RECOVERING:
        faults = sum(len(trial(rows, arm, 4, draw)["faults"]) for draw in range(TRIALS)) / TRIALS
        assert goodput[arm, "every_4"]["faults"]["mean"] == pytest.approx(faults)
        assert 0 < goodput[arm, "every_4"]["goodput"]["p5"] <= goodput[arm, "every_4"]["goodput"]["median"]
    assert goodput["none", "every_4"]["trials"] == 0 and goodput["none", "every_4"]["goodput"]["median"] is None
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "goodput %" in table and "any rank" in table and "phase" not in table
    assert read_incidents(place / "plain") == []


def test_replay_and_extension_draw_the_same_storms(rows: dict, place: Path) -> None:
    again = campaign("replay", place / "plain", "restart/process.every_4/1")
    assert again.returncode == 0, again.stdout + again.stderr
    more = {"process": SPEC["strata"]["process"] | {"phases": [*PHASES, "backward"]}}
    (place / "more.json").write_text(json.dumps(SPEC | {"strata": more}))
    refused = campaign("run", place / "more.json", "-o", place / "plain", "--extend")
    assert refused.returncode == 2 and "strata.process.phases" in refused.stderr


def test_ranks_that_stop_after_others_were_replaced_are_ended(tmp_path: Path) -> None:
    """Open MPI's detector does not watch processes that joined. A pipeline needs a file, which new ranks write, too."""
    arm = {"name": "file", "parallel": {"kind": "pipeline", "ranks": 2, "micro_batches": 2}}
    arm["recovery"] = {"kind": "respawn", "state": "file", "checkpoint_every": 2}
    # In phase backward, neither rank can fail before the other has completed the step before.
    process = {"phases": ["backward"], "every": [6], "how": ["kill", "stop"]}
    changes = {"arms": [arm], "strata": {"process": process}, "trials_per_stratum": 2, "seed": 9}
    rows = run_rows(tmp_path / "stops", SPEC | changes)
    stops = 0
    for draw in range(2):
        row = trial(rows, "file", 6, draw)
        assert row["result"]["final_digest"] == rows["file/control/0"]["result"]["final_digest"]
        assert {one["state"] for one in row["result"]["recoveries"]} == {"file"}
        stops += sum(one["process"]["how"] == "stop" for one in row["faults"][1:])
    assert stops > 0
    (tmp_path / "far.json").write_text(json.dumps(SPEC | changes | {"worker": {"connect": "network"}}))
    refused = campaign("run", tmp_path / "far.json", "-o", tmp_path / "far")
    assert refused.returncode == 2 and "worker.connect: the driver ends ranks that stop" in refused.stderr
