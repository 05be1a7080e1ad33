"""What is drawn from: strata and their sizes, measures, views, scope, huge tensors; and what a manifest keeps of it."""

from __future__ import annotations

import json
import os
from collections import Counter
from itertools import combinations
from pathlib import Path

import h5py
import inject_support as support
import numpy as np
import pytest
from inject_support import refused, run, run_json


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return support.model_file(tmp_path / "model.h5")


FLOAT32 = {"sign": [31], "exponent": range(23, 31), "mantissa": range(23)}


def test_every_fault_carries_its_stratum_and_the_strata_partition_the_bits(model: Path) -> None:
    result = run_json("inject", model, "--dry-run", "--tensor", "model/conv*.*", "--count", 400, "--seed", 4)
    elements = {"weight": 300 + 4, "bias": 7}
    sizes = {(row["role"], row["field"]): row for row in result["strata"]}
    assert set(sizes) == {(role, field) for role in elements for field in FLOAT32}
    for (role, field), row in sizes.items():
        assert row["stratum"] == f"{role}.{field}"
        assert row["elements"] == elements[role]
        assert row["bits"] == elements[role] * len(FLOAT32[field])
        assert row["tensors"] == (2 if role == "weight" else 1)
    assert sum(row["bits"] for row in result["strata"]) == result["eligible_bits"] == 311 * 32
    merged = 0
    for fault in result["faults"]:
        fields = [field for field, bits in FLOAT32.items() if set(bits) & set(fault["bits"])]
        assert fault["stratum"] == f"{fault['role']}.{'+'.join(fields)}"
        assert fault["stratum_bits"] == sum(sizes[fault["role"], field]["bits"] for field in fields)
        assert fault["stratum_elements"] == elements[fault["role"]]
        assert fault["measure"] == "bit"
        merged += len(fields) > 1
    assert merged > 10


def test_bursts_over_two_fields_are_a_stratum_of_their_own(model: Path) -> None:
    call = ["inject", model, "--dry-run", "--role", "weight", "--what", "burst", "--length", 4]
    rows = {row["field"]: row["bits"] for row in run_json(*call)["strata"]}
    assert rows == {"exponent": 304 * 5, "mantissa": 304 * 20, "exponent+mantissa": 304 * 3, "sign+exponent": 304}
    (population,) = run_json(*call)["population"]
    assert population["bits"] == {"sign": 0, **rows}
    table = run(*call).stdout
    assert "exponent+mantissa bits" in table
    assert "6,080" in table


def test_whole_elements_are_counted_as_elements(model: Path) -> None:
    result = run_json("inject", model, "--dry-run", "--role", "weight", "--what", "scale", "--factor", 2)
    (row,) = result["strata"]
    assert (row["field"], row["elements"], row["bits"]) == ("any", 304, 304 * 32)
    assert result["faults"][0]["stratum"] == "weight.any"


