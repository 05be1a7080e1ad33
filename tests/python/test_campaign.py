"""A campaign's folder, analysed by the package and by `bitrift analyze`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import bitrift
import pytest
from synthetic import Row, journal_line, study_rows, write_campaign

BITRIFT = Path(os.environ.get("BITRIFT_BIN_DIR", "build/release/bin")) / "bitrift"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_campaign(tmp_path / "study", study_rows(), ["serial", "data2"])
    return tmp_path / "study"


def rewrite(folder: Path, rows: list[Row]) -> None:
    (folder / "trials.jsonl").write_bytes(b"".join(journal_line(row) for row in rows))


def analyze(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BITRIFT, "analyze", str(folder), *options], capture_output=True, text=True, check=False)


def group_of(summary: dict[str, Any], **key: str) -> dict[str, Any]:
    (group,) = [group for group in summary["groups"] if group["key"] == key]
    assert isinstance(group, dict)
    return group


def refused(code: str, call: Any, *arguments: Any) -> str:
    with pytest.raises(bitrift.Error) as raised:
        call(*arguments)
    assert raised.value.code == code, str(raised.value)
    return str(raised.value)


def test_rates_are_weighted_by_bits(folder: Path) -> None:
    group = group_of(bitrift.summary(folder), arm="serial", field="sign")
    assert (group["trials"], group["bits"]) == (20, 1100)
    assert group["counts"] == {"masked": 15, "SDC": 4, "crash": 1}
    assert group["reasons"] == {"bitwise": 15, "low_test_accuracy": 4, "signal": 1}
    rate = group["rates"]["SDC"]
    assert rate["estimate"] == pytest.approx(0.4 * 1000 / 1100, abs=1e-15)
    # Ten draws of each: the bets say little, and a tenth of the error probability is each stratum's own interval's.
    weight = bitrift.anytime(4, 10, 1 - 0.005 / 2, population=1000)
    bias = bitrift.anytime(0, 10, 1 - 0.005 / 2, population=100)
    low, high = ((1000 * weight[end] + 100 * bias[end]) / 1100 for end in (0, 1))
    assert low - 1e-12 <= rate["anytime"][0] < rate["estimate"] < rate["anytime"][1] <= high + 1e-12
    assert rate["anytime"][1] - rate["anytime"][0] < high - low


def test_one_stratum_is_plain(folder: Path) -> None:
    group = group_of(bitrift.summary(folder, by=["stratum"]), arm="data2", stratum="weight.sign")
    assert group["rates"]["crash"]["estimate"] == 0.2
    assert group["rates"]["crash"]["wilson"] == list(bitrift.wilson(2, 10))
    assert group["rates"]["crash"]["anytime"] == list(bitrift.anytime(2, 10, population=1000))


def test_outcomes_are_paired_by_stratum_and_draw(folder: Path) -> None:
    outcomes = bitrift.outcomes(folder)
    assert len(outcomes) == 80
    by_fault: dict[tuple[str, int], dict[str, str]] = {}
    for outcome in outcomes:
        by_fault.setdefault((outcome.stratum, outcome.draw), {})[outcome.arm] = outcome.outcome
    assert all(set(pair) == {"serial", "data2"} for pair in by_fault.values())
    assert by_fault["weight.sign", 4] == {"serial": "masked", "data2": "SDC"}
    crash = next(outcome for outcome in outcomes if outcome.outcome == "crash")
    assert (crash.reason, crash.bitwise_equal, crash.steps_to_recover) == ("signal", False, None)


def test_the_journal_is_read_as_written(folder: Path) -> None:
    rows = bitrift.read_journal(folder)
    assert [row["id"] for row in rows] == [row["id"] for row in study_rows()]
    assert rows[0]["result"]["replicas"][0][0]["test_accuracy"] == 0.95


def test_a_torn_last_line_is_left_out_and_damage_is_not(folder: Path) -> None:
    journal = folder / "trials.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-10])
    assert len(bitrift.read_journal(folder)) == len(study_rows()) - 1
    lines = whole.splitlines(keepends=True)
    lines[4] = lines[4].replace(b"0.2", b"0.3", 1)
    journal.write_bytes(b"".join(lines))
    assert "trials.jsonl:5" in refused("bad_file", bitrift.summary, folder)


def test_the_program_prints_and_writes_the_same(folder: Path) -> None:
    done = analyze(folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == bitrift.table(folder)
    header = ["arm", "field", "n", "masked", "%", "SDC", "%", "crash", "%", "harmful", "%"]
    assert done.stdout.splitlines()[0].split() == header
    written = json.loads((folder / "summary.json").read_text())
    assert "analyze" in " ".join(written.pop("provenance")["command"])
    assert written == bitrift.summary(folder)
    printed = json.loads(analyze(folder, "--by", "role", "--json").stdout)
    printed.pop("provenance")
    assert printed == bitrift.summary(folder, by=["role"])
    assert sorted(path.name for path in folder.iterdir()) == ["campaign.json", "summary.json", "trials.jsonl"]


def test_the_interval_that_is_asked_for_is_printed(folder: Path) -> None:
    by_kind = {
        "anytime": bitrift.anytime(2, 10, population=1000),
        "wilson": bitrift.wilson(2, 10),
        "clopper_pearson": bitrift.clopper_pearson(2, 10),
    }
    for kind, expected in by_kind.items():
        summary = json.loads(analyze(folder, "--by", "stratum", "--interval", kind, "--json").stdout)
        rate = group_of(summary, arm="data2", stratum="weight.sign")["rates"]["crash"]
        assert (rate["interval"], rate["kind"], rate["confidence"]) == (list(expected), kind, 0.95)
        low, high = (f"{100 * end:.1f}" for end in expected)
        assert f"[{low:>4},{high:>5}]" in analyze(folder, "--by", "stratum", "--interval", kind).stdout
    assert analyze(folder, "--interval", "wald").returncode == 2


def test_all_intervals_together_and_losses_of_accuracy(folder: Path) -> None:
    plain = group_of(bitrift.summary(folder, by=["stratum"]), arm="data2", stratum="weight.sign")
    done = analyze(folder, "--by", "stratum", "--simultaneous", "--effects", "--json")
    summary = json.loads(done.stdout)
    group = group_of(summary, arm="data2", stratum="weight.sign")
    assert summary["simultaneous"] is True
    each = 1 - 0.05 / (10 * len(summary["groups"]))
    assert group["rates"]["crash"]["confidence"] == pytest.approx(each, abs=1e-12)
    assert group["rates"]["crash"]["interval"] == list(bitrift.anytime(2, 10, each, population=1000))
    assert [one["points"] for one in group["effects"]["beyond"]] == [0.1, 0.5, 1, 2, 5, 10]
    assert group["effects"]["crash"] == plain["rates"]["crash"]["estimate"]
    assert "effects" not in plain
    assert "points of test accuracy" in analyze(folder, "--effects").stdout


def test_misbehaving_canaries_end_with_one_and_no_rate(folder: Path) -> None:
    rows = study_rows()
    golden = next(row for row in rows if row["id"]["stratum"] == "control")
    for row in rows:
        if row["id"] == {"arm": "serial", "stratum": "canary:nan", "draw": 0}:
            row["result"] = golden["result"]
    rewrite(folder, rows)
    done = analyze(folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "'serial': canary:nan: must be crash, is masked (bitwise)" in done.stderr
    assert not (folder / "summary.json").exists()
    assert "canary:nan" in refused("conflict", bitrift.summary, folder)
    refused("conflict", bitrift.outcomes, folder)


def test_controls_that_differ_end_with_two(folder: Path) -> None:
    rows = study_rows()
    rows[1]["result"]["final_digest"] = "g0lden"
    rewrite(folder, rows)
    done = analyze(folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "arm 'data2'" in done.stderr and "final_digest" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_wrong_call_ends_with_two_and_one_line(folder: Path, tmp_path: Path) -> None:
    for options, text in (
        ((str(tmp_path / "nowhere"),), "nowhere"),
        ((str(folder), "--by", "colour"), "colour"),
        ((str(folder), "--by", "layer"), "layer"),
    ):
        done = subprocess.run([BITRIFT, "analyze", *options], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        assert len(errors) == 1 and text in errors[0]
    refused("not_found", bitrift.summary, tmp_path / "nowhere")
    refused("bad_input", bitrift.summary, folder, ["colour"])
