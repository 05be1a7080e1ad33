"""Campaigns that several drivers run in one folder (docs/campaign.md, "Shards"), around a stand-in for the trainer."""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import pytest
from campaign_support import (
    BIN,
    STUDY_ROWS,
    STUDY_SPEC,
    Driver,
    Study,
    campaign,
    crc32c,
    end_all,
    read_rows,
    reference_study,
    row_id,
    wait_until,
)

SHARDS = 3
SAMPLING = {"half_width": 0.15, "pilot": 4, "outcomes": ["masked", "crash"]}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return reference_study(tmp_path_factory.mktemp("reference"))


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


STARTED: list[Driver] = []


@pytest.fixture(autouse=True)
def nothing_is_left_running():
    yield
    end_all(STARTED)


@pytest.fixture(scope="module")
def divided(reference):
    """A campaign of three shards that ran side by side without trouble."""
    ends = run_all(reference, "divided")
    assert [end.returncode for end in ends] == [0, 0, 0], [end.stderr for end in ends]
    return reference.place / "divided"


def start(study, name, index, *arguments, env=None, of=SHARDS):
    STARTED.append(study.start(name, "--shard", f"{index}/{of}", "--workers", "1", *arguments, env=env))
    return STARTED[-1]


def run_all(study, name, *arguments, env=None, of=SHARDS):
    drivers = [start(study, name, index, *arguments, env=env, of=of) for index in range(1, of + 1)]
    return [driver.finish() for driver in drivers]


def sampled(study):
    spec = {k: v for k, v in STUDY_SPEC.items() if k != "trials_per_stratum"}
    study.spec.write_text(json.dumps(spec | {"sampling": SAMPLING}))


def rounds_of(folder):
    return [json.loads(path.read_text()) for path in sorted((folder / "rounds").iterdir())]


def journals(folder, shard="*"):
    return sorted((folder / "shards").glob(f"{shard}-of-*/*/trials.jsonl"))


def rows_in(path):
    return [json.loads(line)["row"] for line in path.read_bytes().splitlines()]


def lines_of(folder, shard="*"):
    return sum(path.read_bytes().count(b"\n") for path in journals(folder, shard))


def test_three_shards_give_the_journal_of_one_driver(reference, divided):
    equal = campaign("diff", reference.place / "plain", divided)
    assert (equal.returncode, equal.stdout) == (0, f"equal: {STUDY_ROWS} rows\n")
    assert read_rows(divided, check_crc=True) == reference.rows
    ids = [tuple(row["id"][key] for key in ("arm", "stratum", "draw")) for row in rows_in(divided / "trials.jsonl")]
    assert ids == sorted(ids)
    assert rounds_of(divided) == rounds_of(reference.place / "plain")
    assert not list((divided / "shards").glob("*/*/work")) and not list(divided.rglob(".*"))


def test_every_trial_runs_once_and_controls_and_canaries_in_every_shard(divided):
    seen = {}
    for path in journals(divided):
        for row in rows_in(path):
            seen.setdefault((row["kind"], row_id(row)), set()).add(path.parts[-3])
    for (kind, key), shards in seen.items():
        assert len(shards) == (SHARDS if kind in ("control", "canary") else 1), key
    assert len(seen) == STUDY_ROWS


def test_summary_of_a_divided_campaign_is_that_of_an_undivided_one(reference, divided):
    def summary(folder):
        command = [BIN / "bitrift", "analyze", folder, "--json"]
        value = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        value.pop("provenance")
        return value

    assert summary(divided) == summary(reference.place / "plain")


def test_rounds_are_planned_from_the_rows_of_all_shards(study, tmp_path):
    sampled(study)
    assert study.run("plain", "--workers", "1").returncode == 0
    ends = run_all(study, "divided")
    assert [end.returncode for end in ends] == [0, 0, 0], [end.stderr for end in ends]
    assert len(rounds_of(tmp_path / "divided")) > 2
    assert rounds_of(tmp_path / "divided") == rounds_of(tmp_path / "plain")
    assert read_rows(tmp_path / "divided") == read_rows(tmp_path / "plain")


