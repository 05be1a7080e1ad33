"""The campaign driver around a stand-in for the trainer: everything but the training itself.

test_campaign.py asks the same of the real trainer, where training matters.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time

import pytest
from campaign_support import (
    BIN, Driver, campaign, fake_trainer, journal_lines, read_incidents, read_rows, row_id, wait_until,
)  # fmt: skip

SPEC = {
    "name": "driver",
    "seed": 11,
    "base": {
        "train": {
            "model": {"name": "lenet"}, "data": {"name": "digits"}, "batch_size": 64, "epochs": 1, "seed": 3,
            "optimizer": {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9},
        }
    },
    "resume": {"epochs": 2},
    "arms": [
        {"name": "serial", "parallel": {"kind": "serial"}},
        {"name": "data-2", "parallel": {"kind": "data", "ranks": 2}},
    ],
    "strata": {"roles": ["weight", "momentum"], "fields": ["sign", "exponent"]},
    "trials_per_stratum": 6,
}  # fmt: skip
PER_ARM = 2 + 1 + 20 + 3 + 1
ROWS = 2 * (PER_ARM + 4 * 6)


class Study:
    """A spec file, the stand-in, and folders below one place."""

    def __init__(self, place):
        self.place = place
        self.trainer = fake_trainer(place)
        self.spec = place / "spec.json"
        self.spec.write_text(json.dumps(SPEC))
        self.env = {"BITRIFT_TRAIN_PROGRAM": str(self.trainer)}

    def start(self, name, *arguments, env=None, spec=None):
        return Driver("run", spec or self.spec, "-o", self.place / name, *arguments, env=self.env | (env or {}))

    def run(self, name, *arguments, env=None, spec=None):
        return self.start(name, *arguments, env=env, spec=spec).finish()

    def changed_spec(self, **changes):
        path = self.place / "changed.json"
        path.write_text(json.dumps(SPEC | changes))
        return path


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A campaign that ran without any trouble, with one worker."""
    study = Study(tmp_path_factory.mktemp("reference"))
    done = study.run("plain", "--workers", "1")
    assert done.returncode == 0, done.stderr
    study.rows = read_rows(study.place / "plain", check_crc=True)
    return study


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


def test_plain_run_has_every_row_and_leaves_no_work_behind(reference):
    folder = reference.place / "plain"
    assert len(reference.rows) == ROWS
    assert read_incidents(folder) == []
    assert not (folder / "work").exists()
    assert all(row["landed"] for row in reference.rows.values())
    assert json.loads((folder / "summary.json").read_text())["trials"] == 48
    stored = json.loads((folder / "campaign.json").read_text())
    assert stored["seed"] == 11 and stored["trainer"] == {"trainer": "fake"} and len(stored["base"]["digest"]) == 32


def test_both_arms_get_the_same_faults_and_draws_do_not_repeat(reference):
    def faults(arm):
        return {key.split("/", 1)[1]: row["faults"] for key, row in reference.rows.items()
                if row["kind"] == "trial" and row["id"]["arm"] == arm}  # fmt: skip

    assert faults("serial") == faults("data-2")
    places = [json.dumps(fault, sort_keys=True) for fault in faults("serial").values()]
    assert len(set(places)) == 24


def test_more_draws_keep_the_draws_there_were(reference, study):
    assert study.run("more", "--set", "trials_per_stratum=8").returncode == 0
    rows = read_rows(study.place / "more")
    for key, row in reference.rows.items():
        assert rows[key]["faults"] == row["faults"]


def test_number_of_workers_changes_nothing(reference, study):
    done = study.run("three", "--workers", "3")
    assert done.returncode == 0, done.stderr
    assert read_rows(study.place / "three") == reference.rows
    equal = campaign("compare", reference.place / "plain", study.place / "three")
    assert (equal.returncode, equal.stdout) == (0, f"equal: {ROWS} rows\n")


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
        time.sleep(chance.uniform(0.05, 0.9))
        kills += driver.process.poll() is None
        driver.kill_everything()
    done = study.run("killed", env=slow)
    assert done.returncode == 0, done.stderr
    assert kills == 10
    assert read_rows(study.place / "killed", check_crc=True) == reference.rows


def test_dead_driver_takes_its_workers_along(study):
    driver = study.start("orphans", env={"FAKE_TRAIN_SECONDS": "0.05"})
    wait_until(lambda: journal_lines(study.place / "orphans") > 3)
    assert driver.ranks()
    driver.process.kill()
    driver.process.wait()
    driver.assert_no_process_left()
    driver.process.communicate()


