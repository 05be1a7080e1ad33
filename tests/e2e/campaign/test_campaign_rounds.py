"""Sampling by rounds, driven from outside: plans, stops, budgets and restarts (docs/campaign.md, "Rounds")."""

from __future__ import annotations

import json
import subprocess
import time

import pytest
from campaign_support import BIN, STUDY_SPEC, Study, campaign, journal_lines, read_rows, wait_until

SAMPLING = {"half_width": 0.15, "pilot": 4, "outcomes": ["masked", "crash"]}


@pytest.fixture
def study(tmp_path):
    study = Study(tmp_path)
    spec = {k: v for k, v in STUDY_SPEC.items() if k != "trials_per_stratum"}
    study.spec.write_text(json.dumps(spec | {"sampling": SAMPLING}))
    return study


def analyzed(folder):
    command = [BIN / "bitrift", "analyze", folder, "--by", "strategy", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def rounds_of(folder):
    return [json.loads(path.read_text()) for path in sorted((folder / "rounds").iterdir())]


def trials_of(folder):
    return {k: row for k, row in read_rows(folder).items() if row["kind"] == "trial"}


def test_rounds_go_on_until_the_half_width_and_every_draw_is_run(study, tmp_path):
    done = study.run("a", "--json")
    assert done.returncode == 0, done.stderr
    rounds = rounds_of(tmp_path / "a")
    assert len(rounds) > 2
    assert [one["round"] for one in rounds] == list(range(len(rounds)))
    assert rounds[-1]["stop"] == "half_width"
    assert max(one["half_width"] for one in rounds[-1]["reached"]) <= 0.15
    expected = {
        f"{arm}/{cell['name']}/{draw}"
        for one in rounds
        for arm in one["arms"]
        for cell in one["strata"]
        for draw in range(cell["first_draw"], cell["first_draw"] + cell["draws"])
    }
    assert set(trials_of(tmp_path / "a")) == expected
    summary = json.loads(done.stdout)
    assert summary["trials"] == summary["planned"] == len(expected)
    assert summary["waiting"] == 0
    assert summary["sampling"]["stop"] == "half_width"
    for group in analyzed(tmp_path / "a")["groups"]:
        for key in ("masked", "crash"):
            low, high = group["rates"][key]["anytime"]
            assert (high - low) / 2 <= 0.15 + 1e-6
    status = campaign("status", tmp_path / "a")
    assert "stopped after round" in status.stdout and ": complete" in status.stdout
    listed = json.loads(campaign("list", tmp_path / "a", "--json").stdout)
    assert {run["id"] for run in listed["runs"] if run["kind"] == "trial"} == expected


def test_kills_and_more_workers_change_neither_plans_nor_rows(study, tmp_path):
    assert study.run("plain", "--workers", "1").returncode == 0
    for kill in range(4):
        before = journal_lines(tmp_path / "killed")
        driver = study.start("killed", "--workers", "2", env={"FAKE_TRAIN_SECONDS": "0.005"})
        wait_until(
            lambda driver=driver, before=before, kill=kill: (
                driver.process.poll() is not None or journal_lines(tmp_path / "killed") > before + 20 * (kill + 1)
            )
        )
        driver.kill_everything()
    assert study.run("killed", "--workers", "2").returncode == 0
    assert rounds_of(tmp_path / "killed") == rounds_of(tmp_path / "plain")
    assert read_rows(tmp_path / "killed") == read_rows(tmp_path / "plain")


def test_a_budget_of_trials_ends_at_a_barrier_and_is_named(study, tmp_path):
    done = study.run("a", "--set", "sampling.max_trials=50", "--set", "sampling.half_width=0.01")
    assert done.returncode == 0, done.stderr
    assert rounds_of(tmp_path / "a")[-1]["stop"] == "max_trials"
    assert len(trials_of(tmp_path / "a")) == 50
    assert "sampling.max_trials is spent" in done.stdout


def test_hours_may_end_amid_a_round_and_the_next_start_goes_on(study, tmp_path):
    study.run("plain")
    began = time.monotonic()
    done = study.run("a", "--max-hours", str(3 / 3600), env={"FAKE_TRAIN_SECONDS": "0.05"})
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 30
    assert "--max-hours are over" in done.stderr
    assert campaign("status", tmp_path / "a").stdout.startswith("driver: incomplete")
    assert study.run("a").returncode == 0
    assert read_rows(tmp_path / "a") == read_rows(tmp_path / "plain")


def test_a_round_that_was_changed_is_refused_by_name(study, tmp_path):
    assert study.run("a").returncode == 0
    path = tmp_path / "a" / "rounds" / "0001.json"
    plan = json.loads(path.read_text())
    plan["strata"][0]["draws"] += 1
    path.write_text(json.dumps(plan))
    done = study.run("a")
    assert done.returncode == 2
    assert "0001.json: the plan does not follow" in done.stderr


def test_exhaustive_tries_every_fault_and_leaves_no_doubt(study, tmp_path):
    spec = {k: v for k, v in STUDY_SPEC.items() if k != "trials_per_stratum"} | {"exhaustive": True}
    spec["strata"] = {"roles": ["bias"], "fields": ["sign", "exponent_msb"]}
    study.spec.write_text(json.dumps(spec))
    done = study.run("a", "--json")
    assert done.returncode == 0, done.stderr
    assert len(trials_of(tmp_path / "a")) == 2 * 2 * (6 + 8 + 10)
    for group in json.loads(done.stdout)["groups"]:
        for rate in group["rates"].values():
            assert rate["anytime"] == pytest.approx([rate["estimate"]] * 2, abs=1e-12)
