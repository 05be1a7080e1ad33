"""How rows are judged: other horizons and metrics, clean runs that speak against the level, old campaigns."""

from __future__ import annotations

import copy
import json
import os
import subprocess
from pathlib import Path

import bitrift
import pytest
from synthetic import GOLDEN, Row, clean_rows, result, row, study_rows, trial_rows, write_campaign

BITRIFT = Path(os.environ.get("BITRIFT_BIN_DIR", "build/release/bin")) / "bitrift"
STRATA = ("weight.sign", "weight.exponent", "bias.sign", "bias.exponent")


def analyze(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BITRIFT, "analyze", str(folder), *options], capture_output=True, text=True, check=False)


def campaign(place: Path, more: list[Row]) -> Path:
    rows = clean_rows("serial") + more
    for stratum in STRATA:
        if not any(one["id"]["stratum"] == stratum for one in more):
            rows += trial_rows("serial", stratum, 1000, 2, 0, 0)
    write_campaign(place, rows, ["serial"])
    return place


def judged(kind: str, draw: int, **changes: float) -> Row:
    return row(kind, "serial", kind, draw, result=result(GOLDEN | changes, f"{kind}{draw}"))


def test_clean_runs_are_counted_beside_the_rates(tmp_path: Path) -> None:
    clean = [judged("held_out", i) for i in range(9)] + [judged("held_out", 9, test_accuracy=0.5)]
    folder = campaign(tmp_path, clean + [judged("jitter", i) for i in range(10)])
    arm = bitrift.summary(folder)["arms"]["serial"]
    assert arm["false_sdc"]["held_out"] == {"runs": 10, "called": 1}
    assert arm["false_sdc"]["jitter"] == {"runs": 10, "called": 0}
    assert arm["false_sdc"]["jitter_distance"] == 0
    # Clopper-Pearson, one-sided 95 %: scipy.stats.beta.ppf(0.95, 2, 9).
    assert arm["false_sdc"]["at_most"] == pytest.approx(0.3941633, abs=1e-6)
    done = analyze(folder)
    assert done.returncode == 0, done.stderr
    assert "clean runs called SDC: 1 of 10, at most 39.4 %" in done.stdout
    assert "harmless faults called SDC: 0 of 10; they end within 0 units of their golden run" in done.stdout


def test_clean_runs_that_contradict_the_level_end_with_one(tmp_path: Path) -> None:
    folder = campaign(tmp_path, [judged("jitter", i, test_accuracy=0.5) for i in range(20)])
    done = analyze(folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "20 of 20 golden runs with flips of lowest mantissa bits are called SDC or crash" in done.stderr
    assert "raise controls.orders" in done.stderr
    assert not (folder / "summary.json").exists()
    with pytest.raises(bitrift.Error) as raised:
        bitrift.outcomes(folder)
    assert raised.value.code == "conflict"


def two_epochs(rows: list[Row]) -> list[Row]:
    rows = copy.deepcopy(rows)
    for one in rows:
        for replica in one.get("result", {}).get("replicas", []):
            if replica and replica[0]["step"]:
                replica.append(replica[0] | {"epoch": 7, "step": 40})
    return rows


def test_the_same_trials_at_other_horizons(tmp_path: Path) -> None:
    rows = two_epochs(clean_rows("serial") + trial_rows("serial", "weight.sign", 1000, 6, 0, 0))
    late, healed, dies = rows[-3:]
    late["result"] |= {"final_digest": "a", "replica_digests": ["a"]}
    late["result"]["replicas"][0][1]["test_accuracy"] = 0.1
    healed["result"] |= {"final_digest": "b", "replica_digests": ["b"]}
    healed["result"]["replicas"][0][0]["test_accuracy"] = 0.1
    dies["result"] |= {"status": "nonfinite", "final_digest": "c", "replica_digests": ["c"]}
    dies["result"]["replicas"][0].pop()
    write_campaign(tmp_path, rows, ["serial"])
    done = analyze(tmp_path, "--view", "horizons", "--json")
    assert done.returncode == 0, done.stderr
    first, last = json.loads(done.stdout)["horizons"]
    assert (first["step"], first["counts"], first["moving"]) == (20, {"masked": 5, "SDC": 1, "crash": 0}, 3)
    assert (last["step"], last["counts"], last["moving"]) == (40, {"masked": 4, "SDC": 1, "crash": 1}, 0)
    assert "moving" in analyze(tmp_path, "--view", "horizons").stdout
    early = [one.reason for one in bitrift.outcomes(tmp_path, horizon=1)]
    assert early == ["within_noise"] * 4 + ["low_test_accuracy", "within_noise"]
    whole = [one.reason for one in bitrift.outcomes(tmp_path)]
    assert whole == ["bitwise"] * 3 + ["low_test_accuracy", "reconverged", "nonfinite"]
    assert "Judged at evaluation 1 of 2 (20 steps after the resume)" in analyze(tmp_path, "--horizon", "1").stdout
    beyond = analyze(tmp_path, "--horizon", "3")
    assert beyond.returncode == 2 and "evaluations 1 to 2" in beyond.stderr


def test_metrics_choose_what_counts(tmp_path: Path) -> None:
    carried = row("trial", "serial", "weight.sign", 0, result=result(GOLDEN | {"test_loss": 2e33}, "x"))
    folder = campaign(tmp_path, [carried | {"stratum_bits": 1000}])
    assert {one.outcome for one in bitrift.outcomes(folder)} == {"masked"}
    with_mean = bitrift.outcomes(folder, metrics=["test_accuracy", "test_loss"])
    assert [one.reason for one in with_mean if one.outcome == "SDC"] == ["high_test_loss"]
    view = json.loads(analyze(folder, "--view", "metrics", "--by", "strategy", "--json").stdout)
    assert view["lines"][0]["outside"]["test_loss"] == 1
    assert view["lines"][0]["outside"]["test_capped_loss"] == 0
    assert "by test_loss.\n" in analyze(folder, "--metrics", "test_loss").stdout
    assert analyze(folder, "--metrics", "train_loss,train_accuracy").returncode == 0  # canaries at load have neither
    unknown = analyze(folder, "--metrics", "accuracy")
    assert unknown.returncode == 2 and "'accuracy' is not a metric" in unknown.stderr


def test_campaigns_of_earlier_versions_are_judged_anew(tmp_path: Path) -> None:
    rows = study_rows()
    for one in rows:
        one.get("result", {}).pop("test_targets", None)
        for replica in one.get("result", {}).get("replicas", []):
            for evaluation in replica:
                evaluation.pop("test_capped_loss", None)
    write_campaign(tmp_path, rows, ["serial", "data2"])
    identity = json.loads((tmp_path / "campaign.json").read_text())
    identity["spec"]["controls"] = {"repeats": 2, "every": 100, "envelope": 20}
    identity["spec"]["analysis"] = {"confidence": 0.95, "judge": "worst"}
    (tmp_path / "campaign.json").write_text(json.dumps(identity))
    done = analyze(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "by test_accuracy.\n" in done.stdout and "20 envelope runs" in done.stdout
    assert "no held-out run, so the false-SDC rate was not measured" in done.stdout
    assert "no jitter run, so it is not known whether harmless faults stay near the golden run" in done.stdout
    assert bitrift.summary(tmp_path)["judging"]["metrics"] == ["test_accuracy"]