def test_dry_run_shows_how_many_bits_the_policies_leave(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        file["model/a.weight"] = np.array([1.0, 2.0, np.inf, np.nan, 0.0, 1.9e38], "<f4")
    result = run_json("inject", path, "--dry-run", "--no-nan", "--bits", "exponent")
    # 1.0 and 1.9e38 become infinite or NaN by one bit each; infinity and NaN become finite by any of eight.
    assert result["eligible_bits"] == 6 * 8 - 2
    assert result["population"][0]["bits"] == {"sign": 0, "exponent": 46, "mantissa": 0}
    result = run_json("inject", path, "--dry-run", "--no-nan", "--bits", "mantissa")
    assert (result["eligible_bits"], result["eligible_elements"]) == (4 * 23, 4)
    assert run_json("inject", path, "--dry-run", "--bits", "exponent")["eligible_bits"] == 48


@pytest.mark.parametrize("measure", ["bit", "element"])
def test_pairs_of_faults_are_drawn_alike(tmp_path: Path, measure: str) -> None:
    path = tmp_path / "tiny.h5"
    with h5py.File(path, "w") as file:
        file["a"] = np.zeros(2, "<i1")
        file["b"] = np.zeros(1, "<i1")
    places = [("a", 0), ("a", 1), ("b", 0)]
    hits: Counter = Counter()
    for seed in range(300):
        faults = run_json("inject", path, "--dry-run", "--measure", measure, "--what", "burst", "--length", 7,
                          "--count", 2, "--seed", seed)["faults"]  # fmt: skip
        hits[tuple((fault["tensor"], fault["element"]) for fault in faults)] += 1
    assert set(hits) == set(combinations(places, 2))
    chi_square = sum((count - 100) ** 2 / 100 for count in hits.values())
    assert chi_square < 18.4  # two degrees of freedom: above it once in 10,000


def test_bytes_are_read_as_another_format(tmp_path: Path) -> None:
    path, out = tmp_path / "f.h5", tmp_path / "out.h5"
    with h5py.File(path, "w") as file:
        file["dense/kernel:0"] = np.array([0x3F80, 0x4049], "<u2").view("V2")
        file["dense/bias:0"] = np.array([0x3F80], ">u2")
        file["codes"] = np.array([0x38, 0x7E], "u1")
    (left_out,) = run_json("inject", path, "--dry-run")["left_out"]
    assert (left_out["tensor"], left_out["bits"]) == ("dense/kernel:0", 32) and "(opaque)" in left_out["reason"]
    call = ["inject", path, "--as", "dense/*=bfloat16", "--as", "codes=float8_e4m3fn"]
    result = run_json(*call, "-o", out, "--bits", "sign", "--count", 5, "--manifest", tmp_path / "m.json")
    assert {fault["tensor"]: fault["dtype"] for fault in result["faults"]} == {
        "codes": "float8_e4m3fn",
        "dense/bias:0": "bfloat16",
        "dense/kernel:0": "bfloat16",
    }
    assert [fault["new_value"] for fault in result["faults"]] == ["-1", "-448", "-1", "-1", "-3.140625"]
    with h5py.File(out) as file:
        assert file["dense/kernel:0"][()].tobytes() == np.array([0xBF80, 0xC049], "<u2").tobytes()
        assert file["dense/bias:0"][()].tobytes() == b"\xbf\x80"
        assert file["codes"][()].tobytes() == b"\xb8\xfe"
    run("inject", path, "-o", tmp_path / "again.h5", "--replay", tmp_path / "m.json")
    assert (tmp_path / "again.h5").read_bytes() == out.read_bytes()
    spec = tmp_path / "model.json"
    spec.write_text(json.dumps({"as": {"dense/*": "bfloat16"}, "tensors": ["dense/*"], "bits": "sign", "count": 3}))
    assert len(run_json("inject", path, "--dry-run", "--model", spec)["faults"]) == 3
    for view, says in (
        ("codes", "expected GLOB=FORMAT"),
        ("codes=float7", "'float7' is not a number format: give one of float64"),
        ("codes=float16", "float16 takes 2 bytes, an element of codes (uint8) takes 1"),
        ("code=float8_e5m2", "none of the chosen tensors matches"),
    ):
        refused("inject", path, "--dry-run", "--tensor", "codes", "--as", view, says=says)
    refused("inject", path, "--dry-run", "--tensor", "codes", "--as", "codes=int8", "--as", "c*=uint8", says="both as")


def test_a_scope_needs_tensors_of_single_replicas(model: Path, tmp_path: Path) -> None:
    refused("inject", model, "--dry-run", "--scope", "replicas=1", says="set the scope of a campaign's arm")
    refused("inject", model, "--dry-run", "--scope", "stage=0", says="no pipeline stage")
    for bad in ("some", "replicas=", "replicas=0", "replicas=1,2", "replica=", "replica=1,", "replica=-1", "stage=x"):
        refused("inject", model, "--dry-run", "--scope", bad, says="is not supported: give all, replicas=N")
    with h5py.File(model, "r+") as file:
        for replica in (1, 2, 3):
            file[f"replica/{replica}/model/bn.running_mean"] = np.ones(7, "<f4")
    faults = run_json("inject", model, "--dry-run", "--scope", "replica=1,3", "--count", 200)["faults"]
    assert {fault["tensor"][:10] for fault in faults} == {"replica/1/", "replica/3/"}
    drawn = set()
    for seed in range(20):
        result = run_json("inject", model, "--dry-run", "--scope", "replicas=2", "--count", 200, "--seed", seed)
        drawn.add(tuple(sorted({fault["tensor"][8] for fault in result["faults"]})))
        assert result["model"]["scope"] == {"replicas": 2}
        assert result["eligible_elements"] == 14
    assert drawn == {("1", "2"), ("1", "3"), ("2", "3")}
    refused("inject", model, "--dry-run", "--scope", "replica=4", says="no tensors of replica 4")
    refused("inject", model, "--dry-run", "--scope", "replicas=4", says="cannot be drawn from the 3")


def sparse(path: Path, elements: int) -> Path:
    """A contiguous tensor that is allocated and nowhere written: a hole in the file."""
    with h5py.File(path, "w") as file:
        space = h5py.h5s.create_simple((elements,))
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        h5py.h5d.create(file.id, b"w", h5py.h5t.IEEE_F32LE, space, plist)
    return path


def test_a_trillion_bits_are_drawn_from_in_place(tmp_path: Path) -> None:
    elements = 10**12 // 32
    try:
        path = sparse(tmp_path / "huge.h5", elements)
    except OSError:
        pytest.skip("the file system holds no sparse file of 125 GB")
    if os.stat(path).st_blocks * 512 > 2**20:
        pytest.skip("the file system fills holes")
    result = run_json("inject", path, "--in-place", "--count", 1000, "--bits", 30, "--seed", 1)
    assert result["eligible_bits"] == elements
    places = [fault["element"] for fault in result["faults"]]
    assert len(set(places)) == 1000
    assert min(places) < elements * 0.01
    assert max(places) > elements * 0.99
    with h5py.File(path) as file:
        for place in places[::100]:
            assert file["w"][place] == 2.0
    assert run_json("inject", path, "--dry-run", "--ber", 1e-10)["eligible_bits"] == 10**12
    refused("inject", path, "--dry-run", "--ber", 0.5, says="has at most 20000000")


@pytest.mark.parametrize("extra", [["--count", 40], ["--ber", 0.003], ["--what", "random", "--fraction", 0.1],
                                   ["--what", "burst", "--length", 5, "--count", 30, "--no-nan"]])  # fmt: skip
def test_a_compact_manifest_is_drawn_again(model: Path, tmp_path: Path, extra: list) -> None:
    one, two, full, short = (tmp_path / name for name in ("1.h5", "2.h5", "full.json", "short.json"))
    run("inject", model, "-o", one, *extra, "--seed", 5, "--manifest", full)
    run("inject", model, "-o", two, *extra, "--seed", 5, "--manifest", short, "--compact-manifest")
    document = json.loads(short.read_text())
    assert "faults" not in document
    assert document["drawn"]["faults"] == len(json.loads(full.read_text())["faults"])
    run("inject", model, "-o", tmp_path / "3.h5", "--replay", short)
    assert one.read_bytes() == two.read_bytes() == (tmp_path / "3.h5").read_bytes()
    call = ["inject", model, "-o", tmp_path / "4.h5", "--replay", short]
    refused(*call, "--force", says="this manifest is compact")
    for change in ({"model": {**document["model"], "seed": 6}}, {"drawn": {**document["drawn"], "faults": 1}}):
        short.write_text(json.dumps({**document, **change}))
        refused(*call, says="again gives different faults")
    short.write_text(json.dumps(document))
    with h5py.File(model, "r+") as file:
        file["model/conv10.weight"][0] = 5
    refused(*call, says="can be replayed on that file only")
    assert not (tmp_path / "4.h5").exists()
    refused("inject", model, "--dry-run", "--compact-manifest", says="goes with --manifest")


def test_the_lines_of_a_manifest_are_what_is_printed(model: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "m.json"
    printed = run_json("inject", model, "-o", tmp_path / "o.h5", "--count", 600, "--manifest", manifest)
    written = json.loads(manifest.read_text())
    assert written["faults"] == printed["faults"]
    assert {key: written[key] for key in ("strata", "eligible_bits", "no_change")} == {
        key: printed[key] for key in ("strata", "eligible_bits", "no_change")
    }
    for fault in written["faults"]:
        width = {"float32": 32, "int64": 64}[fault["dtype"]]
        assert fault["msb_first_bits"] == [width - 1 - bit for bit in reversed(fault["bits"])]


def test_a_manifest_of_the_first_version_still_replays(model: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "m.json"
    run("inject", model, "-o", tmp_path / "1.h5", "--count", 20, "--manifest", manifest)
    document = json.loads(manifest.read_text())
    document["schema"] = "bitrift/fault-manifest/1"
    for key in ("strata", "no_change", "tensors"):
        del document[key]
    del document["base"]["bytes"]
    for fault in document["faults"]:
        for key in ("stratum", "stratum_bits", "stratum_elements", "measure"):
            del fault[key]
    manifest.write_text(json.dumps(document))
    run("inject", model, "-o", tmp_path / "2.h5", "--replay", manifest)
    assert (tmp_path / "1.h5").read_bytes() == (tmp_path / "2.h5").read_bytes()
    del document["faults"]
    manifest.write_text(json.dumps(document))
    refused("inject", model, "-o", tmp_path / "3.h5", "--replay", manifest, says="either 'faults' or 'drawn'")


def test_a_model_file_takes_every_parameter(model: Path, tmp_path: Path) -> None:
    spec = tmp_path / "faults.json"
    for given, words in (
        ({"what": "burst", "length": 3}, ["--what", "burst", "--length", 3]),
        (
            {"what": "xor", "mask": "0x9", "mask_at": "random"},
            ["--what", "xor", "--mask", "0x9", "--mask-at", "random"],
        ),
        ({"what": "scale", "factor": -0.5}, ["--what", "scale", "--factor=-0.5"]),
        ({"what": "set", "value": 1.5}, ["--what", "set", "--value", "1.5"]),
        ({"what": "set", "value": "nan"}, ["--what", "set", "--value", "nan"]),
        ({"what": "nullify"}, ["--what", "zero"]),
        ({"what": "stuck-at-1", "bits": "exponent"}, ["--what", "stuck-at-1", "--bits", "exponent"]),
    ):
        spec.write_text(json.dumps({**given, "roles": ["weight"], "count": 5, "seed": 9}))
        one = run_json("inject", model, "--dry-run", "--model", spec)
        two = run_json("inject", model, "--dry-run", "--role", "weight", "--count", 5, "--seed", 9, *words)
        assert one["faults"] == two["faults"]
        assert {**one["model"], "mask": ""} == {**two["model"], "mask": ""}
    spec.write_text(json.dumps({"what": "burst", "length": 65}))
    refused("inject", model, "--dry-run", "--model", spec, says="length")
