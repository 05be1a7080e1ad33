"""The campaign driver around a stand-in for the trainer: what happens when things die, drift or hang.

test_campaign.py asks the same of the real trainer, test_campaign_refusals.py what the driver refuses.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess

import h5py
import numpy as np
import pytest
from campaign_support import (
    BIN,
    CONTROLS,
    PREPARATION_PER_ARM,
    STUDY_ROWS,
    STUDY_SPEC,
    Study,
    campaign,
    journal_lines,
    read_incidents,
    read_rows,
    reference_study,
    scratch_folders,
    wait_until,
)
from philox import derive_key, philox_u64


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return reference_study(tmp_path_factory.mktemp("reference"))


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


def test_plain_run_has_every_row_and_leaves_no_work_behind(reference):
    folder = reference.place / "plain"
    assert len(reference.rows) == STUDY_ROWS
    assert read_incidents(folder) == []
    assert not (folder / "work").exists()
    assert all(row["landed"] for row in reference.rows.values())
    assert json.loads((folder / "summary.json").read_text())["trials"] == 48
    stored = json.loads((folder / "campaign.json").read_text())
    assert (
        stored["seed"] == 11
        and stored["trainer"] == {"trainer": "fake"}
        and len(stored["bases"]["base"]["digest"]) == 32
    )


def test_both_arms_get_the_same_faults_and_draws_do_not_repeat(reference):
    def faults(arm):
        return {
            key.split("/", 1)[1]: row["faults"]
            for key, row in reference.rows.items()
            if row["kind"] == "trial" and row["id"]["arm"] == arm
        }

    assert faults("serial") == faults("data-2")
    places = [json.dumps(fault, sort_keys=True) for fault in faults("serial").values()]
    assert len(set(places)) == 24


def test_jitter_runs_flip_the_lowest_bit_of_sixteen_weights_alike_in_every_arm(reference):
    with h5py.File(reference.place / "plain" / "base.h5") as base:
        weights = {f"model/{name}" for name in base["model"] if name.endswith(".weight")}
    drawn = set()
    for draw in range(CONTROLS["jitter"]):
        row = reference.rows[f"serial/jitter/{draw}"]
        assert row["kind"] == "jitter" and row["landed"] and not row["no_change"]
        places = {(fault["tensor"], fault["element"]) for fault in row["faults"]}
        assert len(places) == len(row["faults"]) == 16
        for fault in row["faults"]:
            assert fault["tensor"] in weights and fault["role"] == "weight" and fault["bits"] == [0]
            assert int(fault["old"], 16) ^ int(fault["new"], 16) == 1
        assert set(row["result"]["changed_tensors"]) == {tensor for tensor, _ in places}
        assert reference.rows[f"data-2/jitter/{draw}"]["faults"] == row["faults"]
        drawn.add(frozenset(places))
    assert len(drawn) == CONTROLS["jitter"]


def test_inject_draws_what_a_jitter_run_flips(reference, study):
    base, altered = reference.place / "plain" / "base.h5", study.place / "altered.h5"
    seed = philox_u64(derive_key(STUDY_SPEC["seed"], "jitter"), np.array([2], np.uint64), 0)[0]
    which = ["--tensor", "model/**", "--role", "weight", "--bits", "0", "--count", "16", "--seed", str(seed)]
    subprocess.run([BIN / "bitrift", "inject", base, "-o", altered, *which], check=True, capture_output=True)
    found = set()
    with h5py.File(base) as before, h5py.File(altered) as after:
        for name in before["model"]:
            first, second = (file["model"][name][()].reshape(-1).view(np.uint32) for file in (before, after))
            found |= {(f"model/{name}", int(i), hex(second[i])) for i in np.flatnonzero(first != second)}
    faults = reference.rows["serial/jitter/2"]["faults"]
    assert found == {(one["tensor"], one["element"], hex(int(one["new"], 16))) for one in faults}


def test_more_draws_keep_the_draws_there_were(reference, study):
    assert study.run("more", "--set", "trials_per_stratum=8").returncode == 0
    rows = read_rows(study.place / "more")
    for key, row in reference.rows.items():
        assert rows[key]["faults"] == row["faults"]


def test_number_of_workers_changes_nothing(reference, study):
    done = study.run("three", "--workers", "3")
    assert done.returncode == 0, done.stderr
    assert read_rows(study.place / "three") == reference.rows
    equal = campaign("diff", reference.place / "plain", study.place / "three")
    assert (equal.returncode, equal.stdout) == (0, f"equal: {STUDY_ROWS} rows\n")


def test_second_start_of_a_finished_campaign_runs_nothing(reference, study):
    folder = shutil.copytree(reference.place / "plain", study.place / "again")
    before = (folder / "trials.jsonl").read_bytes()
    assert study.run("again").returncode == 0
    assert (folder / "trials.jsonl").read_bytes() == before


def test_killed_at_ten_arbitrary_moments_ends_with_the_same_journal(reference, study):
    chance = random.Random(5)
    slow = {"FAKE_TRAIN_SECONDS": "0.08"}
    kills = 0
    for _ in range(10):
        driver = study.start("killed", env=slow)
        kills += driver.kill_at_random(chance, 0.9, lambda: journal_lines(study.place / "killed"))
    done = study.run("killed", env=slow)
    assert done.returncode == 0, done.stderr
    assert kills > 5  # 10, unless this process is kept from running for seconds
    assert scratch_folders(study.place / "killed") == []
    assert read_rows(study.place / "killed", check_crc=True) == reference.rows


def test_dead_driver_takes_its_workers_along(study):
    driver = study.start("orphans", env={"FAKE_TRAIN_SECONDS": "0.05"})
    wait_until(lambda: journal_lines(study.place / "orphans") > 3)
    assert driver.ranks()
    driver.process.kill()
    driver.process.wait()
    driver.assert_no_process_left()
    for left in scratch_folders(study.place / "orphans"):
        shutil.rmtree(left)
    driver.process.communicate()


def test_terminated_run_says_how_to_go_on_and_goes_on(reference, study):
    for name, code in ((signal.SIGINT, 2), (signal.SIGTERM, os.EX_TEMPFAIL)):
        driver = study.start("stopped", env={"FAKE_TRAIN_SECONDS": "0.02"})
        lines = journal_lines(study.place / "stopped")
        wait_until(lambda lines=lines: journal_lines(study.place / "stopped") > lines + 3)
        driver.process.send_signal(name)
        ended = driver.finish(20)
        assert ended.returncode == code
        assert ended.stderr.splitlines()[-1] == "bitrift: interrupted; run the same command to resume"
    assert study.run("stopped").returncode == 0
    assert read_rows(study.place / "stopped") == reference.rows


def test_designed_failures_become_one_row_each_and_the_rest_is_unchanged(reference, study):
    drills = {
        "serial/weight.sign/1": ("abort", "signal", signal.SIGABRT),
        "data-2/weight.exponent/0": ("segfault", "signal", signal.SIGSEGV),
        "data-2/momentum.sign/5": ("raise", "exception", 0),
        "serial/momentum.exponent/3": ("hang", "hang", 0),
    }
    arguments = [text for id_, (kind, _, _) in drills.items() for text in ("--drill", f"{kind}@{id_}")]
    done = study.run("drilled", "--set", "worker.deadline_s=1", *arguments)
    assert done.returncode == 0, done.stderr
    assert "this campaign was a drill" in done.stderr
    rows = read_rows(study.place / "drilled")
    for id_, (_, reason, number) in drills.items():
        assert rows[id_]["failure"]["reason"] == reason
        assert rows[id_]["failure"]["signal"] == number
        assert rows[id_]["faults"] == reference.rows[id_]["faults"]
    assert {k: v for k, v in rows.items() if k not in drills} == {
        k: v for k, v in reference.rows.items() if k not in drills
    }
    incidents = read_incidents(study.place / "drilled")
    assert sorted(one["id"] for one in incidents) == sorted([*drills, *drills])
    again = campaign("replay", study.place / "drilled", "serial/weight.sign/1", env=study.env)
    assert again.returncode == 0, again.stdout + again.stderr


def test_held_out_run_that_fails_twice_stops_the_campaign_and_a_jitter_run_is_a_row(reference, study):
    done = study.run("held", "--drill", "abort@serial/held_out/2")
    assert done.returncode == 1
    assert "serial/held_out/2: the clean run failed twice: signal" in done.stderr
    done = study.run("jitter", "--drill", "abort@data-2/jitter/1")
    assert done.returncode == 0, done.stderr
    rows = read_rows(study.place / "jitter")
    crashed = rows.pop("data-2/jitter/1")
    expected = dict(reference.rows)
    assert crashed["failure"]["reason"] == "signal" and crashed["landed"]
    assert crashed["faults"] == expected.pop("data-2/jitter/1")["faults"]
    assert rows == expected


@pytest.mark.parametrize("which", [0, -1])
def test_worker_killed_from_outside_costs_an_incident_and_no_verdict(reference, study, which):
    driver = study.start("hit", "--workers", "1", env={"FAKE_TRAIN_SECONDS": "0.03"})
    folder = study.place / "hit"
    wait_until(lambda: journal_lines(folder) > 2 * PREPARATION_PER_ARM + 26 and len(driver.ranks()) >= 2)
    os.kill(driver.ranks()[which], signal.SIGKILL)
    done = driver.finish()
    assert done.returncode == 0, done.stderr
    assert read_rows(folder) == reference.rows
    incidents = read_incidents(folder)
    assert incidents and all(one["failure"]["reason"] == "signal" for one in incidents)


@pytest.mark.parametrize("drill", ["flip-nothing", "ignore-file"])
def test_harness_that_changes_nothing_is_caught_by_the_canaries(study, drill):
    for _ in range(2):
        done = study.run("blind", "--drill", drill)
        assert done.returncode == 1
        assert "canary:nan" in done.stderr and "canary:negate" in done.stderr
        assert done.stdout == ""
    assert not any(row["kind"] == "trial" for row in read_rows(study.place / "blind").values())


def test_workers_that_drift_stop_the_campaign(study):
    done = study.run("drift", env={"FAKE_TRAIN_DRIFT": "1"})
    assert done.returncode == 1
    assert "test_loss" in done.stderr and "arm 'serial'" in done.stderr


def test_worker_that_makes_room_for_others_confirms_its_trials_first(study):
    names = [f"data-4{letter}" for letter in "abc"]
    arms = [{"name": name, "parallel": {"kind": "data", "ranks": 4}} for name in names]
    requests = study.place / "requests"
    requests.mkdir()
    spec = study.changed_spec(arms=arms, trials_per_stratum=2)
    done = study.run("parked", "--workers", "1", spec=spec, env={"FAKE_TRAIN_REQUESTS": str(requests)})
    assert done.returncode == 0, done.stderr
    ids = [path.read_text().split() for path in requests.iterdir()]
    assert len(ids) > len(names)  # no more than six idle ranks stay
    with_trials = [each for each in ids if any("/weight." in run or "/momentum." in run for run in each)]
    assert with_trials
    assert [each[-1] for each in with_trials if "/control/" not in each[-1]] == []


@pytest.mark.parametrize(("code", "expected"), [(2, 2), (1, 3)])
def test_worker_that_cannot_start_ends_the_campaign_with_its_words(study, code, expected):
    done = study.run("refused", env={"FAKE_TRAIN_REFUSE": str(code)})
    assert done.returncode == expected
    last = done.stderr.splitlines()[-1]
    assert "workers cannot be started" in last and "fake_train: refuses to start" in last
