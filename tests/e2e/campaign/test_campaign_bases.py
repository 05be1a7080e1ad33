"""Several bases and precisions in one campaign, and fault models as strata."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path

import h5py
import numpy as np
from campaign_support import BIN, CONTROLS, SMALL_BASE, campaign, read_rows

SPEC: dict = {
    "name": "bases",
    "seed": 9,
    "resume": {"epochs": 1},
    "arms": [
        {"name": "plain", "parallel": {"kind": "serial"}},
        {"name": "double", "parallel": {"kind": "serial"}, "precision": "fp64"},
    ],
    "strata": {"roles": ["weight", "momentum"], "fields": ["sign", "exponent_msb"]},
    "trials_per_stratum": 3,
    "controls": CONTROLS,
}


def start(place: Path, content: dict, *more: object) -> tuple[int, str]:
    (place / "spec.json").write_text(json.dumps(content))
    done = campaign("run", place / "spec.json", "-o", place / "out", *more)
    return done.returncode, done.stderr


def test_every_fault_runs_from_every_base_in_every_precision(tmp_path: Path) -> None:
    later = copy.deepcopy(SMALL_BASE)
    later["train"] |= {"epochs": 22, "seed": 2}
    content = SPEC | {"base": [{"name": "early"} | SMALL_BASE, {"name": "late"} | later]}
    code, text = start(tmp_path, content)
    assert code == 0, text
    rows = [row for row in read_rows(tmp_path / "out").values() if row["kind"] == "trial"]
    arms = {"plain@early", "plain@late", "double@early", "double@late"}
    assert {row["id"]["arm"] for row in rows} == arms and len(rows) == 4 * 4 * 3
    files = {
        "plain@early": "base-early.h5",
        "plain@late": "base-late.h5",
        "double@early": "base-early-fp64.h5",
        "double@late": "base-late-fp64.h5",
    }
    places: dict[tuple[str, int], set[tuple[str, int]]] = {}
    for row in rows:
        (fault,) = row["faults"]
        double = row["id"]["arm"].startswith("double")
        top = 62 if double else 30
        assert fault["bits"] == [top if row["id"]["stratum"].endswith("msb") else top + 1]
        with h5py.File(tmp_path / "out" / files[row["id"]["arm"]]) as base:
            stored = base[fault["tensor"]][()].reshape(-1)[fault["element"]]
        assert stored.view(np.uint64 if double else np.uint32) == int(fault["old"], 16)
        places.setdefault((row["id"]["stratum"], row["id"]["draw"]), set()).add((fault["tensor"], fault["element"]))
    assert all(len(place) == 1 for place in places.values())
    with h5py.File(tmp_path / "out/base-late.h5") as plain, h5py.File(tmp_path / "out/base-late-fp64.h5") as double:
        for name, values in plain["model"].items():
            assert np.array_equal(values[()].astype(np.float64), double["model"][name][()])

    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["by"] == ["strategy", "base", "field"]
    keys = {(group["key"]["arm"], group["key"]["base"]) for group in summary["groups"]}
    assert keys == {(arm, base) for arm in ("plain", "double") for base in ("early", "late")}

    with open(tmp_path / "out/base-late-fp64.h5", "r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x55")
    code, text = start(tmp_path, content)
    assert code == 2 and "base-late-fp64.h5: changed since the campaign began" in text


def test_fields_that_are_not_as_wide_in_every_base_are_refused(tmp_path: Path) -> None:
    content = SPEC | {"base": SMALL_BASE, "strata": {"roles": ["weight"], "fields": ["exponent"]}}
    code, text = start(tmp_path, content)
    assert code == 2 and text.count("error") == 1
    assert "strata: weight.exponent" in text and "x 8 bits (float32)" in text and "x 11 bits (float64)" in text


def test_fault_models_are_strata(tmp_path: Path) -> None:
    models: list[dict] = [
        {"name": "ten", "roles": ["weight"], "bits": "mantissa", "count": 10},
        {"name": "rare", "roles": ["weight"], "ber": 1e-9},
        {"name": "often", "roles": ["weight"], "ber": 0.01, "bits": "sign"},
        {"name": "zeros", "tensors": ["model/**"], "what": "zero", "count": 4},
    ]
    content = SPEC | {"base": SMALL_BASE, "arms": SPEC["arms"][:1], "strata": {"models": models}}
    content["trials_per_stratum"] = 20
    code, text = start(tmp_path, content)
    assert code == 0, text
    with h5py.File(tmp_path / "out/base.h5") as base:
        weights = {name: values.size for name, values in base["model"].items() if name.endswith("weight")}
    flips = []
    for row in read_rows(tmp_path / "out").values():
        if row["kind"] != "trial":
            continue
        assert row["landed"]
        assert sorted(row["result"]["changed_tensors"]) == sorted(
            {fault["tensor"] for fault in row["faults"] if fault["old"] != fault["new"]}
        )
        match row["id"]["stratum"]:
            case "ten":
                assert sum(len(fault["bits"]) for fault in row["faults"]) == 10
            case "rare":
                assert row["faults"] == [] and row["no_change"] and row["result"]["returned_step"] is not None
            case "often":
                flips.append(len(row["faults"]))
            case "zeros":
                assert all(int(fault["new"], 16) == 0 for fault in row["faults"])
    # Binomial: 20 draws, each of n p flips.
    expected = 0.01 * sum(weights.values())
    assert len(set(flips)) > 3
    assert abs(np.mean(flips) - expected) < 5 * np.sqrt(expected / 20)
    done = campaign("list", tmp_path / "out")
    assert "plain/rare/0" in done.stdout and "no fault" in done.stdout and "and 6 more" in done.stdout
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert [group["key"]["stratum"] for group in summary["groups"]] == sorted(model["name"] for model in models)


def test_planes(tmp_path: Path) -> None:
    arms = [
        {"name": "plain", "parallel": {"kind": "serial"}},
        {
            "name": "checksums",
            "parallel": {"kind": "serial"},
            "guards": {"checksums": True, "on_alarm": "stop"},
        },
    ]
    models: list[dict] = [
        {"name": "value", "tensors": ["model/**"], "count": 1},
        {"name": "storage", "tensors": ["model/**"], "count": 1, "plane": "storage"},
        {"name": "metadata", "count": 1, "plane": "metadata"},
    ]
    content = SPEC | {"base": SMALL_BASE, "arms": arms, "strata": {"models": models}, "trials_per_stratum": 8}
    code, text = start(tmp_path, content)
    assert code == 0, text
    rows = [row for row in read_rows(tmp_path / "out").values() if row["kind"] == "trial"]
    assert len(rows) == 2 * 3 * 8
    size = (tmp_path / "out/base.h5").stat().st_size
    command = [BIN / "bitrift", "analyze", tmp_path / "out", "--view", "detectors", "--json"]
    (guard,) = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["detectors"]
    assert (guard["arm"], guard["beside"]) == ("checksums", "plain")
    assert sum(share["runs"] for share in guard["outcomes"].values()) == 3 * 8
    # Faults of the plane "storage" leave the checksum behind; those of values do not.
    assert sum(share["alarms"] for share in guard["outcomes"].values()) >= 8
    assert guard["clean"]["alarms"] == 0 and guard["clean"]["runs"] == 1 + 20 + 4
    assert guard["median_steps"] in (None, 0) and guard["cost"] > 0
    with h5py.File(tmp_path / "out/base.h5") as base:
        values = [
            (one.id.get_offset(), one.id.get_storage_size())
            for group in ("model", "optimizer")
            for one in _tensors(base[group])
        ]
    for row in rows:
        assert row["plane"] == row["id"]["stratum"]
        status = row["result"]["status"] if row["result"] else row["failure"]["reason"]
        guarded = row["id"]["arm"] == "checksums"
        assert row["landed"] or status == "rejected"
        if row["plane"] == "storage":
            assert (status == "rejected") == guarded
        elif row["plane"] == "value":
            assert status != "rejected"
        else:
            (fault,) = row["faults"]
            assert 0 <= fault["element"] < size
            assert not any(first <= fault["element"] < first + length for first, length in values)


def _tensors(group: h5py.Group) -> list[h5py.Dataset]:
    found: list[h5py.Dataset] = []
    group.visititems(lambda _, item: found.append(item) if isinstance(item, h5py.Dataset) else None)
    return found
