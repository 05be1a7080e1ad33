"""Links that die or become slow under the real trainer: what a campaign draws happens, and repeats have equal bits."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import bitrift
import pytest
from campaign_support import BIN, CONTROLS, SMALL_BASE, campaign, read_rows, row_id

MESH = {"rows": 2, "columns": 2}  # without one link, it is a line of four chips, and no ring


def arm(name: str, schedule: str, recovery: str) -> dict[str, Any]:
    parallel = {"kind": "data", "mesh": MESH | {"schedule": schedule}}
    return {"name": name, "parallel": parallel, "recovery": recovery}


SPEC = {
    "name": "links",
    "seed": 18,
    "base": {"train": SMALL_BASE["train"] | {"batch_size": 60, "epochs": 5}},
    "resume": {"epochs": 2},
    "arms": [arm("trees", "trees", "shrink"), arm("ring", "ring", "shrink")],
    "strata": {"link": {"steps": {"first": 2, "last": 4}, "delay": 0.01}},
    "trials_per_stratum": 4,
    "controls": CONTROLS,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("links")
    (place / "spec.json").write_text(json.dumps(SPEC))
    done = campaign("run", place / "spec.json", "-o", place / "run", "--workers", "1")
    assert done.returncode == 0, done.stderr
    return place / "run"


def trials(folder: Path) -> list[dict[str, Any]]:
    return [row for row in read_rows(folder, check_crc=True).values() if row["kind"] == "trial"]


def times_of(folder: Path) -> dict[str, dict[str, float]]:
    """The times of the link that failed in each trial."""
    rows = [json.loads(line)["row"] for line in (folder / "trials.jsonl").read_text().splitlines()]
    return {row_id(row): row["volatile"]["failed_links"][0] for row in rows if row["kind"] == "trial"}


def test_every_drawn_link_fails_as_the_arm_allows(folder: Path) -> None:
    rows = trials(folder)
    assert len(rows) == 2 * 2 * 4
    drawn: dict[str, set[str]] = {}
    clean, all_times = read_rows(folder), times_of(folder)
    for row in rows:
        (fault,) = (one["failed_link"] for one in row["faults"])
        (report,) = row["result"]["failed_links"]
        assert row["landed"] and report["link"] == fault and row["stratum_bits"] == 4 * 3
        assert f"link.{fault['kind']}" == row["id"]["stratum"] and 2 <= fault["step"] <= 4
        drawn.setdefault(f"{row['id']['arm']}/{fault['kind']}", set()).add(json.dumps(fault, sort_keys=True))
        golden = clean[f"{row['id']['arm']}/control/0"]["result"]
        times = all_times[row_id(row)]
        if fault["kind"] == "slow":
            assert fault["delay"] == 0.01 and report["delayed_messages"] > 0
            assert row["result"]["final_digest"] == golden["final_digest"]
            assert times["step_seconds_behind"] >= 0.01
        elif row["id"]["arm"] == "trees":
            assert row["result"]["status"] == "done" and times["plan_seconds"] > 0
            assert row["result"]["steps"] == golden["steps"]
        else:
            assert row["result"]["status"] == "unrecovered" and "there is no ring" in row["result"]["detail"]
            assert row["result"]["steps"] == fault["step"] - 1
    # Draws without replacement, the same in all arms.
    assert {len(faults) for faults in drawn.values()} == {4}
    for kind in ("dead", "slow"):
        assert drawn[f"trees/{kind}"] == drawn[f"ring/{kind}"]


def test_canaries_change_no_bit(folder: Path) -> None:
    rows = read_rows(folder)
    for name in ("trees", "ring"):
        reached, slow = (rows[f"{name}/canary:{one}/0"] for one in ("failure-unreached", "slow-link"))
        golden = rows[f"{name}/control/0"]["result"]["final_digest"]
        assert (reached["landed"], slow["landed"]) == (False, True)
        assert reached["result"]["final_digest"] == slow["result"]["final_digest"] == golden
        assert rows[f"{name}/control/3"]["result"]["final_digest"] == golden


def test_outcomes_are_those_of_the_rows(folder: Path) -> None:
    words = [BIN / "bitrift", "analyze", folder, "--by", "arm,field", "--json"]
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60)
    groups = {tuple(one["key"].values()): one["counts"] for one in json.loads(done.stdout)["groups"]}
    assert len(groups) == 4
    for key, counts in groups.items():
        lost = "ring" in key and "dead" in key
        assert counts["crash" if lost else "masked"] == 4, key


def test_every_link_can_be_drawn(tmp_path: Path) -> None:
    spec = {key: value for key, value in SPEC.items() if key != "trials_per_stratum"}
    strata = {"link": {"steps": {"first": 3, "last": 4}, "delay": 0.001}}
    spec |= {"arms": SPEC["arms"][:1], "strata": strata, "exhaustive": True}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    done = campaign("run", tmp_path / "spec.json", "-o", tmp_path / "run", "--workers", "1")
    assert done.returncode == 0, done.stderr
    drawn = [row["faults"][0]["failed_link"] for row in trials(tmp_path / "run")]
    links = ["0,0-0,1", "0,0-1,0", "0,1-1,1", "1,0-1,1"]
    for kind in ("dead", "slow"):
        taken = sorted((one["between"], one["step"]) for one in drawn if one["kind"] == kind)
        assert taken == [(link, step) for link in links for step in (3, 4)]
    words = [BIN / "bitrift", "analyze", tmp_path / "run"]
    whole = subprocess.run([*words, "--json"], check=True, capture_output=True, text=True, timeout=60)
    for group in json.loads(whole.stdout)["groups"]:
        rate = group["rates"]["masked"]
        assert rate["estimate"] == 1 and rate["interval"] == [1, 1], rate  # nothing was left out
    table = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout
    assert "Rates are over uniform links and steps of a line's strata." in table
    assert "All trials bitwise" not in table  # slow links alter no bit


def test_trials_are_shown_with_their_links(folder: Path) -> None:
    shown = campaign("show", folder, "--arm", "trees", "--stratum", "link.dead")
    assert shown.returncode == 0 and shown.stdout.count("  faults   dead link ") == 4
    listed = campaign("show", folder, "--arm", "trees", "--json")
    reports = [one["failed_link"] for one in json.loads(listed.stdout)]
    assert sum("plan_seconds" in report["volatile"] for report in reports) == 4
    assert sum(report.get("delayed_messages", 0) > 0 for report in reports) == 4
    planned = campaign("list", folder)
    assert planned.returncode == 0 and planned.stdout.count(" slow link ") >= 8


def test_the_package_has_columns_of_links(folder: Path) -> None:
    table = bitrift.Campaign(folder).trials()
    times = times_of(folder)
    assert sorted(table["link_failure"]) == ["dead"] * 8 + ["slow"] * 8
    for row in table.to_dict("records"):
        assert row["step_seconds_behind"] == times[row["id"]].get("step_seconds_behind") or row["arm"] == "ring"
        planned = row["link_failure"] == "dead" and row["arm"] == "trees"
        assert (row["plan_seconds"] > 0) == planned and 2 <= row["step"] <= 4


@pytest.mark.parametrize("draw", ["trees/link.dead/1", "trees/link.slow/2", "ring/link.dead/0"])
def test_a_trial_is_repeated_to_the_bit(folder: Path, draw: str) -> None:
    done = campaign("replay", folder, draw)
    assert done.returncode == 0, done.stdout + done.stderr


def test_steps_behind_the_end_are_refused(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(json.dumps(SPEC | {"strata": {"link": {"steps": 9}}}))
    done = campaign("run", tmp_path / "spec.json", "-o", tmp_path / "run")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "strata: link.dead: strata.link.steps names step 9, but a run takes 8 steps" in done.stderr