def test_any_number_of_shards_does(reference, study):
    ends = run_all(study, "seven", of=7)
    assert [end.returncode for end in ends] == [0] * 7, [end.stderr for end in ends]
    assert read_rows(study.place / "seven") == reference.rows


def test_killed_shards_go_on_and_nothing_is_lost_or_doubled(study, tmp_path):
    sampled(study)
    assert study.run("plain", "--workers", "1").returncode == 0
    chance = random.Random(8)
    slow = {"FAKE_TRAIN_SECONDS": "0.01"}
    drivers = {index: start(study, "killed", index, env=slow) for index in range(1, SHARDS + 1)}
    kills = 0
    for _ in range(9):
        index = chance.choice(sorted(drivers))
        kills += drivers[index].kill_at_random(chance, 0.7, lambda index=index: lines_of(tmp_path / "killed", index))
        drivers[index] = start(study, "killed", index, env=slow)
    ends = [driver.finish() for driver in drivers.values()]
    assert [end.returncode for end in ends] == [0, 0, 0], [end.stderr for end in ends]
    assert kills > 3
    assert read_rows(tmp_path / "killed", check_crc=True) == read_rows(tmp_path / "plain")
    assert rounds_of(tmp_path / "killed") == rounds_of(tmp_path / "plain")
    assert not list((tmp_path / "killed" / "shards").glob("*/*/work"))


def test_killed_maker_of_the_base_is_replaced(reference, study):
    shards = study.place / "base" / "shards"
    first = start(study, "base", 1, env={"FAKE_TRAIN_BASE_SECONDS": "1000"})
    wait_until(lambda: (shards / "base" / "0001" / "driver.json").exists())
    others = [start(study, "base", index) for index in (2, 3)]
    wait_until(lambda: all((shards / f"{index}-of-3" / "0001" / "driver.json").exists() for index in (2, 3)))
    first.kill_everything()
    again = start(study, "base", 1)
    ends = [driver.finish() for driver in (again, *others)]
    assert [end.returncode for end in ends] == [0, 0, 0], [end.stderr for end in ends]
    assert sum("training base.h5" in end.stderr for end in ends) == 1
    assert read_rows(study.place / "base") == reference.rows


def test_missing_shard_is_named_while_the_others_wait(reference, study):
    folder = study.place / "missing"
    early = [start(study, "missing", index) for index in (1, 2)]
    wait_until(lambda: len(list((folder / "shards").glob("*/done/preparation.json"))) == 2)
    status = campaign("status", folder).stdout
    assert "shard 3/3" in status and "never started" in status and "driver: incomplete, running" in status
    before_merge = campaign("diff", folder, folder)
    assert before_merge.returncode == 2 and f"`bitrift campaign merge {folder}`" in before_merge.stderr
    merged = campaign("merge", folder)
    assert merged.returncode == 0
    assert "missing: 50 of the 50 runs of shard 3/3 (never started)" in merged.stdout
    wait_until(lambda: all("waiting for" in driver.said() for driver in early))
    ends = [driver.finish() for driver in (start(study, "missing", 3), *early)]
    assert [end.returncode for end in ends] == [0, 0, 0], [end.stderr for end in ends]
    said = [line for line in ends[1].stderr.splitlines() if line.startswith("waiting for")]
    assert len(said) == 1
    assert "shard 3/3: 34 of its 34 rows of the preparation are missing" in said[0]
    assert "it was never started: another shard stands in after 30 s, or run it with --shard 3/3" in said[0]
    assert read_rows(folder) == reference.rows


def test_waiting_has_an_end_when_asked_for(study):
    done = start(study, "alone", 2, "--wait-hours", str(1 / 3600)).finish()
    assert done.returncode == 2
    assert "h for shard 1, 3" in done.stderr.splitlines()[-1]


