"""Ranks that fail under the real trainer: workers outlive them, and nothing outlives the driver."""

from __future__ import annotations

import json
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest
from campaign_support import (
    CONTROLS,
    SMALL_BASE,
    Driver,
    campaign,
    journal_lines,
    read_incidents,
    read_rows,
    run_rows,
    scratch_folders,
    wait_until,
)

PARALLEL = {"kind": "data", "ranks": 3}
RECOVERIES: dict[str, object] = {
    "shrink": "shrink",
    "expand": {"kind": "shrink", "expand_after": 2},
    "spare": "spare",
    "respawn": "respawn",
    "relaunch": {"kind": "relaunch", "checkpoint_every": 4},
    "none": "none",
}
RECOVERING = [name for name in RECOVERIES if name != "none"]
PHASES = ["backward", "reduce", "evaluate"]  # all of them: test_rank_failure.py
SPEC = {
    "name": "processes",
    "seed": 16,
    "base": {"train": SMALL_BASE["train"] | {"batch_size": 60, "epochs": 5}},
    "resume": {"epochs": 2},
    "arms": [{"name": name, "parallel": PARALLEL, "recovery": recovery} for name, recovery in RECOVERIES.items()],
    "strata": {"process": {"phases": PHASES}},
    "trials_per_stratum": 1,  # each loses a process that starts LibTorch again
    "controls": CONTROLS,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("processes")


@pytest.fixture(scope="module")
def rows(place: Path) -> dict:
    return run_rows(place / "plain", SPEC)


def trials(rows: dict, arm: str) -> list:
    return [row for row in rows.values() if row["kind"] == "trial" and row["id"]["arm"] == arm]


@pytest.mark.parametrize("arm", RECOVERING)
def test_runs_that_recover_end_as_if_no_rank_had_failed(rows: dict, arm: str) -> None:
    golden = rows[f"{arm}/control/0"]["result"]["final_digest"]
    golden_steps = rows[f"{arm}/control/0"]["result"]["steps"]
    assert len(trials(rows, arm)) == len(PHASES)
    for row in trials(rows, arm):
        result = row["result"]
        recovery, *expansions = result["recoveries"]
        assert result["status"] == "done" and result["final_digest"] == golden
        assert recovery["kind"] == ("shrink" if arm == "expand" else arm)
        assert recovery["failed"] == [fault["process"]["rank"] for fault in row["faults"]]
        assert recovery["ranks_after"] == (2 if arm in ("shrink", "expand") else 3)
        # No steps are left after the last evaluation.
        steps_left = recovery["step"] + 2 < golden_steps
        assert [one["ranks_after"] for one in expansions] == [3] * (arm == "expand" and steps_left)


def test_without_a_recovery_the_run_ends_and_no_worker_counts_as_lost(rows: dict, place: Path) -> None:
    assert [row["result"]["status"] for row in trials(rows, "none")] == ["unrecovered"] * len(PHASES)
    assert rows["spare/canary:no-recovery/0"]["result"]["status"] == "unrecovered"
    assert read_incidents(place / "plain") == []


def test_replay_gives_the_same_row(rows: dict, place: Path) -> None:
    again = campaign("replay", place / "plain", "respawn/process.reduce/0")
    assert again.returncode == 0, again.stdout + again.stderr


def stops_with_ranks(driver: Driver, folder: Path, rows: int) -> bool:
    """Whether the driver is stopped: it has written so many rows, and has ranks (between two arms there are none)."""
    if journal_lines(folder) < rows:
        return False
    driver.process.send_signal(signal.SIGSTOP)
    if driver.ranks():
        return True
    driver.process.send_signal(signal.SIGCONT)
    return False


# Around a stand-in for the trainer: test_campaign_processes.py.
@pytest.mark.thorough
def test_killed_driver_leaves_no_process_and_the_next_one_ends_with_the_same_rows(rows: dict, place: Path) -> None:
    arms = ["spare", "respawn"]
    expected = {key: row for key, row in rows.items() if row["id"]["arm"] in arms}
    spec, folder = place / "some.json", place / "killed"
    spec.write_text(json.dumps(SPEC | {"arms": [arm for arm in SPEC["arms"] if arm["name"] in arms]}))
    for trials_left in (2 * len(PHASES) - 1, len(PHASES)):  # whichever arm goes first, there is another after it
        driver = Driver("run", spec, "-o", folder, "--workers", "1")
        wait_until(partial(stops_with_ranks, driver, folder, len(expected) - trials_left), 200, driver.said)
        driver.process.kill()
        driver.process.communicate()
        driver.assert_no_process_left(10)
        for left in scratch_folders(folder):
            shutil.rmtree(left)
    done = campaign("run", spec, "-o", folder, "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert read_rows(folder, check_crc=True) == expected
