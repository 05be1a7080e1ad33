"""Several data orders, held-out runs and jitter runs, around a stand-in for the trainer (docs/campaign.md)."""

from __future__ import annotations

import json
import pathlib
import random
import sys

import fake_train
import numpy as np
import pytest
from campaign_support import (
    CONTROLS,
    STUDY_SPEC,
    Driver,
    Study,
    campaign,
    journal_lines,
    read_rows,
    wait_until,
)
from philox import derive_key, philox_u64

ORDERS = 3
SEED = 11
ORDERED = STUDY_SPEC | {"controls": CONTROLS | {"orders": ORDERS}}
# The no-flip runs of each further order.
ROWS = 2 * (2 + 1 + sum(CONTROLS.values()) + 3 + 2 + 1 + 2 * (ORDERS - 1) + 4 * 6)
EPOCHS = 2


def in_orders(place):
    study = Study(place)
    study.spec.write_text(json.dumps(ORDERED))
    return study


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    study = in_orders(tmp_path_factory.mktemp("ordered"))
    done = study.run("plain", "--workers", "1")
    assert done.returncode == 0, done.stderr
    study.rows = read_rows(study.place / "plain", check_crc=True)
    return study


@pytest.fixture
def study(tmp_path):
    return in_orders(tmp_path)


def seed_of(purpose, number):
    return int(philox_u64(derive_key(SEED, purpose), np.array([number], np.uint64), 0)[0])


def order_seed(row):
    """As docs/campaign.md says, from the row's id alone; "" for the base's own order."""
    stratum, draw = row["id"]["stratum"], row["id"]["draw"]
    if row["kind"] in ("envelope", "held_out"):
        return seed_of(row["kind"], draw)
    order = draw % ORDERS if row["kind"] in ("trial", "jitter") else 0
    if stratum.startswith("control:order-"):
        order = int(stratum.rpartition("-")[2])
    assert row.get("order", 0) == order, row["id"]
    return seed_of("order", order) if order else ""


def altered(base, faults):
    """The tensors of the base with these faults in them."""
    tensors = {name: values.copy() for name, values in base.items()}
    for fault in faults:
        values = tensors[fault["tensor"]].reshape(-1)
        patterns = values.view(np.uint32)
        assert patterns[fault["element"]] == int(fault["old"], 16)
        patterns[fault["element"]] = int(fault["new"], 16)
    return tensors


def test_every_run_has_its_order_its_seed_and_its_faults(reference):
    """The stand-in's digest is that of the file it loads and of its order seed, so both can be told from the row."""
    assert len(reference.rows) == ROWS
    base = fake_train.read_tensors(reference.place / "plain" / "base.h5")
    seen = set()
    for key, row in reference.rows.items():
        if row["kind"] == "canary":
            continue
        seed = order_seed(row)
        epochs = 0 if row["id"]["stratum"] == "control:zero" else EPOCHS
        digest = fake_train.digest(altered(base, row["faults"]), f"{seed}/{epochs}")
        assert row["result"]["final_digest"] == digest, key
        seen.add((row["kind"], row.get("order", 0)))
    assert seen == {("envelope", 0), ("held_out", 0)} | {
        (kind, order) for kind in ("control", "jitter", "trial") for order in range(ORDERS)
    }


def test_each_order_has_a_golden_run_that_repeats_itself(reference):
    for arm in ("serial", "data-2"):
        golden = []
        for order in range(ORDERS):
            stratum = f"control:order-{order}" if order else "control"
            runs = [row for row in reference.rows.values() if row["id"]["arm"] == arm]
            runs = [row["result"] for row in runs if row["id"]["stratum"] == stratum]
            assert len(runs) == (2 if order else 3)  # and the one after the canaries
            assert len({run["final_digest"] for run in runs}) == 1
            golden.append(runs[0]["final_digest"])
        assert len(set(golden)) == ORDERS


def test_list_shows_orders_and_jitter_runs(reference):
    folder = reference.place / "plain"
    listed = {run["id"]: run for run in json.loads(campaign("list", folder, "--json").stdout)["runs"]}
    assert listed.keys() == reference.rows.keys()
    for key, row in reference.rows.items():
        run = listed[key]
        assert run["kind"] == row["kind"]
        assert run["order"] == row.get("order", 0)
        assert run["faults"] == row["faults"]
        assert run.get("order_seed", "") == order_seed(row)
    lines = {line.split()[0]: line for line in campaign("list", folder).stdout.splitlines() if "/" in line.split()[0]}
    assert lines["serial/jitter/1"].count(" bit 0 ") == 4
    assert "jitter in data order 1 " in lines["serial/jitter/1"] and "and 12 more" in lines["serial/jitter/1"]
    assert "in data order 2" in lines["data-2/control:order-2/0"]
    assert "in data order" not in lines["serial/weight.sign/3"]