def test_waiting_does_not_use_the_processor(study):
    driver = start(study, "idle", 1)
    folder = study.place / "idle"
    wait_until(lambda: (folder / "shards" / "1-of-3" / "done" / "preparation.json").exists())

    def ticks():
        fields = pathlib.Path(f"/proc/{driver.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = ticks()
    time.sleep(3)  # what is measured
    assert ticks() - before < 15  # of 300
    driver.process.send_signal(signal.SIGTERM)
    ended = driver.finish(20)
    assert ended.returncode == os.EX_TEMPFAIL
    assert ended.stderr.splitlines()[-1] == "bitrift: interrupted; run the same command to resume"
    assert "ended: interrupted" in campaign("status", folder).stdout


def test_hours_may_end_amid_a_stage_and_the_next_start_goes_on(reference, study):
    done = start(study, "hours", 1, "--max-hours", str(1.5 / 3600)).finish()
    assert done.returncode == 0 and "--max-hours are over" in done.stderr
    assert "bitrift campaign merge" in done.stderr
    ends = run_all(study, "hours")
    assert [end.returncode for end in ends] == [0, 0, 0], [end.stderr for end in ends]
    assert read_rows(study.place / "hours") == reference.rows


def test_other_divisions_of_the_folder_are_refused_by_name(reference, divided):
    folder = divided.name
    assert "is divided into 3 shards, not 2" in start(reference, folder, 1, of=2).finish().stderr
    assert "is divided into 3 shards: give --shard 1/3 to 3/3" in reference.run(folder).stderr
    assert "was started without --shard" in start(reference, "plain", 1).finish().stderr
    for wrong in ("0/3", "4/3", "2", "two/3"):
        done = reference.run(folder, "--shard", wrong)
        assert done.returncode == 2 and f"--shard {wrong}: " in done.stderr
    assert "SLURM_ARRAY_TASK_ID is not set" in reference.run(folder, "--shard", "slurm").stderr


def test_second_driver_of_a_shard_is_refused(study):
    first = start(study, "twice", 2)
    wait_until(lambda: lines_of(study.place / "twice") > 0)
    second = start(study, "twice", 2).finish()
    assert second.returncode == 2
    assert "another `bitrift campaign run` is running shard 2/3" in second.stderr
    first.process.send_signal(signal.SIGINT)
    assert first.finish(20).returncode == 2


def test_place_in_a_job_array_is_found_in_its_environment(reference, study):
    drivers = []
    for task in range(SHARDS):
        array = {"ID": task, "MIN": 0, "MAX": 2, "COUNT": 3, "STEP": 1}
        env = {f"SLURM_ARRAY_TASK_{key}": str(value) for key, value in array.items()}
        STARTED.append(study.start("array", "--shard", "slurm", "--workers", "1", env=env))
        drivers.append(STARTED[-1])
    ends = [driver.finish() for driver in drivers]
    assert [end.returncode for end in ends] == [0, 0, 0], [end.stderr for end in ends]
    assert "shard 3/3" in ends[2].stderr.splitlines()[0]
    assert read_rows(study.place / "array") == reference.rows


@pytest.mark.parametrize("together", [True, False])
def test_shard_on_another_kind_of_processor_refuses_and_adds_no_row(reference, study, together):
    folder = study.place / "kinds"
    first = start(study, "kinds", 1)
    if not together:
        wait_until(lambda: (folder / "shards" / "1-of-3" / "done" / "preparation.json").exists())
    else:
        wait_until(lambda: (folder / "shards" / "golden-0001.json").exists())
    other = {"FAKE_TRAIN_KERNELS": "other", "OMP_NUM_THREADS": "7"}
    foreign = start(study, "kinds", 2, env=other).finish()
    assert foreign.returncode == 1
    assert "OMP_NUM_THREADS=7)" in foreign.stderr and "OMP_NUM_THREADS was unset, is now 7" in foreign.stderr
    assert "no-flip runs are not bit-identical" in foreign.stderr
    assert "the golden run is that of shard 1/3 on host" in foreign.stderr
    assert "this is shard 2/3 on host" in foreign.stderr
    rows = [row for path in journals(folder, "2") for row in rows_in(path)]
    assert not any(row["kind"] == "trial" or row["id"]["stratum"] == "control" for row in rows)
    assert "shard 2/3" in campaign("status", folder).stdout
    # On the right kind of machine the same command goes on.
    ends = [driver.finish() for driver in (start(study, "kinds", 2), start(study, "kinds", 3), first)]
    assert [end.returncode for end in ends] == [0, 0, 0], [end.stderr for end in ends]
    assert read_rows(folder) == reference.rows


def changed_journal(path, change):
    lines = []
    for line in path.read_bytes().splitlines():
        row = json.loads(line)["row"]
        change(row)
        text = json.dumps(row, separators=(",", ":"), sort_keys=True).encode()
        lines.append(b'{"crc32c":"%08x","row":%s}\n' % (crc32c(text), text))
    path.write_bytes(b"".join(lines))


def test_unequal_doubles_are_refused_by_id(reference, divided, study):
    folder = shutil.copytree(divided, study.place / "unequal")

    def change(row):
        if row_id(row) == "serial/control/1":
            row["result"]["final_digest"] = "0" * 32

    changed_journal(journals(folder, "2")[0], change)
    done = campaign("merge", folder)
    assert done.returncode == 1
    assert done.stderr.startswith("bitrift: serial/control/1: two runs of it gave different rows: ")
    assert "1-of-3/0001" in done.stderr and "2-of-3/0001" in done.stderr
    again = start(study, "unequal", 3).finish()
    assert again.returncode == 1 and "serial/control/1" in again.stderr


def test_torn_and_damaged_journals_of_shards(reference, divided, study):
    folder = shutil.copytree(divided, study.place / "damaged")
    torn = journals(folder, "1")[0]
    torn.write_bytes(torn.read_bytes()[:-20])
    merged = campaign("merge", folder)
    assert merged.returncode == 0 and f"{STUDY_ROWS - 1} rows" in merged.stdout
    assert "missing: 1 of the 56 runs of shard 1/3" in merged.stdout
    assert start(study, "damaged", 1).finish().returncode == 0
    assert read_rows(folder) == reference.rows
    assert len(journals(folder, "1")) == 2 and torn.read_bytes()[-1:] != b"\n"
    damaged = journals(folder, "2")[0]
    lines = damaged.read_bytes().splitlines(keepends=True)
    damaged.write_bytes(b"".join([*lines[:4], b"rubbish\n", *lines[5:]]))
    for done in (campaign("merge", folder), campaign("status", folder), start(study, "damaged", 2).finish()):
        assert done.returncode == 2
        assert f"{damaged}:5: " in done.stderr


def test_merged_journal_that_is_behind_is_said_to_be(reference, divided, study):
    folder = shutil.copytree(divided, study.place / "behind")
    assert "merge" not in campaign("diff", folder, folder).stderr
    with open(journals(folder, "3")[0], "ab") as journal:
        row = b'{"ids":["serial/weight.sign/2"],"kind":"retract","reason":"test"}'
        journal.write(b'{"crc32c":"%08x","row":%s}\n' % (crc32c(row), row))
    assert "shards have written more since the last merge" in campaign("diff", folder, folder).stderr


def test_merge_of_an_undivided_campaign_is_refused(reference):
    done = campaign("merge", reference.place / "plain")
    assert done.returncode == 2 and "was not run with --shard: its journal needs no merge" in done.stderr


def test_replay_works_on_a_merged_folder(reference, divided):
    done = campaign("replay", divided, "data-2/weight.sign/3", env=reference.env)
    assert done.returncode == 0, done.stdout + done.stderr
