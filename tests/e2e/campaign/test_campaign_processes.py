"""Campaigns in which ranks fail (docs/spec.md, "Ranks that fail"), around a stand-in for the trainer."""

from __future__ import annotations

import json
import random
import shutil
import subprocess

import pytest
from campaign_support import (
    BIN,
    CONTROLS,
    STUDY_SPEC,
    Study,
    campaign,
    journal_lines,
    read_incidents,
    read_rows,
    wait_until,
)

PARALLEL = {"kind": "data", "ranks": 4}
SPEC = STUDY_SPEC | {
    "name": "processes",
    "arms": [
        {"name": "shrink", "parallel": PARALLEL, "recovery": "shrink"},
        {"name": "spare", "parallel": PARALLEL, "recovery": {"kind": "spare", "spares": 2}},
        {"name": "forgets", "parallel": PARALLEL, "recovery": {"kind": "spare", "forget": ["optimizer"]}},
    ],
    "strata": {"process": {"phases": ["forward", "update", "recovery"], "steps": {"first": 5, "last": 8}}},
    "trials_per_stratum": 3,
    "controls": CONTROLS,
}


def analyze(folder, *options):
    return subprocess.run([BIN / "bitrift", "analyze", folder, *options], capture_output=True, text=True, check=False)


class Processes(Study):
    def __init__(self, place):
        super().__init__(place)
        self.spec.write_text(json.dumps(SPEC))

    def changed_spec(self, **changes):
        path = self.place / "changed.json"
        path.write_text(json.dumps(SPEC | changes))
        return path


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    study = Processes(tmp_path_factory.mktemp("processes"))
    done = study.run("plain", "--workers", "1")
    assert done.returncode == 0, done.stderr
    study.rows = read_rows(study.place / "plain", check_crc=True)
    return study


@pytest.fixture
def study(tmp_path):
    return Processes(tmp_path)


def trials(rows, arm=""):
    return [row for row in rows.values() if row["kind"] == "trial" and arm in ("", row["id"]["arm"])]


def test_every_arm_runs_the_same_faults_and_all_of_them_land(reference):
    faults = [
        [row["faults"] for row in sorted(trials(reference.rows, arm), key=lambda row: str(row["id"]))]
        for arm in ("shrink", "spare")
    ]
    by_id = {}
    for row in trials(reference.rows):
        by_id.setdefault((row["id"]["stratum"], row["id"]["draw"]), []).append(row["faults"])
        assert row["landed"] and not row["no_change"] and "plane" not in row
    assert len(faults[0]) == len(faults[1]) == 9
    assert all(one == two == three for one, two, three in by_id.values())
    sizes = {row["id"]["stratum"]: row["stratum_bits"] for row in trials(reference.rows)}
    assert sizes == {"process.forward": 4 * 4, "process.update": 4 * 4 * 3, "process.recovery": 4 * 3 * 4 * 4}
    pair = next(row["faults"] for row in trials(reference.rows) if row["id"]["stratum"] == "process.recovery")
    assert [fault["process"]["phase"] for fault in pair] == ["reduce", "recovery"]
    assert all(5 <= fault["process"]["step"] <= 8 for row in trials(reference.rows) for fault in row["faults"])


def test_outcomes_say_who_recovered(reference):
    done = analyze(reference.place / "plain", "--json")
    assert done.returncode == 0, done.stderr
    counts = {
        (group["key"]["arm"], group["key"]["field"]): group["reasons"] for group in json.loads(done.stdout)["groups"]
    }
    assert counts["spare", "forward"] == {"bitwise": 3}
    assert counts["shrink", "recovery"] == {"unrecovered": 3}
    assert counts["forgets", "update"] == {"within_noise": 3}
    shown = campaign("show", reference.place / "plain", "--arm", "spare", "--json", "--top", "1")
    (line,) = json.loads(shown.stdout)
    assert line["recovered"] is True and line["outcome"] == "masked"
    assert line["victims"] == line["recoveries"][0]["failed"] and "detect" in line["recoveries"][0]["volatile"]
    table = analyze(reference.place / "plain").stdout
    assert "over uniform ranks, steps and points" in table and "left no trace" not in table
    refused = analyze(reference.place / "plain", "--by", "layer")
    assert refused.returncode == 2 and "no tensor is altered" in refused.stderr