def test_number_of_workers_and_kills_change_nothing(reference, study):
    chance = random.Random(6)
    slow = {"FAKE_TRAIN_SECONDS": "0.03"}
    kills = 0
    for _ in range(6):
        driver = study.start("killed", "--workers", "3", env=slow)
        kills += driver.kill_at_random(chance, 1.2, lambda: journal_lines(study.place / "killed"))
    done = study.run("killed", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert kills > 3
    assert read_rows(study.place / "killed", check_crc=True) == reference.rows
    assert campaign("diff", study.place / "killed", reference.place / "plain").returncode == 0


def test_shards_agree_on_the_golden_run_of_each_order_and_share_the_clean_runs(reference, study):
    drivers = [study.start("divided", "--shard", f"{index}/3", "--workers", "1") for index in (1, 2, 3)]
    try:
        ends = [driver.finish() for driver in drivers]
    finally:
        for driver in drivers:
            if driver.process.returncode is None:
                driver.kill_everything()
    assert [end.returncode for end in ends] == [0, 0, 0], [end.stderr for end in ends]
    folder = study.place / "divided"
    assert read_rows(folder, check_crc=True) == reference.rows
    golden = {path.stem: json.loads(path.read_text())["result"] for path in (folder / "shards").glob("golden-*")}
    expected = {}
    for index, arm in enumerate(("serial", "data-2")):
        expected[f"golden-000{index}"] = f"{arm}/control/0"
        for order in range(1, ORDERS):
            expected[f"golden-000{index}-order-000{order}"] = f"{arm}/control:order-{order}/0"
    assert golden.keys() == expected.keys()
    for name, key in expected.items():
        assert golden[name]["final_digest"] == reference.rows[key]["result"]["final_digest"], name
    shards = {}
    for path in (folder / "shards").glob("*/*/trials.jsonl"):
        for line in path.read_bytes().splitlines():
            row = json.loads(line)["row"]
            shards.setdefault((row["kind"], row["id"]["draw"]), set()).add(path.parts[-3])
    for kind in ("held_out", "jitter"):
        assert [shards[kind, draw] for draw in range(4)] == [{"1-of-3"}, {"2-of-3"}, {"3-of-3"}, {"1-of-3"}]


def drifting_trainer(place, *, kind, draw):
    """The stand-in, one process of which gives other losses in order 1 once it has made this run; it says so once."""
    program = pathlib.Path(place) / "drifting"
    flag = pathlib.Path(place) / "drifted"
    program.write_text(
        f"""#!{sys.executable}
import os, sys
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import fake_train
plain, drifts = fake_train.simulate, []

def simulate(request, *rest):
    result = plain(request, *rest)
    if request["id"] == "serial/{kind}/{draw}" and not os.path.exists({str(flag)!r}):
        open({str(flag)!r}, "w").close()
        drifts.append(True)
    if drifts and request.get("order_seed") == {seed_of("order", 1)}:
        result["replicas"][0][-1]["test_loss"] += 1e-9
    return result

fake_train.simulate = simulate
fake_train.main()
"""
    )
    program.chmod(0o755)
    return {"BITRIFT_TRAIN_PROGRAM": str(program)}, flag


def test_worker_that_drifts_in_one_order_is_caught_and_its_rows_run_again(reference, study):
    env, flag = drifting_trainer(study.place, kind="weight.sign", draw=3)
    driver = Driver("run", study.spec, "-o", study.place / "drift", "--workers", "1", env=env)
    done = driver.finish()
    assert done.returncode == 0, done.stderr
    assert flag.exists() and "are retracted and run again" in done.stderr
    assert "no-flip runs of data order 1 are not bit-identical" in done.stderr
    lines = (study.place / "drift" / "trials.jsonl").read_bytes().splitlines()
    retracted = [one for line in lines for one in json.loads(line)["row"].get("ids", [])]
    assert "serial/weight.sign/4" in retracted  # of order 1, right after the drift
    assert campaign("diff", study.place / "drift", reference.place / "plain").returncode == 0


def test_order_that_does_not_repeat_itself_stops_the_campaign(study):
    env, flag = drifting_trainer(study.place, kind="control:order-1", draw=1)
    done = Driver("run", study.spec, "-o", study.place / "unsteady", "--workers", "1", env=env).finish()
    assert flag.exists()
    assert done.returncode == 1
    assert "arm 'serial'" in done.stderr and "no-flip runs of data order 1 are not bit-identical" in done.stderr
    assert not any(row["kind"] == "trial" for row in read_rows(study.place / "unsteady").values())


def test_runs_of_other_orders_are_replayed_but_not_traced(reference, tmp_path):
    folder = reference.place / "plain"
    for id_ in ("serial/weight.sign/4", "data-2/jitter/2", "serial/held_out/3", "data-2/control:order-2/1"):
        again = campaign("replay", folder, id_, env=reference.env)
        assert again.returncode == 0, again.stdout + again.stderr
    refused = campaign("replay", folder, "serial/weight.sign/4", "--trace", tmp_path / "t.jsonl", env=reference.env)
    assert refused.returncode == 2
    assert f"runs in the data order of seed {seed_of('order', 1)}" in refused.stderr
    assert "whose draw is a multiple of 3" in refused.stderr


def test_more_orders_than_draws_leave_the_rest_to_their_no_flip_runs(study):
    spec = study.changed_spec(controls=CONTROLS | {"orders": 8})
    done = study.run("many", spec=spec)
    assert done.returncode == 0, done.stderr
    rows = read_rows(study.place / "many")
    assert {row["order"] for row in rows.values() if row["id"]["stratum"] == "control:order-7"} == {7}
    assert {row.get("order", 0) for row in rows.values() if row["kind"] == "trial"} == set(range(6))


def test_status_counts_the_runs_of_every_order(study):
    driver = study.start("half", "--workers", "1", env={"FAKE_TRAIN_SECONDS": "0.02"})
    wait_until(lambda: journal_lines(study.place / "half") > 10)
    driver.kill_everything()
    (serial, data) = json.loads(campaign("status", study.place / "half", "--json").stdout)["arms"]
    for arm in (serial, data):
        assert arm["to_prepare"] == 2 * ORDERS + 1 + sum(CONTROLS.values()) + 3 + 2 + 1
        assert arm["planned"] == 4 * 6
    assert serial["prepared"] + data["prepared"] == journal_lines(study.place / "half")