def test_terminated_run_says_how_to_go_on_and_goes_on(reference, study):
    for name in (signal.SIGINT, signal.SIGTERM):
        driver = study.start("stopped", env={"FAKE_TRAIN_SECONDS": "0.02"})
        lines = journal_lines(study.place / "stopped")
        wait_until(lambda lines=lines: journal_lines(study.place / "stopped") > lines + 3)
        driver.process.send_signal(name)
        ended = driver.finish(20)
        assert ended.returncode == 2
        assert ended.stderr.splitlines()[-1] == "bitrift: interrupted; run the same command to go on"
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


@pytest.mark.parametrize("which", [0, -1])
def test_worker_killed_from_outside_costs_an_incident_and_no_verdict(reference, study, which):
    driver = study.start("hit", "--workers", "1", env={"FAKE_TRAIN_SECONDS": "0.03"})
    folder = study.place / "hit"
    wait_until(lambda: journal_lines(folder) > 2 * PER_ARM + 26 and len(driver.ranks()) >= 2)
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


@pytest.mark.parametrize(("code", "expected"), [(2, 2), (1, 3)])
def test_worker_that_cannot_start_ends_the_campaign_with_its_words(study, code, expected):
    done = study.run("refused", env={"FAKE_TRAIN_REFUSE": str(code)})
    assert done.returncode == expected
    last = done.stderr.splitlines()[-1]
    assert "workers cannot be started" in last and "fake_train: refuses to start" in last


def test_torn_tail_is_cut_and_its_run_repeated(reference, study):
    folder = shutil.copytree(reference.place / "plain", study.place / "torn")
    journal = folder / "trials.jsonl"
    text = journal.read_bytes()
    journal.write_bytes(text[: len(text) - 40])
    done = study.run("torn")
    assert done.returncode == 0, done.stderr
    assert "torn last line" in done.stderr
    assert read_rows(folder, check_crc=True) == reference.rows


def test_damage_in_the_middle_is_reported_with_its_line_and_nothing_is_changed(reference, study):
    folder = shutil.copytree(reference.place / "plain", study.place / "damaged")
    journal = folder / "trials.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[6] = lines[6].replace(b"accuracy", b"akkuracy", 1)
    journal.write_bytes(b"".join(lines))
    for command in (["run", study.spec, "-o", folder], ["status", folder], ["compare", folder, folder]):
        done = campaign(*command, env=study.env)
        assert done.returncode == 2
        assert f"{journal}:7: " in done.stderr
    assert journal.read_bytes() == b"".join(lines)


def test_retracted_row_runs_again(reference, study):
    from campaign_support import crc32c

    folder = shutil.copytree(reference.place / "plain", study.place / "retracted")
    row = b'{"ids":["serial/weight.sign/2"],"kind":"retract","reason":"test"}'
    with open(folder / "trials.jsonl", "ab") as journal:
        journal.write(b'{"crc32c":"%08x","row":%s}\n' % (crc32c(row), row))
    status = json.loads(campaign("status", folder, "--json").stdout)
    assert (status["complete"], status["retracted"]) == (False, 1)
    assert study.run("retracted").returncode == 0
    last = json.loads((folder / "trials.jsonl").read_bytes().splitlines()[-1])["row"]
    assert row_id(last) == "serial/weight.sign/2"
    assert campaign("compare", folder, reference.place / "plain").returncode == 0


def test_second_driver_is_refused_while_the_first_runs(study):
    first = study.start("shared", env={"FAKE_TRAIN_SECONDS": "0.05"})
    wait_until(lambda: journal_lines(study.place / "shared") > 3)
    second = study.run("shared")
    assert second.returncode == 2
    assert "another `bitrift campaign run`" in second.stderr
    assert json.loads(campaign("status", study.place / "shared", "--json").stdout)["running"]
    first.process.terminate()
    first.finish(20)


def test_other_spec_drills_or_base_are_refused(reference, study):
    folder = shutil.copytree(reference.place / "plain", study.place / "same")
    for arguments, named in (
        (["--set", "seed=12"], "seed was 11, is now 12"),
        (["--set", "strata.fields=[\"sign\"]"], "strata.fields"),
        (["--drill", "flip-nothing"], "drills"),
    ):
        done = study.run("same", *arguments)
        assert done.returncode == 2 and named in done.stderr, done.stderr
    with open(folder / "base.h5", "r+b") as base:
        base.seek(3000)
        byte = base.read(1)
        base.seek(3000)
        base.write(bytes([byte[0] ^ 1]))
    done = study.run("same")
    assert done.returncode == 2 and "base.h5: changed since the campaign began" in done.stderr


