"""Campaigns that are not as expected: every command that reads one gives a clear table or one clear line."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import bitrift
import pytest
from bitrift.program import program
from synthetic import Row, clean_rows, study_rows, trial_rows, write_campaign


def loss_only(rows: list[Row]) -> list[Row]:
    """The rows of a training that has no accuracy; a low accuracy becomes a high loss."""
    for row in rows:
        for evaluation in (one for replica in row.get("result", {}).get("replicas", []) for one in replica):
            if evaluation.pop("test_accuracy", 1) < 0.5:
                evaluation["test_loss"] = 9.0
            evaluation.pop("test_capped_loss", None)
        row.get("result", {}).pop("test_targets", None)
    return rows


ODD: dict[str, tuple[list[Row], list[str]]] = {
    "later": ([row | {"novelty": {"deep": [1, None]}} for row in study_rows()], ["serial", "data2"]),
    "empty": ([], ["serial", "data2"]),
    "loss-only": (loss_only(study_rows()), ["serial", "data2"]),
    "controls": (clean_rows("serial"), ["serial"]),
    "crashes": (clean_rows("serial") + trial_rows("serial", "weight.sign", 1000, 0, 0, 10), ["serial"]),
    "one-stratum": (clean_rows("serial") + trial_rows("serial", "weight.sign", 1000, 8, 1, 1), ["serial"]),
}
TABLES = ("analyze", "analyze --effects", "analyze --view metrics", "analyze --view jpdc2024", "campaign show")


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    rows, arms = ODD[request.param]
    write_campaign(tmp_path / request.param, rows, arms)
    return tmp_path / request.param


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = command.split()
    place = 2 if words[0] == "campaign" else 1
    words.insert(place, str(folder))
    return subprocess.run([program(), *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", TABLES)
@pytest.mark.parametrize("folder", ["later", "controls", "crashes", "one-stratum"], indirect=True)
def test_a_table_is_printed(command: str, folder: Path) -> None:
    done = run(command, folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert not re.search(r"\bnan\b", done.stdout)  # a number that is none; "NaN" is a reason
    assert done.stdout.strip()


@pytest.mark.parametrize("folder", ["later"], indirect=True)
def test_fields_of_a_later_version_change_no_rate(folder: Path, tmp_path: Path) -> None:
    write_campaign(tmp_path / "plain", study_rows(), ["serial", "data2"])
    assert run("analyze", folder).stdout.split("\n") == run("analyze", tmp_path / "plain").stdout.split("\n")
    assert run("compare", folder).stdout == run("compare", tmp_path / "plain").stdout


@pytest.mark.parametrize("command", ["analyze", "analyze --view metrics", "compare"])
@pytest.mark.parametrize("folder", ["empty"], indirect=True)
def test_a_campaign_without_rows_is_refused_in_one_line(command: str, folder: Path) -> None:
    done = run(command, folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "bitrift: error: arm 'serial' has no controls: let `bitrift campaign run` finish them\n"


@pytest.mark.parametrize("folder", ["crashes"], indirect=True)
def test_only_crashes_are_a_crash_rate_of_one(folder: Path) -> None:
    rates = bitrift.Campaign(folder).rates(by=["stratum"]).set_index("outcome")
    assert rates.loc["crash", "estimate"] == 1 and rates.loc["masked", "estimate"] == 0
    assert 0.5 < rates.loc["crash", "low"] < rates.loc["crash", "high"] == 1
    assert bitrift.Campaign(folder).worst("SDC").empty
    effects = bitrift.Campaign(folder).effects()
    assert (effects["share"] == 0).all()


@pytest.mark.parametrize("folder", ["controls", "one-stratum"], indirect=True)
def test_a_single_arm_cannot_be_compared(folder: Path) -> None:
    done = run("compare", folder)
    assert done.returncode == 2 and "needs two arms" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("folder", ["loss-only"], indirect=True)
def test_a_training_without_accuracy_is_judged_by_its_loss(folder: Path, tmp_path: Path) -> None:
    write_campaign(tmp_path / "plain", study_rows(), ["serial", "data2"])
    campaign = bitrift.Campaign(folder)
    assert campaign.rates("stratum").equals(bitrift.Campaign(tmp_path / "plain").rates("stratum"))
    assert "by test_loss" in run("analyze", folder).stdout
    assert set(campaign.trials().query("outcome == 'SDC'")["reason"]) == {"high_test_loss"}
    assert campaign.trials()["test_accuracy"].isna().all()
    assert len(campaign.worst("SDC", by="test_accuracy", n=3)) == 3
    for command in ("compare", "campaign show --sort test_accuracy --json"):
        done = run(command, folder)
        assert (done.returncode, done.stderr) == (0, "")
    done = run(f"report -o {tmp_path / 'page.html'}", folder)
    assert done.returncode == 0, done.stderr
    assert "rises of test loss below" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("command", ["analyze --effects", "analyze --view jpdc2024"])
@pytest.mark.parametrize("folder", ["loss-only"], indirect=True)
def test_losses_of_accuracy_need_an_accuracy(command: str, folder: Path) -> None:
    done = run(command, folder)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "reports no test accuracy, so there are no " in done.stderr
