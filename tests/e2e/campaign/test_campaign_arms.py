"""What arms may differ in besides the strategy: which replicas see the fault, and which guards watch."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from campaign_support import BIN, CONTROLS, SMALL_BASE, campaign, read_rows


def spec(arms: list[dict], **changes: object) -> dict:
    return {
        "name": "arms",
        "seed": 5,
        "base": SMALL_BASE,
        "resume": {"epochs": 1},
        "arms": arms,
        "strata": {"roles": ["weight"], "fields": ["exponent"]},
        "trials_per_stratum": 12,
        "controls": CONTROLS,
    } | changes


def rows_of(place: Path, content: dict) -> dict[str, dict[int, dict]]:
    """Trials by arm and draw."""
    (place / "spec.json").write_text(json.dumps(content))
    done = campaign("run", place / "spec.json", "-o", place / "out")
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[int, dict]] = {}
    for row in read_rows(place / "out").values():
        if row["kind"] == "trial":
            found.setdefault(row["id"]["arm"], {})[row["id"]["draw"]] = row
    return found


def result_of(row: dict) -> dict:
    return {key: value for key, value in row["result"].items() if key != "id"}


def test_a_fault_that_one_replica_sees(tmp_path: Path) -> None:
    data = {"kind": "data", "ranks": 2}
    arms = [
        {"name": "all", "parallel": data},
        {"name": "one", "parallel": data, "scope": {"replicas": 1}},
        {"name": "first", "parallel": data, "scope": {"replicas": [0]}},
        {"name": "second", "parallel": data, "scope": {"replicas": [1]}},
        {"name": "second-apart", "parallel": data | {"sync_on_resume": "none"}, "scope": {"replicas": [1]}},
    ]
    rows = rows_of(tmp_path, spec(arms))
    assert {len(of_arm) for of_arm in rows.values()} == {12}
    drawn = set()
    for draw, row in rows["all"].items():
        # One fault in every arm, and it landed in each, though a broadcast took it away again.
        for arm in rows:
            assert rows[arm][draw]["faults"] == row["faults"]
            assert rows[arm][draw]["landed"], (arm, draw)
        # Replica 0's parameters go to all, so a fault in replica 1 is gone and one in replica 0 is everywhere.
        assert rows["second"][draw]["result"]["returned_step"] == 1
        (replica,) = rows["one"][draw]["replicas"]
        drawn.add(replica)
        assert result_of(rows["one"][draw]) == result_of(rows[["first", "second"][replica]][draw])
        assert result_of(rows["first"][draw]) == result_of(row)
        digests = rows["second-apart"][draw]["result"].get("replica_digests")
        if rows["second-apart"][draw]["result"]["status"] == "done":
            assert digests[0] != digests[1]
    assert drawn == {0, 1}
    # A jitter run is seen by the replicas that a trial of its arm would be, and lands there.
    jitter = {key: row for key, row in read_rows(tmp_path / "out").items() if row["kind"] == "jitter"}
    assert len(jitter) == len(arms) * CONTROLS["jitter"]
    for row in jitter.values():
        arm, draw = row["id"]["arm"], row["id"]["draw"]
        assert row["landed"] and row["faults"] == jitter[f"all/jitter/{draw}"]["faults"] and len(row["faults"]) == 16
        replicas = {"all": [], "one": row.get("replicas"), "first": [0], "second": [1], "second-apart": [1]}[arm]
        assert row.get("replicas", []) == replicas and len(replicas) == (arm != "all")


def test_guards_of_an_arm_replace_those_of_the_base(tmp_path: Path) -> None:
    base = {"train": SMALL_BASE["train"] | {"guards": {"gradient_norm": 1e-6}}}
    arms = [
        {"name": "base", "parallel": {"kind": "serial"}},
        {"name": "none", "parallel": {"kind": "serial"}, "guards": {}},
        {"name": "record", "parallel": {"kind": "serial"}, "guards": {"gradient_norm": 0.25}},
        {"name": "stop", "parallel": {"kind": "serial"}, "guards": {"gradient_norm": 0.25, "on_alarm": "stop"}},
    ]
    rows = rows_of(tmp_path, spec(arms, base=base, trials_per_stratum=40))
    done = [row["result"] for row in rows["base"].values() if row["result"]["status"] == "done"]
    assert len(done) > 20 and all(result["alarm_count"] >= 4 for result in done)
    assert not any("alarms" in row["result"] for row in rows["none"].values())
    spikes = [draw for draw, row in rows["record"].items() if row["result"].get("alarm_count", 0) > 0]
    assert 2 < len(spikes) < 40
    for draw, row in rows["stop"].items():
        assert (row["result"]["status"] == "rejected") == (draw in spikes)
        if draw in spikes:
            assert "guard gradient_norm" in row["result"]["detail"]
    words = [BIN / "bitrift", "analyze", tmp_path / "out", "--by", "guard", "--json"]
    groups = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)["groups"]
    named = {group["key"]["guard"]: group["trials"] for group in groups}
    limits = ("gradient_norm=1e-06", "gradient_norm=0.25", "gradient_norm=0.25:stop")
    assert named == dict.fromkeys(("none", *limits), 40)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scope": {"replicas": 3}}, "spec.json:17: arms[0].scope.replicas: the arm has 2 replica(s)"),
        ({"scope": {"replicas": [0, 2]}}, "there is no replica 2"),
        ({"scope": {"replicas": []}}, "arms[0].scope.replicas"),
        ({"scope": {"stage": 1}}, "arms[0].scope"),
        ({"guards": {"loss_spike": 1}}, "arms[0].guards.loss_spike"),
        ({"guards": {"moment_bound": True}}, "sgd has none"),
        ({"guards": {"magic": True}}, "arms[0].guards"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, change: dict, words: str) -> None:
    arm = {"name": "a", "parallel": {"kind": "data", "ranks": 2}} | change
    (tmp_path / "spec.json").write_text(json.dumps(spec([arm]), indent=1))
    done = campaign("run", tmp_path / "spec.json", "-o", tmp_path / "out")
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert words.split(":")[-1] in line and "spec.json" in line, line
    assert not (tmp_path / "out").exists()