def test_base_checkpoint_is_copied_and_guarded(reference, study):
    base = study.place / "mine.h5"
    shutil.copy(reference.place / "plain" / "base.h5", base)
    before = base.read_bytes()
    spec = study.changed_spec(base={"checkpoint": "mine.h5"})
    assert study.run("copied", spec=spec).returncode == 0
    assert base.read_bytes() == before
    rows = read_rows(study.place / "copied")
    assert rows == reference.rows
    listed = json.loads(campaign("list", spec, "--json").stdout)["runs"]
    assert {run["id"]: run["faults"] for run in listed if run["kind"] == "trial"} == {
        key: row["faults"] for key, row in rows.items() if row["kind"] == "trial"
    }
    base.write_bytes(before + b"x")
    done = study.run("copied", spec=spec)
    assert done.returncode == 2 and "base.checkpoint changed" in done.stderr


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trials_per_stratum": 10**6}, ["weight.sign", "trials_per_stratum"]),
        ({"strata": {"roles": ["exp_avg"], "fields": ["sign"]}}, ["exp_avg.sign"]),
        ({"strata": {"roles": ["weight"], "fields": ["sign", "31"]}}, ["31", "overlap"]),
    ],
)
def test_cells_that_make_no_sense_are_named(reference, study, changes, words):
    shutil.copy(reference.place / "plain" / "base.h5", study.place / "mine.h5")
    spec = study.changed_spec(base={"checkpoint": "mine.h5"}, **changes)
    done = study.run("cells", spec=spec)
    assert done.returncode == 2 and all(word in done.stderr for word in words), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (study.place / "cells").exists()


def test_wrong_calls_exit_with_2_and_leave_nothing(study):
    foreign = study.place / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("precious")
    for arguments, words in (
        (["run", study.place / "none.json", "-o", study.place / "x"], "none.json"),
        (["run", study.spec, "-o", study.place / "x", "--drill", "explode"], "flip-nothing"),
        (["run", study.spec, "-o", foreign], "thesis.txt"),
        (["run", study.spec, "-o", study.spec], "not a folder"),
        (["status", study.place], "no campaign here"),
        (["list", study.spec], "still to be trained"),
    ):
        done = campaign(*arguments, env=study.env)
        assert done.returncode == 2, arguments
        assert words in done.stderr.splitlines()[-1]
        assert not (study.place / "x").exists()
    missing = campaign("run", study.spec, "-o", study.place / "x", env={"BITRIFT_TRAIN_PROGRAM": "/nowhere"})
    assert missing.returncode == 2 and "BITRIFT_TRAIN_PROGRAM" in missing.stderr


def test_unknown_drill_id_says_what_there_is(study):
    done = study.run("x", "--drill", "abort@serial/bias.sign/0")
    assert done.returncode == 2 and "weight.sign, weight.exponent, momentum.sign, momentum.exponent" in done.stderr


def test_replay_tells_equal_from_different(reference, study):
    folder = shutil.copytree(reference.place / "plain", study.place / "replayed")
    same = campaign("replay", folder, "data-2/weight.exponent/4", env=study.env)
    assert same.returncode == 0 and "same as the journal's row" in same.stdout
    (folder / "trials.jsonl").write_bytes(forged(folder, "data-2/weight.exponent/4"))
    other = campaign("replay", folder, "data-2/weight.exponent/4", env=study.env)
    assert other.returncode == 1 and "last_loss" in other.stdout
    unknown = campaign("replay", folder, "data-2/weight.exponent/6", env=study.env)
    assert unknown.returncode == 2 and "draws 0 to 5" in unknown.stderr


def forged(folder, id_):
    """The journal with another last loss, and a fitting checksum, in one row."""
    from campaign_support import crc32c

    lines = []
    for line in (folder / "trials.jsonl").read_bytes().splitlines():
        row = json.loads(line)["row"]
        if row_id(row) == id_:
            row["result"]["last_loss"] = "0x1p+0"
            text = json.dumps(row, sort_keys=True, separators=(",", ":")).encode()
            line = b'{"crc32c":"%08x","row":%s}' % (crc32c(text), text)
        lines.append(line + b"\n")
    return b"".join(lines)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_full_disk_loses_nothing_and_the_same_command_goes_on(reference, study):
    small = study.place / "small"
    small.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=144k", "tmpfs", small], check=False)
    if mount.returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        done = campaign("run", study.spec, "-o", small / "full", env=study.env)
        assert done.returncode == 2, done.stderr
        assert "No space left on device" in done.stderr.splitlines()[-1]
        assert len(read_rows(small / "full", check_crc=True)) < ROWS
        subprocess.run(["mount", "-o", "remount,size=10m", small], check=True)
        assert campaign("run", study.spec, "-o", small / "full", env=study.env).returncode == 0
        assert read_rows(small / "full") == reference.rows
    finally:
        subprocess.run(["umount", small], check=True)


def test_program_is_there():
    assert (BIN / "bitrift").exists()
