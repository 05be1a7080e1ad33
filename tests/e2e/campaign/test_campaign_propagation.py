"""Campaigns that record how far faults reach: which trials do, equal rows however they end, and the table."""

from __future__ import annotations

import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

import pytest
from campaign_support import BIN, CONTROLS, SMALL_BASE, campaign, read_rows

LAST = 8  # steps of two epochs
SPEC: dict[str, Any] = {
    "name": "reach",
    "seed": 3,
    "base": SMALL_BASE,
    "resume": {"epochs": 2},
    "arms": [{"name": "serial", "parallel": {"kind": "serial"}}],
    "strata": {"roles": ["weight", "momentum"], "fields": ["exponent", "0-4"]},
    "trials_per_stratum": 90,
    "controls": CONTROLS,
    "propagation": {"steps": [4, 1], "every": 3, "optimizer": True},
}


def run(place: Path, name: str, **changes: object) -> Path:
    (place / f"{name}.json").write_text(json.dumps(SPEC | changes))
    done = campaign("run", place / f"{name}.json", "-o", place / name)
    assert done.returncode == 0, done.stderr
    return place / name


def refused(place: Path, **changes: object) -> str:
    (place / "refused.json").write_text(json.dumps(SPEC | changes))
    done = campaign("run", place / "refused.json", "-o", place / "refused")
    assert done.returncode == 2, done.stderr
    return done.stderr


def analyze(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "bitrift", "analyze", *map(str, arguments)], capture_output=True, text=True, timeout=60
    )


def trials(folder: Path) -> dict[str, dict]:
    rows = read_rows(folder, check_crc=True)
    found = {key: row for key, row in rows.items() if row["kind"] == "trial"}
    for row in found.values():
        row.get("result", {}).pop("returned_step", None)
    for row in rows.values():
        assert row["kind"] == "trial" or "propagation" not in row["result"]
    return found


@pytest.fixture(scope="module")
def reach(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("reach"), "early")


def test_every_third_draw_records_and_an_early_end_changes_nothing(reach: Path, tmp_path: Path) -> None:
    rows = trials(reach)
    assert rows == trials(run(tmp_path, "complete", worker={"early_end": False}))
    returned = [row for row in read_rows(reach).values() if "returned_step" in row.get("result", {})]
    back = [row for row in returned if "propagation" in row["result"]]
    assert back and any(row["result"]["returned_step"] < 4 for row in back)
    for row in back:
        for entry in row["result"]["propagation"]:
            assert entry["step"] < row["result"]["returned_step"] or entry["tensors"] == []
    for row in rows.values():
        result = row["result"]
        assert ("propagation" in result) == (row["id"]["draw"] % 3 == 0)
        if "propagation" in result:
            reached = [step for step in (1, 4, LAST) if step <= result["steps"]]
            assert [entry["step"] for entry in result["propagation"]] == reached


def test_trials_are_those_of_a_campaign_without_it(reach: Path, tmp_path: Path) -> None:
    spec = {key: value for key, value in SPEC.items() if key != "propagation"}
    (tmp_path / "plain.json").write_text(json.dumps(spec))
    assert campaign("run", tmp_path / "plain.json", "-o", tmp_path / "plain").returncode == 0
    recorded = trials(reach)
    for row in recorded.values():
        row["result"].pop("propagation", None)
    assert recorded == trials(tmp_path / "plain")
    done = analyze(tmp_path / "plain", "--view", "propagation")
    assert done.returncode == 2 and "records no propagation" in done.stderr


def test_a_replay_gives_the_same_numbers(reach: Path) -> None:
    done = campaign("replay", reach, "serial/weight.exponent/3")
    assert done.returncode == 0, done.stdout + done.stderr


def same_for_all_arms(row: dict) -> dict:
    result = {key: value for key, value in row["result"].items() if key != "id"}
    return {key: value for key, value in row.items() if key not in ("id", "crc", "seq")} | {"result": result}


def test_strategies_with_the_same_arithmetic_stray_alike(tmp_path: Path) -> None:
    parallel = {
        "serial": {"kind": "serial", "micro_batches": 2},
        "pipeline": {"kind": "pipeline", "ranks": 2, "micro_batches": 2},
        "data": {"kind": "data", "ranks": 2},
        "shards": {"kind": "data", "ranks": 2, "shard_optimizer": True},
    }
    arms = [{"name": name, "parallel": one} for name, one in parallel.items()]
    rows = trials(run(tmp_path, "arms", arms=arms, trials_per_stratum=10))
    compared = 0
    for key, row in rows.items():
        if key.startswith("serial/") and "propagation" in row["result"]:
            assert row["result"]["propagation"] == rows[key.replace("serial", "pipeline")]["result"]["propagation"]
            compared += 1
        if key.startswith("data/"):
            # All of the row: who holds the optimizer's state decides nothing.
            assert same_for_all_arms(rows[key.replace("data", "shards", 1)]) == same_for_all_arms(row)
            compared += 1
    assert compared == 16 + 40


def test_the_table_is_what_the_rows_say(reach: Path) -> None:
    done = analyze(reach, "--view", "propagation", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "bitrift/propagation/1" and document["provenance"]
    groups = {(group["stratum"], group["step"]): group for group in document["groups"]}
    strata = [f"{role}.{field}" for role in ("weight", "momentum") for field in ("exponent", "0-4")]
    assert set(groups) == {(stratum, step) for stratum in strata for step in (1, 4, LAST)}
    rows = trials(reach)
    for (stratum, step), group in groups.items():
        recorded = [row["result"] for row in rows.values() if row["id"]["stratum"] == stratum]
        recorded = [result["propagation"] for result in recorded if "propagation" in result]
        entries = [entry for result in recorded for entry in result if entry["step"] == step]
        assert (group["trials"], group["ended"]) == (len(entries), len(recorded) - len(entries))
        assert group["equal"] == sum(not entry["tensors"] for entry in entries)
        assert {one["tensor"] for one in group["tensors"]} == {name for entry in entries for name in entry["tensors"]}
        for one in group["tensors"]:
            found = [
                (entry, entry["tensors"].index(one["tensor"])) for entry in entries if one["tensor"] in entry["tensors"]
            ]
            norms = [float(entry["norm"][i]) for entry, i in found]
            shares = [entry["altered"][i] / entry["elements"][i] for entry, i in found]
            assert one["trials"] == len(found)
            assert float(one["median_norm"]) == pytest.approx(statistics.median(norms))
            assert float(one["max_norm"]) == max(norms)
            assert one["mean_altered"] == pytest.approx(statistics.mean(shares))
    text = analyze(reach, "--view", "propagation").stdout
    assert "serial  weight.exponent  step 1: " in text and "optimizer/momentum_buffer/" in text
    by_tensor = json.loads(analyze(reach, "--view", "propagation", "--by", "tensor", "--json").stdout)
    assert sum(group["trials"] + group["ended"] for group in by_tensor["groups"]) == 3 * 4 * 30
    assert len({group["origin"] for group in by_tensor["groups"]}) == 4
    assert analyze(reach, "--view", "propagation", "--by", "role").returncode == 2


def test_a_step_beyond_the_end_is_refused(tmp_path: Path) -> None:
    text = refused(tmp_path, propagation={"steps": [1, LAST + 1]})
    assert "arm 'serial': propagation.steps names step 9, but a run takes 8 steps" in text
