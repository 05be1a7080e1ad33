"""Campaigns in which ranks fail: outcomes and times of recoveries, in Python, on the command line and in the report."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import bitrift
import numpy as np
import pytest
from bitrift.program import program
from report_page import page_of
from synthetic import GOLDEN, Row, clean_rows, result, row, study_rows, write_campaign

PARTS = ("revoke", "agree", "shrink", "respawn", "state", "redo")
POPULATIONS = {"update": 48, "forward": 16}
LOST: Row = {"failure": {"reason": "signal", "detail": "Killed", "signal": 9}}


def fault(rank: int, phase: str) -> Row:
    return {"process": {"rank": rank, "step": 5, "phase": phase, "point": 0, "how": "kill"}}


def recovered(ending: Row, rank: int, **times: float) -> Row:
    """The result of a run that continued; parts that are not named took 1 ms."""
    recovery = {"kind": "spare", "state": "replica", "failed": [rank], "ranks_before": 4, "ranks_after": 4, "step": 4}
    recovery |= {"steps_lost": rank, "steps_redone": 2 * rank, "bytes_moved": 1000 * rank}
    return {"result": ending | {"recoveries": [recovery]}, "times": dict.fromkeys(PARTS, 0.001) | times}


def process_row(kind: str, stratum: str, draw: int, rank: int, ending: Row, **fields: Any) -> Row:
    ending = dict(ending)
    times = ending.pop("times", None)
    phase = stratum.split(".")[-1] if kind == "trial" else "update"
    one = row(kind, "spare", stratum, draw, **ending) | fields | {"faults": [fault(rank, phase)]}
    if times is not None:
        one["volatile"]["recoveries"] = [times]
    return one


def process_rows() -> list[Row]:
    """In update 2 bitwise, 1 within noise, 1 degraded, 1 lost; in forward all 3 bitwise."""
    golden, other = result(GOLDEN, "golden"), result(GOLDEN, "other")
    worse = result(GOLDEN | {"test_accuracy": 0.1}, "worse")
    rows = [
        *clean_rows("spare"),
        process_row("canary", "canary:unreached", 0, 1, {"result": golden}, landed=False),
        process_row("canary", "canary:recovers", 0, 1, recovered(golden, 1)),
        process_row("canary", "canary:no-recovery", 0, 1, LOST),
    ]
    update = [
        (0, recovered(golden, 0, detect=0.25)),
        (1, recovered(golden, 1, detect=0.01)),
        (2, recovered(other, 2, detect=0.02)),
        (3, recovered(worse, 3)),
        (1, LOST),
    ]
    forward = [(rank, recovered(golden, rank, detect=0.1)) for rank in (1, 2, 3)]
    for phase, trials in (("update", update), ("forward", forward)):
        rows += [
            process_row("trial", f"process.{phase}", draw, rank, ending, stratum_bits=POPULATIONS[phase])
            for draw, (rank, ending) in enumerate(trials)
        ]
    return rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_campaign(tmp_path / "process", process_rows(), ["spare"])
    path = tmp_path / "process" / "campaign.json"
    stored = json.loads(path.read_text())
    points = {"steps_per_epoch": 1, "stages": [{"update": 4, "forward": 1}]}
    stored["spec"] |= {
        "arms": [{"name": "spare", "parallel": {"kind": "data", "ranks": 4}, "recovery": "spare"}],
        "strata": {"process": {"phases": ["update", "forward"], "together": 1, "how": "kill", "points": points}},
        "trials_per_stratum": 5,
    }
    path.write_text(json.dumps(stored))
    return tmp_path / "process"


def analyze(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [program(), "analyze", str(folder), "--view", "process", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_outcomes_of_recoveries_are_weighted_by_the_sizes_of_phases(folder: Path) -> None:
    table = bitrift.Campaign(folder).process()
    assert list(table["phase"].unique()) == ["update", "forward", "all"]
    update = table[table["phase"] == "update"].set_index("outcome")
    assert list(update["count"]) == [2, 1, 1, 1] and list(update["n"]) == [5] * 4
    assert update.loc["lost", "estimate"] == 0.2 and set(update["method"]) == {"anytime"}
    total = table[table["phase"] == "all"].set_index("outcome")
    assert list(total["count"]) == [5, 1, 1, 1]
    assert total.loc["recovered_bitwise", "estimate"] == pytest.approx((48 * 2 / 5 + 16) / 64)
    assert total.loc["lost", "low"] < total.loc["lost", "estimate"] < total.loc["lost", "high"]
    chosen = bitrift.Campaign(folder).process({"field": "forward"}, interval="clopper_pearson")
    # SciPy: beta.ppf(0.025, 3, 1) = 0.2924018
    assert chosen.loc[0, "low"] == pytest.approx(0.2924018, abs=1e-6) and chosen.loc[0, "high"] == 1
    assert list(chosen["phase"].unique()) == ["forward", "all"]


def test_times_are_quantiles_over_the_trials_that_recovered(folder: Path) -> None:
    table = bitrift.Campaign(folder).recovery_times()
    assert list(zip(table["phase"], table["victim"], table["trials"], strict=True)) == [
        ("update", "rank 0", 1),
        ("update", "another rank", 3),
        ("forward", "another rank", 3),
    ]
    assert table["stage"].isna().all()
    other = table.iloc[1]
    # Ranks 1 and 2 know when they failed, rank 3 does not.
    assert (other["detect_n"], other["redo_n"], other["total_n"]) == (2, 3, 2)
    assert other["detect_median_ms"] == pytest.approx(np.quantile([10, 20], 0.5))
    assert other["detect_p95_ms"] == pytest.approx(np.quantile([10, 20], 0.95))
    assert other["total_p95_ms"] == pytest.approx(np.quantile([16, 26], 0.95))
    assert (other["steps_lost_median"], other["steps_redone_max"], other["bytes_moved_median"]) == (2, 6, 2000)


def test_times_are_those_of_single_trials(folder: Path) -> None:
    campaign = bitrift.Campaign(folder)
    trials = campaign.trials()
    chosen = trials[(trials["phase"] == "update") & trials["recovered"] & (trials["victims"] != (0,))]
    line = campaign.recovery_times().iloc[1]
    assert line["total_median_ms"] == pytest.approx(1000 * np.nanquantile(chosen["recovery_s"], 0.5))
    assert line["bytes_moved_median"] == np.quantile(chosen["bytes_moved"].astype(float), 0.5)


def test_the_program_says_the_same(folder: Path) -> None:
    done = analyze(folder, "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["schema"] == "bitrift/process/1" and "bitrift" in shown["provenance"]
    table = bitrift.Campaign(folder).process()
    assert {name: one["estimate"] for name, one in shown["lines"][0]["rates"].items()} == {
        "recovered_bitwise": 0.4,
        "recovered_within_noise": 0.2,
        "recovered_degraded": 0.2,
        "lost": 0.2,
    }
    for line in shown["lines"]:
        for outcome, one in line["rates"].items():
            (same,) = table[(table["phase"] == line["phase"]) & (table["outcome"] == outcome)].itertuples()
            assert [one["estimate"], *one["interval"]] == [same.estimate, same.low, same.high]
    assert not (folder / "summary.json").exists()
    text = analyze(folder).stdout
    assert "spare  update   5  2 40.0 [" in text and "spare  all      8  5 " in text
    assert "Lost in spare: signal 1" in text and "another rank  3  15/19.5" in text


def test_the_default_view_shows_phases_as_fields(folder: Path) -> None:
    done = subprocess.run([program(), "analyze", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "update" in done.stdout and "forward" in done.stdout
    assert json.loads((folder / "summary.json").read_text())["trials"] == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--by", "field"], "--by: --view process does not use it"),
        (["--where", "field=sleep"], "sleep"),
        (["--where", "layer=conv1"], "no tensor is altered"),
        (["--sort", "crash"], "--sort: --view process does not use it"),
    ],
)
def test_what_the_view_cannot_do_is_refused_in_one_line(folder: Path, options: list[str], message: str) -> None:
    done = analyze(folder, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_campaign_without_process_faults_has_no_such_view(tmp_path: Path) -> None:
    write_campaign(tmp_path / "study", study_rows(), ["serial", "data2"])
    done = analyze(tmp_path / "study")
    assert (done.returncode, done.stdout) == (2, "")
    assert "this campaign has no process faults; name the phases" in done.stderr
    for table in (bitrift.Campaign.process, bitrift.Campaign.recovery_times):
        with pytest.raises(bitrift.Error, match="no process faults"):
            table(bitrift.Campaign(tmp_path / "study"))
    assert "How long recoveries took" not in page_of(tmp_path / "study").text


def test_the_report_has_a_section_of_recoveries(folder: Path) -> None:
    page = page_of(folder)
    assert any(section.get("id") == "recovery" for section in page.all("section"))
    assert "What became of runs in which ranks failed" in page.text
    low, high = bitrift.Campaign(folder).process().loc[0, ["low", "high"]]
    assert f"spare update 5 40.0 [{100 * low:.2f}, {100 * high:.1f}]" in page.text
    assert "spare update another rank 3 15 / 19.5 1 / 1" in page.text
    assert "In 1 trial it is not known when the failure began" in page.text
    (folder / "trials.jsonl").write_bytes(b"")
    assert not [section for section in page_of(folder).all("section") if section.get("id") == "recovery"]
