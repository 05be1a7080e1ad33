"""Shards without a driver, whose parts other drivers run (docs/campaign.md, "Shards without a driver")."""

from __future__ import annotations

import json
import random
import time

import pytest
from campaign_support import STUDY_SPEC, Driver, Study, campaign, end_all, read_rows, reference_study, wait_until

SAMPLING = {"half_width": 0.15, "pilot": 4, "outcomes": ["masked", "crash"]}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return reference_study(tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    """The same in rounds."""
    study = Study(tmp_path_factory.mktemp("sampled"))
    spec = {key: value for key, value in STUDY_SPEC.items() if key != "trials_per_stratum"}
    study.spec.write_text(json.dumps(spec | {"sampling": SAMPLING}))
    done = study.run("plain", "--workers", "1")
    assert done.returncode == 0, done.stderr
    study.rows = read_rows(study.place / "plain")
    return study


STARTED: list[Driver] = []


@pytest.fixture(autouse=True)
def nothing_is_left_running():
    yield
    end_all(STARTED)


def start(study, name, shard, *arguments, after=0.2, env=None):
    words = ["--shard", shard, "--workers", "1", "--stand-in-after", str(after), *arguments]
    STARTED.append(study.start(name, *words, env=env))
    return STARTED[-1]


def finish(*drivers):
    ends = [driver.finish() for driver in drivers]
    assert [end.returncode for end in ends] == [0] * len(ends), [end.stderr for end in ends]
    return ends


def rows_of(folder, shard):
    """Rows by the start that wrote them."""
    journals = sorted((folder / "shards").glob(f"{shard}-of-*/0*/trials.jsonl"))
    return {journal.parent.name: journal.read_bytes().count(b"\n") for journal in journals}


def holder(folder, shard, number):
    return json.loads((folder / "shards" / shard / number / "driver.json").read_text())


def rounds_of(folder):
    return [json.loads(path.read_text()) for path in sorted((folder / "rounds").iterdir())]


def test_one_driver_finishes_a_campaign_of_four_shards_and_late_ones_have_nothing_to_do(sampled):
    folder = sampled.place / "alone"
    finish(start(sampled, "alone", "2/4"))
    assert read_rows(folder, check_crc=True) == sampled.rows
    assert rounds_of(folder) == rounds_of(sampled.place / "plain")
    assert "starts 5, ended\nshard 2/4" in campaign("status", folder).stdout
    for shard in (1, 3, 4):
        before = rows_of(folder, shard)
        assert before and holder(folder, f"{shard}-of-4", "0001")["of"] == "2/4"
        finish(start(sampled, "alone", f"{shard}/4"))
        after = rows_of(folder, shard)
        assert len(after) == len(before) + 1 and sum(after.values()) == sum(before.values())
    merged = campaign("merge", folder)
    assert merged.returncode == 0 and "missing" not in merged.stdout, merged.stdout
    assert campaign("diff", sampled.place / "plain", folder).returncode == 0
    assert not list((folder / "shards").glob("*/*/work")) and not list(folder.rglob("wanted"))


def test_three_of_four_tasks_finish(reference):
    folder = reference.place / "three"
    finish(*(start(reference, "three", f"{shard}/4") for shard in (1, 2, 4)))
    assert read_rows(folder, check_crc=True) == reference.rows
    kinds = [
        json.loads(line)["row"]["kind"]
        for path in folder.glob("shards/3-of-4/0*/trials.jsonl")
        for line in path.read_bytes().splitlines()
    ]
    assert "trial" in kinds and "envelope" in kinds
    assert not {"control", "canary"} & set(kinds), "a stand-in has examined its own machine"


def test_driver_that_joins_late_gets_its_shard_from_the_stand_in(sampled):
    folder = sampled.place / "late"
    slow = {"FAKE_TRAIN_SECONDS": "0.03"}
    early = start(sampled, "late", "1/2", "--set", "controls.every=3", env=slow)
    wait_until(lambda: sum(rows_of(folder, 2).values()) > 3)
    number = max(rows_of(folder, 2))
    late = start(sampled, "late", "2/2", "--set", "controls.every=3", after=30, env=slow)
    wait_until(lambda: "the driver of shard 1/2 stands in" in late.said() or late.process.poll() is not None)
    ends = finish(early, late)
    assert "waiting until it hands the shard over" in ends[1].stderr
    own = [start for start in rows_of(folder, 2) if not holder(folder, "2-of-2", start)["of"]]
    assert own and own[0] > number
    assert sum(rows_of(folder, 2)[start] for start in own) > 10, "the late driver worked, too"
    assert read_rows(folder, check_crc=True) == sampled.rows
    assert rounds_of(folder) == rounds_of(sampled.place / "plain")


def test_killed_drivers_and_stand_ins_lose_nothing(sampled):
    folder = sampled.place / "killed"
    chance = random.Random(5)
    slow = {"FAKE_TRAIN_SECONDS": "0.01"}
    shards = [f"{index}/5" for index in range(1, 6)]
    drivers = {shard: start(sampled, "killed", shard, env=slow) for shard in shards[:3]}
    kills = 0
    for _ in range(12):
        victim = chance.choice(sorted(drivers))
        kills += drivers.pop(victim).kill_at_random(chance, 0.7)
        joins = chance.choice([shard for shard in shards if shard not in drivers])
        drivers[joins] = start(sampled, "killed", joins, env=slow)
    finish(*drivers.values())
    assert kills > 4
    assert read_rows(folder, check_crc=True) == sampled.rows
    assert rounds_of(folder) == rounds_of(sampled.place / "plain")
    for shard in shards:  # what killed ones left behind goes with the next start
        finish(start(sampled, "killed", shard))
    assert not list((folder / "shards").glob("*/*/work")) and not list(folder.rglob("wanted"))


def test_shard_on_another_kind_of_processor_gets_a_stand_in(reference):
    folder = reference.place / "kinds"
    first = start(reference, "kinds", "1/2", after=3)
    wait_until(lambda: (folder / "shards" / "1-of-2" / "done" / "preparation.json").exists())
    foreign = start(reference, "kinds", "2/2", env={"FAKE_TRAIN_KERNELS": "other"}).finish()
    assert foreign.returncode == 1 and "no-flip runs are not bit-identical" in foreign.stderr
    finish(first)
    assert read_rows(folder, check_crc=True) == reference.rows


def test_late_driver_on_another_kind_of_processor_adds_no_row(reference):
    """Its part of the preparation was run by a stand-in, so it has yet to compare its own machine."""
    folder = reference.place / "late-kind"
    slow = {"FAKE_TRAIN_SECONDS": "0.03"}
    first = start(reference, "late-kind", "1/2", "--set", "controls.every=3", env=slow)
    wait_until(lambda: (folder / "shards" / "1-of-2" / "done" / "round-0000.json").exists())
    foreign = start(reference, "late-kind", "2/2", "--set", "controls.every=3", env={"FAKE_TRAIN_KERNELS": "other"})
    end = foreign.finish()
    assert end.returncode == 1 and "no-flip runs are not bit-identical" in end.stderr
    finish(first)
    assert read_rows(folder, check_crc=True) == reference.rows


def test_shard_with_a_driver_is_left_to_it(reference):
    folder = reference.place / "slow"
    slow = start(reference, "slow", "2/2", env={"FAKE_TRAIN_SECONDS": "0.05"})
    wait_until(lambda: rows_of(folder, 2))
    fast = start(reference, "slow", "1/2", after=0)
    time.sleep(3)  # long enough to stand in
    finish(fast, slow)
    assert list(rows_of(folder, 2)) == ["0001"] and list(rows_of(folder, 1)) == ["0001"]


def test_stand_in_that_meets_a_damaged_journal_leaves_the_shard_alone(reference):
    folder = reference.place / "damaged"
    second = start(reference, "damaged", "2/2", after=100, env={"FAKE_TRAIN_SECONDS": "0.02"})
    wait_until(lambda: sum(rows_of(folder, 2).values()) > 5)
    second.kill_everything()
    path = folder / "shards" / "2-of-2" / "0001" / "trials.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"rubbish\n", *lines[2:]]))
    first = start(reference, "damaged", "1/2", "--wait-hours", str(4 / 3600)).finish()
    assert first.returncode == 2 and "h for shard 2" in first.stderr
    path.write_bytes(b"".join(lines))
    finish(start(reference, "damaged", "1/2"))
    assert read_rows(folder, check_crc=True) == reference.rows


def test_option_needs_shards(reference):
    done = reference.run("refused", "--stand-in-after", "3")
    assert done.returncode == 2 and "--stand-in-after is about other shards: give --shard too" in done.stderr
