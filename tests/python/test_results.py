"""`bitrift.Campaign`: trials, rates and comparisons as DataFrames, against rows made by hand."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import bitrift
import bitrift.report
import pytest
import synthetic
from bitrift.program import program
from synthetic import GOLDEN, Row, clean_rows, result, study_rows, write_campaign

FAULT = {
    "tensor": "model/fc.weight",
    "role": "weight",
    "element": 2**40 + 1,
    "dtype": "float64",
    "bits": [62, 63],
    "field": "mixed",
    "old": "0x3ff0000000000001",
    "new": "0xfff0000000000001",
}


def rows_with_details() -> list[Row]:
    rows = study_rows()
    for row in rows:
        if row["kind"] != "trial" or row["id"]["stratum"] != "weight.sign":
            continue
        row["faults"] = [FAULT]
        if "result" in row and row["result"]["final_digest"] == "other":
            evaluation = row["result"]["replicas"][0][0]
            evaluation["test_loss"] = 0.5 + row["id"]["draw"]
    return rows


@pytest.fixture
def campaign(tmp_path: Path) -> bitrift.Campaign:
    write_campaign(tmp_path / "study", rows_with_details(), ["serial", "data2"])
    return bitrift.Campaign(tmp_path / "study")


def test_trials_have_fault_outcome_and_metrics(campaign: bitrift.Campaign) -> None:
    trials = campaign.trials()
    assert len(trials) == 80
    assert trials["arm"].value_counts().to_dict() == {"serial": 40, "data2": 40}
    serial = trials[(trials["arm"] == "serial") & (trials["stratum"] == "weight.sign")].set_index("draw")
    assert list(serial["outcome"]) == ["masked"] * 5 + ["SDC"] * 4 + ["crash"]
    assert serial.loc[5, "test_accuracy"] == 0.1
    assert serial.loc[5, "golden_test_accuracy"] == GOLDEN["test_accuracy"]
    assert serial.loc[5, "bits"] == (62, 63)
    assert serial.loc[5, "old"] == 0x3FF0000000000001 and serial.loc[5, "new"] == 0xFFF0000000000001
    assert serial.loc[5, "element"] == 2**40 + 1
    assert serial.loc[9, "signal"] == 11
    assert math.isnan(float(serial.loc[9, "test_loss"])) and math.isnan(float(serial.loc[9, "p_value"]))
    assert trials["element"].isna().sum() == 60  # rows without a fault


def process_campaign(folder: Path) -> bitrift.Campaign:
    """Rank 1 fails in two trials: one recovers, the other does not."""
    unreached = synthetic.row("canary", "spare", "canary:unreached", 0, result=result(GOLDEN, "golden"))
    recovery = {"kind": "spare", "state": "replica", "failed": [1], "ranks_before": 2, "ranks_after": 2, "step": 4}
    recovery |= {"steps_lost": 1, "steps_redone": 2, "bytes_moved": 30}
    parts = ("revoke", "agree", "shrink", "respawn", "state", "redo")
    times = {"detect": 0.5, **dict.fromkeys(parts, 0.25)}
    recovered = {"result": result(GOLDEN, "golden") | {"recoveries": [recovery]}}
    lost = {"failure": {"reason": "signal", "detail": "Killed", "signal": 9}}
    alone = synthetic.row("canary", "spare", "canary:no-recovery", 0, **lost)
    rows = [unreached | {"landed": False}, synthetic.row("canary", "spare", "canary:recovers", 0, **recovered), alone]
    rows += [
        synthetic.row("trial", "spare", "process.update", draw, **end) for draw, end in enumerate((recovered, lost))
    ]
    for one in rows:
        fault = {"rank": 1, "step": 5, "phase": "update", "point": 2, "how": "kill"}
        one |= {"faults": [{"process": fault}], "stratum_bits": 8}
        if "result" in one and "recoveries" in one["result"]:
            one["volatile"]["recoveries"] = [times]
    write_campaign(folder, clean_rows("spare") + rows, ["spare"])
    stored = json.loads((folder / "campaign.json").read_text())
    stored["spec"] |= {
        "arms": [{"name": "spare", "parallel": {"kind": "data", "ranks": 2}, "recovery": "spare"}],
        "strata": {"process": {"phases": ["update"], "points": {"steps_per_epoch": 1, "stages": [{"update": 4}]}}},
        "trials_per_stratum": 2,
    }
    (folder / "campaign.json").write_text(json.dumps(stored))
    return bitrift.Campaign(folder)


def test_trials_say_which_ranks_failed_and_what_the_recovery_took(tmp_path: Path) -> None:
    campaign = process_campaign(tmp_path / "process")
    pytest.importorskip("pandas")
    trials = campaign.trials()
    assert list(trials.reason) == ["bitwise", "signal"] and list(trials.recovered) == [True, False]
    assert list(trials.victims) == [(1,), (1,)] and list(trials.phase) == ["update", "update"]
    assert list(trials.step) == [5, 5] and list(trials.point) == [2, 2] and list(trials.faults) == [1, 1]
    first, second = trials.iloc[0], trials.iloc[1]
    assert (first.recovery, first.state, first.ranks_after, first.bytes_moved) == ("spare", "replica", 2, 30)
    assert (first.steps_lost, first.steps_redone, first.detect_s, first.recovery_s) == (1, 2, 0.5, 2.0)
    assert math.isnan(second.recovery_s) and trials.steps_lost.isna().tolist() == [False, True]
    assert [one.recovered for one in bitrift.outcomes(tmp_path / "process")] == [True, False]
    (fault,) = bitrift.read_journal(tmp_path / "process")[-1]["faults"]
    assert fault["process"]["rank"] == 1
    assert "victims" not in bitrift.Campaign(study(tmp_path)).trials()


def study(place: Path) -> Path:
    write_campaign(place / "bits", study_rows(), ["serial", "data2"])
    return place / "bits"


def test_trials_agree_with_outcomes_and_other_rules(campaign: bitrift.Campaign) -> None:
    expected = {(one.arm, one.stratum, one.draw): one.outcome for one in bitrift.outcomes(campaign.folder, horizon=1)}
    trials = campaign.trials(horizon=1)
    found = dict(
        zip(zip(trials["arm"], trials["stratum"], trials["draw"], strict=True), trials["outcome"], strict=True)
    )
    assert found == expected
    assert len(campaign.trials(["canary"])) == 6


def test_worst_puts_the_largest_harm_first(campaign: bitrift.Campaign) -> None:
    worst = campaign.worst("SDC", by="test_loss", n=3)
    assert [float(loss) for loss in worst["test_loss"]] == [8.5, 7.5, 7.5]
    assert set(campaign.worst("SDC")["outcome"]) == {"SDC"}
    assert len(campaign.worst("crash", by="test_accuracy", n=3)) == 3
    assert campaign.worst("sdc").equals(campaign.worst("SDC"))
    with pytest.raises(bitrift.BadInput, match="by='colour': give one of p_value, test_accuracy") as refused:
        campaign.worst("SDC", by="colour")
    assert refused.value.key == "by"
    with pytest.raises(bitrift.BadInput, match="outcome 'SDCs': give one of masked, SDC, crash") as refused:
        campaign.worst("SDCs")
    assert refused.value.key == "outcome"


def test_one_name_may_be_a_string(campaign: bitrift.Campaign) -> None:
    assert campaign.rates("role").equals(campaign.rates(["role"]))
    assert bitrift.summary(campaign.folder, "role") == bitrift.summary(campaign.folder, ["role"])
    assert campaign.trials("canary").equals(campaign.trials(["canary"]))
    assert bitrift.outcomes(campaign.folder, "canary") == bitrift.outcomes(campaign.folder, ["canary"])
    assert bitrift.table(campaign.folder, metrics="test_loss") == bitrift.table(campaign.folder, metrics=["test_loss"])
    assert campaign.compare(outcomes="sdc").equals(campaign.compare(outcomes=["SDC"]))


def test_rates_are_those_of_the_summary(campaign: bitrift.Campaign) -> None:
    rates = campaign.rates(by=["role"])
    summary = bitrift.summary(campaign.folder, by=["role"])
    assert len(rates) == 3 * len(summary["groups"])
    group = next(one for one in summary["groups"] if one["key"] == {"arm": "serial", "role": "weight"})
    line = rates[(rates["arm"] == "serial") & (rates["role"] == "weight") & (rates["outcome"] == "SDC")].iloc[0]
    assert (line["estimate"], line["low"], line["high"]) == (
        group["rates"]["SDC"]["estimate"],
        *group["rates"]["SDC"]["anytime"],
    )
    assert (line["count"], line["n"]) == (7, 20)


def test_compare_is_what_the_program_prints(campaign: bitrift.Campaign) -> None:
    table = campaign.compare("serial", "data2")
    assert list(table["outcome"]) == ["SDC", "crash"]
    crash = table.iloc[1]
    # In weight.sign draw 4 is masked under serial and an SDC under data2, draw 8 an SDC and a crash.
    assert (crash["pairs"], crash["first_only"], crash["second_only"], crash["both"]) == (40, 0, 1, 7)
    assert crash["difference"] == pytest.approx(0.1 * 1000 / 9900)
    command = [program(), "compare", str(campaign.folder), "--arm", "serial", "--arm", "data2", "--json"]
    pairs = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["pairs"]
    assert [pair["interval"] for pair in pairs] == [
        [low, high] for low, high in zip(table["low"], table["high"], strict=True)
    ]
    assert list(table.columns[:4]) == ["first", "second", "outcome", "answer"]
    with pytest.raises(bitrift.Error, match="no arm 'pipeline'"):
        campaign.compare("serial", "pipeline")


def test_detectors_are_those_of_the_program(tmp_path: Path) -> None:
    rows = rows_with_details()
    for row in rows:
        if row["id"]["arm"] == "data2" and row["kind"] == "trial" and row["id"]["draw"] == 6 and "result" in row:
            alarm = {"guard": "loss_spike", "step": 21, "rank": 0, "tensor": "", "value": 9.0, "limit": 3.0}
            row["result"] |= {"alarm_count": 1, "alarms": [alarm]}
    folder = tmp_path / "study"
    write_campaign(folder, rows, ["serial", "data2"])
    identity = json.loads((folder / "campaign.json").read_text())
    identity["spec"]["arms"][1]["guards"] = {"loss_spike": 3}
    (folder / "campaign.json").write_text(json.dumps(identity))
    table = bitrift.Campaign(folder).detectors()
    assert set(table["arm"]) == {"data2"} and set(table["beside"]) == {"serial"}
    # Draw 6 is an SDC of weight.sign, a crash of weight.exponent (without a result) and masked in the two of bias.
    sdc = table[(table["field"] == "all") & (table["outcome"] == "SDC")].iloc[0]
    assert (sdc["alarms"], sdc["runs"], sdc["share"]) == (1, 8, 0.125)
    masked = table[(table["field"] == "sign") & (table["outcome"] == "masked")].iloc[0]
    assert (masked["alarms"], masked["runs"]) == (1, 15)
    assert (sdc["clean_runs"], sdc["false_alarms"], sdc["cost"]) == (21, 0, 1.0)
    assert bitrift.Campaign(folder).guard_actions().empty  # a guard that records
    page, _ = bitrift.report.render(folder)
    section = page.partition('id="guards"')[2].partition("</section")[0]
    assert "alarms on SDCs %" in section and "recovered" not in section
    identity["spec"]["arms"][1]["guards"] = {"loss_spike": 3, "on_alarm": "rollback"}
    (folder / "campaign.json").write_text(json.dumps(identity))
    actions = bitrift.Campaign(folder).guard_actions().set_index("measure")
    assert set(actions["action"]) == {"rollback"} and actions.loc["recovered SDC", "runs"] == 8
    assert actions.loc["recovered SDC", "count"] == 0 and actions.loc["recovered SDC", "low"] == 0
    assert actions.loc["clean_acted", "runs"] == 21 and actions.loc["clean_acted", "count"] == 0
    assert actions.loc["recovered weight", "runs"] > 8  # SDCs and crashes
    command = [program(), "analyze", str(folder), "--view", "detectors"]
    shown = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout)
    assert shown["detectors"][0]["outcomes"]["SDC"]["interval"] == [sdc["low"], sdc["high"]]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "1/8 12.5" in printed and "recovered SDC or crash %" in printed
    by_role = bitrift.Campaign(folder).detectors().query("role == 'weight' and outcome == 'SDC'").iloc[0]
    assert (by_role["alarms"], by_role["runs"]) == (1, 7)
    text, _ = bitrift.report.render(folder)
    for said in ("alarms on SDCs %", "clean runs beyond the limits %", ">rollback<", "masked with them, by role"):
        assert said in text, said
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run([*command, "--horizon", "1"], check=True, capture_output=True)


def test_show_prints_trials_with_the_command_that_replays_them(campaign: bitrift.Campaign) -> None:
    command = [program(), "campaign", "show", str(campaign.folder), "--outcome", "SDC", "--sort", "test_loss"]
    done = subprocess.run([*command, "--top", "2"], check=True, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert lines[0].endswith("weight.sign/8: SDC, low_test_accuracy, p 0.0476")
    assert (
        lines[1]
        == "  faults   model/fc.weight[1099511627777] bit 62,63 0x3ff0000000000001 -> 0xfff0000000000001 (1 -> nan)"
    )
    assert "test_loss 8.5000 (golden 0.2000)" in lines[2]
    assert lines[3].startswith(f"  replay   bitrift campaign replay {campaign.folder} ")
    assert lines[-1] == "2 of 16 trials shown"
    listed = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout)
    assert [one["id"] for one in listed] == list(campaign.worst("SDC", by="test_loss", n=99)["id"])


def test_a_folder_without_a_campaign_is_refused(tmp_path: Path) -> None:
    with pytest.raises(bitrift.Error) as raised:
        bitrift.Campaign(tmp_path).trials()
    assert raised.value.code == "not_found"


def test_two_campaigns_are_compared_as_the_program_does(tmp_path: Path, campaign: bitrift.Campaign) -> None:
    write_campaign(tmp_path / "other", rows_with_details(), ["serial", "data2"])
    table = campaign.compare(other=tmp_path / "other")
    assert list(table["outcome"]) == ["SDC", "SDC", "crash", "crash"]
    assert (table["difference"] == 0).all() and (table["verdict"] != "differ").all()
    command = [program(), "compare", str(campaign.folder), str(tmp_path / "other"), "--json"]
    shown = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["pairs"]
    assert list(table["p"]) == [pair["p"] for pair in shown]
    assert list(table["answer"]) == [pair["answer"] for pair in shown]
    one = campaign.compare("serial", "data2", other=bitrift.Campaign(tmp_path / "other"), outcomes=["crash"])
    assert one[["first", "second", "outcome"]].values.tolist() == [["serial", "data2", "crash"]]


def test_what_the_program_refuses_is_raised_in_its_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spec.json").write_text('{"name": "x", "seeds": 1}')
    with pytest.raises(bitrift.BadInput, match=r"seeds.*did you mean 'seed'"):
        bitrift.Campaign.run(tmp_path / "spec.json", tmp_path / "out", progress=False)
    assert capsys.readouterr().err == ""
    with pytest.raises(bitrift.BadInput):
        bitrift.Campaign.run(tmp_path / "spec.json", tmp_path / "out")
    assert "did you mean" in capsys.readouterr().err
    with pytest.raises(bitrift.Error, match="nowhere"):
        bitrift.Campaign(tmp_path / "nowhere").replay("serial/weight.sign/0")