RELAUNCH = {
    "arms": [{"name": "relaunch", "parallel": PARALLEL, "recovery": {"kind": "relaunch", "checkpoint_every": 5}}],
    "trials_per_stratum": 2,
}


def test_a_job_that_is_launched_again_is_no_incident(study):
    """Twice where a second rank fails while the first failure is handled. The driver is killed on the way."""
    spec, folder = study.changed_spec(**RELAUNCH), study.place / "again"
    driver = study.start("again", spec=spec)
    wait_until(lambda: journal_lines(folder) and "process.update" in (folder / "trials.jsonl").read_text(), 60)
    driver.kill_everything()
    done = study.run("again", spec=spec)
    assert done.returncode == 0, done.stderr
    assert read_incidents(folder) == [] and not list(folder.glob("work/**/*.h5"))
    rows = read_rows(folder, check_crc=True)
    assert rows["relaunch/canary:no-recovery/0"]["result"]["status"] == "unrecovered"
    base = (folder / "base.h5").stat().st_size
    assert len(trials(rows)) == 6
    for row in trials(rows):
        recoveries = row["result"]["recoveries"]
        assert [one["failed"] for one in recoveries] == [[fault["process"]["rank"]] for fault in row["faults"]]
        last, step = recoveries[-1], row["faults"][0]["process"]["step"]
        assert last["step"] == (5 if step > 5 else 0) and last["steps_redone"] == step - last["step"]
        assert last["kind"] == "relaunch" and last["state"] == "file"
        assert last["bytes_moved"] == 4 * (1 if step > 5 else base)
    shown = json.loads(campaign("show", folder, "--arm", "relaunch", "--json").stdout)
    assert all(one["volatile"]["respawn"] > 0 for line in shown for one in line["recoveries"])
    again = campaign("replay", folder, "relaunch/process.recovery/1", env=study.env)
    assert again.returncode == 0, again.stdout + again.stderr


def test_the_verdict_of_the_document_is_the_same(reference, study):
    """With an arm that has no recovery, whose workers end."""
    verdict_compare = pytest.importorskip("verdict_compare")
    spec = study.changed_spec(
        arms=[*SPEC["arms"][:2], {"name": "none", "parallel": PARALLEL}],
        strata={"process": {"phases": ["forward"]}},
    )
    done = study.run("none", spec=spec)
    assert done.returncode == 0, done.stderr
    reasons = verdict_compare.judged(study.place / "none")
    trials_of = {arm: {one.reason for one in reasons["trial"] if one.arm == arm} for arm in ("none", "spare")}
    assert trials_of == {"none": {"unrecovered"}, "spare": {"bitwise"}}
    verdict_compare.judged(reference.place / "plain")


def test_the_folder_says_what_runs(reference):
    folder = reference.place / "plain"
    listed = json.loads(campaign("list", folder, "--json").stdout)
    runs = {run["id"]: run for run in listed["runs"]}
    for row in trials(reference.rows):
        assert runs["{arm}/{stratum}/{draw}".format(**row["id"])]["faults"] == row["faults"]
    assert "canary:recovers" in str(runs.keys()) and "forgets/canary:recovers/0" not in runs
    assert "rank 3@41:reduce.0=kill" in campaign("list", folder).stdout
    assert json.loads(campaign("status", folder, "--json").stdout)["complete"]
    stored = json.loads((folder / "campaign.json").read_text())["spec"]["strata"]["process"]
    assert stored["points"]["steps_per_epoch"] == 20
    unlisted = campaign("list", reference.spec)
    assert unlisted.returncode == 2 and len(unlisted.stderr.splitlines()) == 1


def test_a_killed_driver_gives_the_same_rows(reference, study):
    chance = random.Random(16)
    kills = 0
    while True:
        driver = study.start("killed")
        if not driver.kill_at_random(chance, 3, lambda: journal_lines(study.place / "killed"), 40):
            break
        kills += 1
    assert driver.process.returncode == 0, driver.said()
    assert kills >= 2
    assert read_rows(study.place / "killed") == reference.rows


# Shards, and larger campaigns, of other faults: test_campaign_shards.py, test_campaign_extend.py.
@pytest.mark.thorough
def test_shards_give_the_same_rows(reference, study):
    started = [study.start("divided", "--shard", f"{index}/2") for index in (1, 2)]
    for driver in started:
        assert driver.finish().returncode == 0, driver.said()
    rows = read_rows(study.place / "divided")
    assert {key: row for key, row in rows.items() if row["kind"] == "trial"} == {
        key: row for key, row in reference.rows.items() if row["kind"] == "trial"
    }


