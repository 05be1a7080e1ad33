"""Campaigns over the real trainer: the same journal whatever happens on the way (docs/campaign.md).

test_campaign_driver.py has the cases that need no training.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal

import pytest
from campaign_support import (
    CONTROLS,
    PREPARATION_PER_ARM,
    Driver,
    campaign,
    journal_lines,
    processes_with,
    read_incidents,
    read_rows,
    scratch_folders,
    wait_until,
)

BASE = {
    "train": {
        "model": {"name": "lenet"},
        "data": {"name": "digits"},
        "batch_size": 64,
        "epochs": 8,
        "seed": 1,
        "optimizer": {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9},
    },
    "min_test_accuracy": 0.9,
}
SPEC = {
    "name": "small",
    "seed": 7,
    "base": {"checkpoint": "base.h5", "min_test_accuracy": 0.9},
    "resume": {"epochs": 1},
    "arms": [
        {"name": "serial", "parallel": {"kind": "serial"}},
        {"name": "data-2", "parallel": {"kind": "data", "ranks": 2}},
    ],
    "strata": {"roles": ["weight", "momentum"], "fields": ["sign", "exponent"]},
    "trials_per_stratum": 3,
    "controls": CONTROLS,
}
ROWS = 2 * PREPARATION_PER_ARM + 2 * 4 * 3


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A spec, its base, and the rows of a campaign that ran without any trouble, one worker at a time."""
    place = tmp_path_factory.mktemp("campaign")
    (place / "trained.json").write_text(json.dumps(SPEC | {"base": BASE}))
    done = campaign("run", place / "trained.json", "-o", place / "plain", "--workers", "1")
    assert done.returncode == 0, done.stderr
    shutil.copy(place / "plain" / "base.h5", place / "base.h5")
    (place / "spec.json").write_text(json.dumps(SPEC))
    return place, read_rows(place / "plain", check_crc=True)


def test_every_row_is_there_and_every_fault_landed(reference):
    place, rows = reference
    assert len(rows) == ROWS
    assert all(row["landed"] for row in rows.values())
    assert read_incidents(place / "plain") == []
    serial = {k.split("/", 1)[1]: row["faults"] for k, row in rows.items() if k.startswith("serial/")}
    data = {k.split("/", 1)[1]: row["faults"] for k, row in rows.items() if k.startswith("data-2/")}
    assert serial == data