@pytest.mark.thorough
def test_phases_and_arms_can_be_added(reference, study):
    small = SPEC | {
        "arms": SPEC["arms"][:2],
        "strata": {"process": SPEC["strata"]["process"] | {"phases": ["forward"]}},
    }
    spec = study.changed_spec(**small)
    assert study.run("grown", spec=spec).returncode == 0
    done = study.run("grown", "--extend")
    assert done.returncode == 0, done.stderr
    assert read_rows(study.place / "grown") == reference.rows


def test_exhaustive_campaigns_try_every_fault(study):
    spec = study.changed_spec(
        base={"train": SPEC["base"]["train"] | {"batch_size": 48}},
        arms=[SPEC["arms"][0] | {"parallel": PARALLEL | {"ranks": 3}}],
        strata={"process": {"phases": ["forward", "evaluate"], "steps": 4, "together": 2}},
        exhaustive=True,
    )
    changed = json.loads(spec.read_text())
    changed.pop("trials_per_stratum")
    spec.write_text(json.dumps(changed))
    assert study.run("all", spec=spec).returncode == 0
    tried = {json.dumps(row["faults"]) for row in trials(read_rows(study.place / "all"))}
    assert len(tried) == 3 * 4 + 3 * 2 * 2  # pairs x steps, pairs x evaluations x points


@pytest.mark.parametrize(
    ("drill", "says"),
    [
        ("forget-state", "arm 'spare': canary:recovers: must be bitwise after a recovery, is masked (within_noise)"),
        ("ignore-file", "canary:nan"),
    ],
)
def test_drills_are_noticed(study, drill, says):
    done = study.run("drill", "--drill", drill)
    assert done.returncode == 1
    assert says in done.stderr


def test_ranks_that_do_not_fail_stop_the_campaign(study):
    done = study.run("immortal", env={"FAKE_TRAIN_IMMORTAL": "1"})
    assert done.returncode == 1
    assert "canary:recovers: the rank that was to fail did not" in done.stderr
    # Nor does a trial count whose rank lived on.
    spec = study.changed_spec(arms=SPEC["arms"][2:])
    done = study.run("no-canary", env={"FAKE_TRAIN_IMMORTAL": "1"}, spec=spec)
    assert done.returncode == 1
    assert "the fault was not reached" in done.stderr


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"strata.process.steps": {"first": 39, "last": 41}}, "but a run takes 40 steps"),
        ({"strata.process.together": 9}, "the arms have 4 rank(s), so 9 cannot fail"),
        ({"strata.process.points": {}}, "remove the key"),
        ({"strata.process.phases": ["sleep"]}, "expected one of: forward, backward"),
        ({"arms.0.recovery": "pray"}, "expected one of: none, shrink"),
        ({"arms.1.recovery": {"kind": "spare", "spares": 0}}, "at least 1 idle rank"),
        ({"arms.0.parallel.ranks": 2}, "differs from that of arm"),
        ({"trials_per_stratum": 17}, "it holds 16 faults, but trials_per_stratum needs 17 draws"),
    ],
)
def test_specs_that_make_no_sense_are_refused_in_one_line(study, changes, says):
    overrides = [f"--set={key}={json.dumps(value)}" for key, value in changes.items()]
    done = study.run("refused", *overrides)
    assert done.returncode == 2
    assert says in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("bitrift: error:")]) == 1


def test_a_drill_without_replacements_is_refused_before_anything_is_created(study):
    done = study.run("shrinks", "--drill", "forget-state", spec=study.changed_spec(arms=SPEC["arms"][:1]))
    assert done.returncode == 2 and "no arm replaces a rank" in done.stderr
    assert not (study.place / "shrinks").exists()


def test_a_trial_is_replayed(reference, study):
    folder = shutil.copytree(reference.place / "plain", study.place / "again")
    done = campaign("replay", folder, "spare/process.update/2", env=study.env)
    assert done.returncode == 0, done.stderr
    refused = campaign("replay", folder, "spare/process.update/2", "--trace", study.place / "t.jsonl", env=study.env)
    assert refused.returncode == 2 and "a trace ends with its rank" in refused.stderr