# test_campaign_driver.py: test_number_of_workers_changes_nothing.
@pytest.mark.thorough
def test_side_by_side_workers_and_a_copied_base_give_an_equal_journal(reference, tmp_path):
    place, rows = reference
    done = campaign("run", place / "spec.json", "-o", tmp_path / "two", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert read_rows(tmp_path / "two") == rows
    assert campaign("diff", place / "plain", tmp_path / "two").returncode == 0


# test_campaign_driver.py has one of this name, and test_campaign_killed.py kills workers too.
@pytest.mark.thorough
def test_killed_at_ten_arbitrary_moments_ends_with_the_same_journal(reference, tmp_path):
    place, rows = reference
    chance = random.Random(3)
    command = ("run", place / "spec.json", "-o", tmp_path / "killed")
    kills = 0
    for attempt in range(10):
        driver = Driver(*command)
        # In the midst of runs, and anywhere from the first moment on.
        latest_s, most_rows = (60, 3) if attempt % 2 else (2, 5)
        kills += driver.kill_at_random(chance, latest_s, lambda: journal_lines(tmp_path / "killed"), most_rows)
    done = campaign(*command)
    assert done.returncode == 0, done.stderr
    assert kills > 5  # 10, unless this process is kept from running for seconds
    assert scratch_folders(tmp_path / "killed") == []
    assert read_rows(tmp_path / "killed", check_crc=True) == rows


# Others around a stand-in: test_campaign_driver.py.
def test_designed_failures_become_one_row_each_and_the_rest_is_unchanged(reference, tmp_path):
    place, rows = reference
    drills = {
        "data-2/weight.exponent/0": ("segfault", "signal", signal.SIGSEGV),
        "data-2/momentum.sign/2": ("raise", "exception", 0),
    }
    arguments = [text for id_, (kind, _, _) in drills.items() for text in ("--drill", f"{kind}@{id_}")]
    done = campaign("run", place / "spec.json", "-o", tmp_path / "drilled", *arguments)
    assert done.returncode == 0, done.stderr
    found = read_rows(tmp_path / "drilled")
    for id_, (_, reason, number) in drills.items():
        assert (found[id_]["failure"]["reason"], found[id_]["failure"]["signal"]) == (reason, number), id_
    assert {k: v for k, v in found.items() if k not in drills} == {k: v for k, v in rows.items() if k not in drills}
    incidents = read_incidents(tmp_path / "drilled")
    assert sorted(one["id"] for one in incidents) == sorted([*drills, *drills])


# A worker of one process: test_campaign_driver.py.
@pytest.mark.parametrize("arm", [pytest.param("serial", marks=pytest.mark.thorough), "data-2"])
def test_worker_killed_from_outside_costs_an_incident_and_no_verdict(reference, tmp_path, arm):
    place, rows = reference
    driver = Driver("run", place / "spec.json", "-o", tmp_path / "hit", "--workers", "1")

    def working():
        """The ranks of this arm's worker, once that worker has written rows."""
        started = journal_lines(tmp_path / "hit") > (2 if arm == "serial" else PREPARATION_PER_ARM + 2)
        return started and driver.ranks_of("serial" if arm == "serial" else "data")

    os.kill(wait_until(working)[-1], signal.SIGKILL)
    done = driver.finish()
    assert done.returncode == 0, done.stderr
    assert read_rows(tmp_path / "hit", may_retract=True) == rows
    incidents = read_incidents(tmp_path / "hit")
    assert [one["arm"] for one in incidents] == [arm]
    assert incidents[0]["failure"]["signal"] == signal.SIGKILL


def test_workers_end_soon_after_their_driver(reference, tmp_path):
    place, _ = reference
    # More trials than can be over before the test has looked.
    more = ("--set", "trials_per_stratum=2000")
    driver = Driver("run", place / "spec.json", "-o", tmp_path / "orphans", *more)
    wait_until(lambda: len(driver.ranks_of("data")) == 2 and journal_lines(tmp_path / "orphans") > 30)
    driver.process.kill()
    driver.process.wait()
    driver.assert_no_process_left()
    for left in scratch_folders(tmp_path / "orphans"):
        shutil.rmtree(left, ignore_errors=True)  # the driver of another test may remove it, too
    driver.process.communicate()
    assert processes_with(driver.mark) == {}


@pytest.mark.parametrize("drill", ["flip-nothing", "ignore-file"])
def test_harness_that_changes_nothing_is_caught_by_the_canaries(reference, tmp_path, drill):
    place, _ = reference
    done = campaign("run", place / "spec.json", "-o", tmp_path / "blind", "--drill", drill)
    assert done.returncode == 1, done.stderr
    assert "canary:nan" in done.stderr and "canary:negate" in done.stderr
    assert not any(row["kind"] == "trial" for row in read_rows(tmp_path / "blind").values())


def test_replay_gives_the_same_bytes(reference):
    place, _ = reference
    for id_ in ("serial/momentum.exponent/2", "data-2/weight.exponent/1"):
        done = campaign("replay", place / "plain", id_)
        assert done.returncode == 0, done.stdout + done.stderr


def test_trace_of_one_run_tells_what_its_row_does(reference, tmp_path):
    place, rows = reference
    before = (place / "plain" / "trials.jsonl").read_bytes()
    for id_ in ("serial/weight.sign/1", "data-2/momentum.exponent/2", "data-2/canary:nan/0", "serial/control:zero/0"):
        trace = tmp_path / "trace.jsonl"
        done = campaign("replay", place / "plain", id_, "--trace", trace)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.splitlines()[-1] == f"trace {trace}"
        header, *lines = [json.loads(line) for line in trace.read_text().splitlines()]
        steps = [line for line in lines if "digest" in line]
        result = rows[id_]["result"]
        assert header["parallel"]["kind"] == id_.split("-")[0].split("/")[0]
        assert len(steps) == result["steps"]
        assert [line["evaluation"] for line in lines if "evaluation" in line] == result["replicas"][0]
        if result["status"] == "done":
            assert (steps or [header])[-1]["digest"] == result["final_digest"]
        if steps:
            assert float.fromhex(steps[-1]["loss"]) == float.fromhex(result["last_loss"])
    assert (place / "plain" / "trials.jsonl").read_bytes() == before
    assert not (place / "plain" / "work").exists() or not list((place / "plain" / "work").rglob("*.h5"))
