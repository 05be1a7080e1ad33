"""The command line of ls, inject, undo and diff: what is written is read back by h5py, never by bitrift."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import inject_support as support
import numpy as np
import pytest
from inject_support import BITRIFT, changed_bytes, names_in, offset_of, refused, run, run_json

FORMAT_CASES = [
    (f"{name}/{order}", name, np.dtype(code).itemsize, order)
    for name, code in support.FORMATS.items()
    for order in ("le", "be")
]
FORMAT_CASES += [("bf16_le", "bfloat16", 2, "le"), ("bf16_be", "bfloat16", 2, "be")]


@pytest.fixture(scope="module")
def formats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return support.every_format(tmp_path_factory.mktemp("formats") / "formats.h5")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return support.model_file(tmp_path / "model.h5")


# --- what is flipped


@pytest.mark.parametrize(("path", "dtype", "size", "order"), FORMAT_CASES)
def test_exactly_the_asked_bit_changes_in_every_format(
    formats: Path, tmp_path: Path, path: str, dtype: str, size: int, order: str
) -> None:
    before, start = formats.read_bytes(), offset_of(formats, path)
    for bit in (0, 8 * size // 2, 8 * size - 1):
        out = tmp_path / f"{bit}.h5"
        (fault,) = run_json("inject", formats, "-o", out, "--tensor", path, "--bits", bit, "--seed", 3)["faults"]
        assert fault["dtype"] == dtype
        assert fault["bits"] == [bit]
        assert fault["msb_first_bits"] == [8 * size - 1 - bit]
        byte = bit // 8 if order == "le" or size == 1 else size - 1 - bit // 8
        place = start + fault["element"] * size + byte
        assert changed_bytes(before, out.read_bytes()) == {place: 1 << bit % 8}
        raw = before[start + fault["element"] * size :][:size]
        pattern = int.from_bytes(raw, "little" if order == "le" else "big")
        assert int(fault["old"], 16) == pattern
        assert int(fault["new"], 16) == pattern ^ 1 << bit
        with h5py.File(out) as file:
            value = file[path][()].flat[fault["element"]]
        assert float(fault["new_value"]) == pytest.approx(float(value), rel=1e-6, nan_ok=True)


def test_all_bits_without_replacement_invert_the_tensor(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    result = run_json("inject", model, "-o", out, "--tensor", "model/conv1.bias", "--count", 7 * 32)
    assert result["eligible_bits"] == 7 * 32
    with h5py.File(model) as a, h5py.File(out) as b:
        old, new = a["model/conv1.bias"][()].view("u4"), b["model/conv1.bias"][()].view("u4")
        assert (old ^ new == 0xFFFFFFFF).all()
    refused("inject", model, "-o", out, "--tensor", "model/conv1.bias", "--count", 7 * 32 + 1, says="224 bits")


@pytest.mark.parametrize("measure", ["bit", "element", "tensor"])
def test_a_seed_gives_the_same_bytes_and_another_seed_others(model: Path, tmp_path: Path, measure: str) -> None:
    one, two, three = (tmp_path / name for name in ("1", "2", "3"))
    for out, seed in ((one, 5), (two, 5), (three, 6)):
        run("inject", model, "-o", out, "--count", 20, "--measure", measure, "--seed", seed)
    assert one.read_bytes() == two.read_bytes() != three.read_bytes()


def test_measure_element_hits_as_many_elements_as_faults(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    run("inject", model, "-o", out, "--tensor", "model/conv1.weight", "--measure", "element", "--count", 300)
    with h5py.File(model) as a, h5py.File(out) as b:
        x = a["model/conv1.weight"][()].view("u4") ^ b["model/conv1.weight"][()].view("u4")
    assert (np.bitwise_count(x) == 1).all()


def test_measure_tensor_weighs_small_and_large_tensors_alike(model: Path) -> None:
    faults = run_json(
        "inject", model, "--dry-run", "--role", "weight", "--measure", "tensor", "--count", 100, "--seed", 1
    )["faults"]
    small = sum(len(fault["bits"]) for fault in faults if fault["tensor"] == "model/conv10.weight")
    assert 30 <= small <= 70  # 4 elements against 300: by bits it would be about 1


def test_fraction_counts_elements(model: Path, tmp_path: Path) -> None:
    result = run_json("inject", model, "-o", tmp_path / "out.h5", "--role", "momentum", "--fraction", 0.25)
    assert len(result["faults"]) == 75
    assert all(len(fault["bits"]) == 1 for fault in result["faults"])


def test_error_rate_is_binomial(model: Path) -> None:
    def flips(seed: int) -> int:
        result = run_json("inject", model, "--dry-run", "--tensor", "model/conv1.weight", "--ber", 0.01, "--seed", seed)
        return sum(len(fault["bits"]) for fault in result["faults"])

    counts = [flips(seed) for seed in range(40)]
    mean, deviation = 300 * 32 * 0.01, (300 * 32 * 0.01 * 0.99) ** 0.5
    assert abs(np.mean(counts) - mean) < 4 * deviation / 40**0.5
    assert 0.6 * deviation < np.std(counts) < 1.5 * deviation
    everything = run_json("inject", model, "--dry-run", "--tensor", "model/conv1.bias", "--ber", 1)
    assert sum(len(fault["bits"]) for fault in everything["faults"]) == 7 * 32


@pytest.mark.parametrize(("kind", "test"), [("zero", lambda x: x == 0), ("nan", np.isnan), ("inf", np.isinf)])
def test_whole_elements_are_set(model: Path, tmp_path: Path, kind: str, test: object) -> None:
    out = tmp_path / "out.h5"
    run("inject", model, "-o", out, "--tensor", "model/*.weight", "--what", kind, "--fraction", 1)
    with h5py.File(out) as file:
        assert test(file["model/conv1.weight"][()]).all()
        assert not test(file["model/conv1.bias"][()]).any()


def test_no_nan_draws_again_and_counts(model: Path, tmp_path: Path) -> None:
    with h5py.File(model, "r+") as file:
        file["model/conv1.weight"][...] = 1.0  # flipping its top exponent bit gives infinity
    result = run_json(
        "inject",
        model,
        "-o",
        tmp_path / "out.h5",
        "--tensor",
        "model/conv1.weight",
        "--bits",
        "exponent",
        "--measure",
        "element",
        "--count",
        200,
        "--no-nan",
        "--seed",
        1,
    )
    assert result["redrawn"] > 5
    assert len(result["faults"]) == 200
    with h5py.File(tmp_path / "out.h5") as file:
        assert np.isfinite(file["model/conv1.weight"][()]).all()
    refused(
        "inject",
        model,
        "-o",
        tmp_path / "no.h5",
        "--tensor",
        "model/conv1.weight",
        "--bits",
        "exponent_msb",
        "--no-nan",
        says="only 0 of the 1",
    )


def test_keep_sign_never_touches_the_sign(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    run("inject", model, "-o", out, "--tensor", "model/conv1.bias", "--keep-sign", "--count", 7 * 31)
    with h5py.File(model) as a, h5py.File(out) as b:
        x = a["model/conv1.bias"][()].view("u4") ^ b["model/conv1.bias"][()].view("u4")
    assert (x == 0x7FFFFFFF).all()


def test_a_glob_does_not_reach_names_that_only_begin_alike(model: Path) -> None:
    faults = run_json("inject", model, "--dry-run", "--tensor", "model/conv1.*", "--ber", 1)["faults"]
    assert {fault["tensor"] for fault in faults} == {"model/conv1.weight", "model/conv1.bias"}


def test_stored_checksums_follow_the_altered_tensor(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    run("inject", model, "-o", out, "--count", 500, "--seed", 2)
    with h5py.File(model) as old, h5py.File(out) as file:
        names = [name.decode() for name in file["checksum/path"][()]]
        for name, stored in zip(names, file["checksum/crc32c"][()], strict=True):
            assert stored == support.crc32c(file[name][()].tobytes()), name
        assert (old["checksum/crc32c"][()] != file["checksum/crc32c"][()]).sum() >= 2


def test_a_user_block_moves_every_offset(tmp_path: Path) -> None:
    path, out = tmp_path / "block.h5", tmp_path / "out.h5"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["w"] = np.ones(4, "<f4")
    run("inject", path, "-o", out, "--bits", 31, "--count", 4)
    with h5py.File(out) as file:
        assert (file["w"][()] == -1).all()


# --- who is touched


def test_a_copy_never_touches_its_input(model: Path, tmp_path: Path) -> None:
    before, stamp = model.read_bytes(), model.stat()
    for out in (tmp_path / "a.h5", tmp_path / "b.h5"):
        run("inject", model, "-o", out, "--count", 50)
    assert model.read_bytes() == before
    assert model.stat().st_mtime_ns == stamp.st_mtime_ns
    assert names_in(tmp_path) == ["a.h5", "b.h5", "model.h5"]


def test_an_existing_output_is_replaced(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    out.write_text("old")
    run("inject", model, "-o", out)
    assert len(changed_bytes(model.read_bytes(), out.read_bytes())) >= 1


def test_output_that_is_the_input_is_refused(model: Path, tmp_path: Path) -> None:
    before = model.read_bytes()
    (tmp_path / "soft.h5").symlink_to(model)
    (tmp_path / "hard.h5").hardlink_to(model)
    for out in (model, tmp_path / "soft.h5", tmp_path / "hard.h5", tmp_path / "." / "model.h5"):
        refused("inject", model, "-o", out, says="is the input itself")
    refused("inject", model, "-o", tmp_path / "out.h5", "--manifest", model, says="would overwrite")
    assert model.read_bytes() == before


def test_dry_run_writes_nothing(model: Path, tmp_path: Path) -> None:
    before, names = model.read_bytes(), names_in(tmp_path)
    done = run("inject", model, "--in-place", "--dry-run", "--count", 3)
    assert "nothing was written" in done.stdout
    population = run_json("inject", model, "--dry-run", "--role", "norm")["population"]
    assert population == [
        {"role": "norm", "tensors": 1, "elements": 7, "bits": {"sign": 7, "exponent": 56, "mantissa": 161}}
    ]
    assert (model.read_bytes(), names_in(tmp_path)) == (before, names)


# --- in place and back


def test_undo_restores_every_byte(model: Path, tmp_path: Path) -> None:
    before = model.read_bytes()
    run("inject", model, "--in-place", "--count", 100)
    assert model.read_bytes() != before
    assert names_in(tmp_path) == ["model.h5", "model.h5.undo"]
    refused("inject", model, "--in-place", says="already holds an injection")
    run("undo", model)
    assert model.read_bytes() == before
    assert names_in(tmp_path) == ["model.h5"]
    refused("undo", model, says="has no injection to undo")


def test_undo_works_through_a_symbolic_link(model: Path, tmp_path: Path) -> None:
    before, link = model.read_bytes(), tmp_path / "link.h5"
    link.symlink_to(model)
    run("inject", link, "--in-place")
    run("undo", model)
    assert model.read_bytes() == before
    assert link.is_symlink()


def test_undo_refuses_a_file_that_changed_since(model: Path, tmp_path: Path) -> None:
    run("inject", model, "--in-place", "--tensor", "model/conv1.bias", "--bits", "0-7", "--count", 1, "--seed", 1)
    journal = json.loads((tmp_path / "model.h5.undo").read_text())
    entry = journal["body"]["ranges"][0]
    foreign = next(x for x in range(256) if x not in (int(entry["before"][:2], 16), int(entry["after"][:2], 16)))
    data = bytearray(model.read_bytes())
    data[entry["offset"]] = foreign
    model.write_bytes(data)
    refused("undo", model, says="was changed since")
    assert model.read_bytes() == data
    assert (tmp_path / "model.h5.undo").exists()
    model.write_bytes(data[:-8])
    refused("undo", model, says="replaced or changed")


def test_a_damaged_undo_journal_is_refused(model: Path, tmp_path: Path) -> None:
    run("inject", model, "--in-place")
    altered, journal = model.read_bytes(), tmp_path / "model.h5.undo"
    text = journal.read_text()
    for damaged in (text[:-20], text.replace('"offset":', '"offset":1'), "{}", ""):
        journal.write_text(damaged)
        refused("undo", model, says="is damaged")
        assert model.read_bytes() == altered


def test_killed_at_any_moment_undo_gives_the_original_back(tmp_path: Path) -> None:
    path = support.model_file(tmp_path / "big.h5", 60_000)
    with h5py.File(path, "r+") as file:
        del file["checksum"]
    before = path.read_bytes()
    journal = tmp_path / "big.h5.undo"
    call = [BITRIFT, "inject", path, "--in-place", "--role", "weight", "--measure", "element", "--count", "30000"]
    start = time.monotonic()
    subprocess.run(call, check=True, capture_output=True)
    whole = time.monotonic() - start
    run("undo", path)
    assert path.read_bytes() == before
    generator, with_journal, altered = random.Random(1), 0, 0
    for attempt in range(24):
        child = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if attempt % 2:
            time.sleep(generator.uniform(0, whole))
        else:  # while bytes are being written
            while not journal.exists() and child.poll() is None:
                pass
            time.sleep(generator.uniform(0, 0.05))
        child.send_signal(signal.SIGKILL)
        child.wait()
        altered += path.read_bytes() != before
        if journal.exists():
            with_journal += 1
            run("undo", path)
        assert path.read_bytes() == before
        assert not journal.exists()
    assert with_journal >= 6
    assert altered >= 1


def test_an_injection_that_was_cut_short_is_taken_back_by_the_next(model: Path, tmp_path: Path) -> None:
    before = model.read_bytes()
    run("inject", model, "--in-place", "--tensor", "model/conv1.weight", "--count", 40, "--seed", 1)
    altered = model.read_bytes()
    ranges = json.loads((tmp_path / "model.h5.undo").read_text())["body"]["ranges"]
    cut = bytearray(before)
    for entry in ranges[: len(ranges) // 2]:
        size = len(entry["after"]) // 2
        cut[entry["offset"] : entry["offset"] + size] = bytes.fromhex(entry["after"])
    last = ranges[len(ranges) // 2]  # torn inside of an element
    cut[last["offset"] : last["offset"] + 2] = bytes.fromhex(last["after"])[:2]
    assert before != cut != altered
    model.write_bytes(cut)
    done = run("inject", model, "--in-place", "--tensor", "model/conv1.bias", "--what", "zero", "--count", 7)
    assert "cut short" in done.stderr
    run("undo", model)
    assert model.read_bytes() == before


def test_a_killed_copy_leaves_its_output_whole_or_absent(tmp_path: Path) -> None:
    path = support.model_file(tmp_path / "big.h5", 30_000)
    call = [BITRIFT, "inject", path, "-o", tmp_path / "out.h5", "--count", "5000", "--seed", "1"]
    subprocess.run(call, check=True, capture_output=True)
    expected = (tmp_path / "out.h5").read_bytes()
    generator = random.Random(2)
    for _ in range(15):
        (tmp_path / "out.h5").unlink(missing_ok=True)
        child = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(generator.uniform(0, 0.06))
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert not (tmp_path / "out.h5").exists() or (tmp_path / "out.h5").read_bytes() == expected


# --- manifest and replay


def test_a_replay_gives_the_same_file(model: Path, tmp_path: Path) -> None:
    one, two, manifest = tmp_path / "1.h5", tmp_path / "2.h5", tmp_path / "m.json"
    run("inject", model, "-o", one, "--count", 30, "--manifest", manifest)
    run("inject", model, "-o", two, "--replay", manifest)
    assert one.read_bytes() == two.read_bytes()
    document = json.loads(manifest.read_text())
    assert document["schema"] == "bitrift/fault-manifest/1"
    assert document["provenance"]["command"][1] == "inject"
    for fault in document["faults"]:
        assert int(fault["old"], 16) ^ int(fault["new"], 16) == sum(1 << bit for bit in fault["bits"])
        assert fault["msb_first_bits"] == [31 - bit for bit in reversed(fault["bits"])] or fault["dtype"] != "float32"


def test_a_replay_onto_another_base_names_the_first_difference(model: Path, tmp_path: Path) -> None:
    manifest, other = tmp_path / "m.json", tmp_path / "other.h5"
    run("inject", model, "-o", tmp_path / "1.h5", "--tensor", "model/conv1.bias", "--count", 1, "--manifest", manifest)
    other.write_bytes(model.read_bytes())
    with h5py.File(other, "r+") as file:
        file["model/conv10.weight"][0] = 5
    refused("inject", other, "-o", tmp_path / "2.h5", "--replay", manifest, says="--force would replay it")
    run("inject", other, "-o", tmp_path / "2.h5", "--replay", manifest, "--force")
    with h5py.File(other, "r+") as file:
        file["model/conv1.bias"][...] = 5
    refused("inject", other, "-o", tmp_path / "3.h5", "--replay", manifest, says="of model/conv1.bias holds 0x40a00000")
    refused("inject", other, "-o", tmp_path / "3.h5", "--replay", manifest, "--force", says="of model/conv1.bias holds")
    assert not (tmp_path / "3.h5").exists()


def test_a_damaged_manifest_is_refused_with_its_line(model: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "m.json"
    run("inject", model, "-o", tmp_path / "1.h5", "--manifest", manifest)
    good = json.loads(manifest.read_text())

    def refuse(change: dict, says: str) -> None:
        bad = json.loads(json.dumps(good))
        bad["faults"][0].update(change)
        manifest.write_text(json.dumps(bad, indent=1))
        line = refused("inject", model, "-o", tmp_path / "2.h5", "--replay", manifest, says=says)
        assert "m.json:" in line

    refuse({"old": 5}, "faults")
    refuse({"unknown": 5}, "unknown")
    refuse({"new": good["faults"][0]["old"]}, "do not differ in the bits")
    refuse({"bits": [99]}, "99")
    manifest.write_text("{")
    refused("inject", model, "-o", tmp_path / "2.h5", "--replay", manifest, says="m.json")


def test_a_fault_model_comes_from_a_file(model: Path, tmp_path: Path) -> None:
    spec = tmp_path / "faults.json"
    spec.write_text(json.dumps({"roles": ["bias"], "bits": "sign", "count": 7, "seed": 3}))
    run("inject", model, "-o", tmp_path / "out.h5", "--model", spec)
    with h5py.File(model) as a, h5py.File(tmp_path / "out.h5") as b:
        assert (a["model/conv1.bias"][()] == -b["model/conv1.bias"][()]).all()
    spec.write_text('{"roles": ["bias"],\n "bitz": "sign"}')
    line = refused("inject", model, "-o", tmp_path / "o.h5", "--model", spec, says="bitz")
    assert "faults.json:" in line
    spec.write_text('{"seed": -1}')
    refused("inject", model, "-o", tmp_path / "o.h5", "--model", spec, says="seed: expected a whole number")


# --- refusals


def refused_layouts(path: Path) -> None:
    with h5py.File(path, "w") as file:
        data = np.arange(12, dtype="<f4")
        file.create_dataset("chunked", data=data, chunks=(4,))
        file.create_dataset("gzip", data=data, chunks=(4,), compression="gzip")
        file.create_dataset("empty_space", shape=(5,), dtype="<f4")
        file.create_dataset("external", shape=(3,), dtype="<f4", external=[(str(path) + ".raw", 0, 12)])
        layout = h5py.VirtualLayout(shape=(12,), dtype="<f4")
        layout[:] = h5py.VirtualSource(str(path), "chunked", shape=(12,))
        file.create_virtual_dataset("virtual", layout)
        file["string"] = "text"
        file["fixed_string"] = np.array([b"abc"])
        file["compound"] = np.zeros(3, [("a", "<f4"), ("b", "<i2")])
        file["complex"] = np.zeros(3, "<c8")
        file["bool"] = np.array([True, False])
        file["array"] = np.zeros(2, [("x", "<f4", (2,))])
        file["opaque"] = np.zeros(2, "V3")
        file.create_dataset("reference", data=file["chunked"].ref, dtype=h5py.ref_dtype)
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((3,))
        dataset = h5py.h5d.create(file.id, b"compact", h5py.h5t.IEEE_F32LE, space, plist)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ones(3, "<f4"))
        odd = h5py.h5t.STD_I32LE.copy()
        odd.set_precision(17)
        h5py.h5d.create(file.id, b"odd", odd, space)


REFUSALS = {
    "chunked": "chunked",
    "gzip": "chunked+filters",
    "empty_space": "no bytes are stored",
    "external": "external",
    "virtual": "virtual",
    "string": "variable-length string",
    "fixed_string": "string",
    "compound": "compound",
    "complex": "compound",
    "bool": "enum",
    "array": "compound",
    "opaque": "opaque",
    "reference": "reference",
    "compact": "compact",
    "odd": "int17",
}


def test_what_cannot_be_altered_is_refused_by_name_and_reason(tmp_path: Path) -> None:
    path = tmp_path / "layouts.h5"
    refused_layouts(path)
    before = path.read_bytes()
    names = names_in(tmp_path)
    for name, reason in REFUSALS.items():
        line = refused("inject", path, "-o", tmp_path / "out.h5", "--tensor", name, says=reason)
        assert f"{name} cannot be altered" in line
    refused("inject", path, "-o", tmp_path / "out.h5", says="choose other tensors")
    listed = {row["path"]: row for row in run_json("ls", path)["tensors"]}
    assert set(listed) == set(REFUSALS)
    assert not any(row["alterable"] for row in listed.values())
    assert (path.read_bytes(), names_in(tmp_path)) == (before, names)


def test_texts_are_no_part_of_the_default_population(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        file["name"] = "a text"
        file["w"] = np.ones(4, "<f4")
    assert run_json("inject", path, "--dry-run")["eligible_elements"] == 4


def test_datasets_that_share_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "shared.h5"
    with h5py.File(path, "w") as file:
        file["a"] = np.ones(64, "<f4")
        file["b"] = np.ones(64, "<f4")
    one, two = offset_of(path, "a"), offset_of(path, "b")
    data = path.read_bytes()
    assert data.count(two.to_bytes(8, "little")) == 1
    path.write_bytes(data.replace(two.to_bytes(8, "little"), (one + 16).to_bytes(8, "little")))
    refused("inject", path, "-o", tmp_path / "o.h5", "--tensor", "a", says="shares stored bytes with b")
    refused("inject", path, "-o", tmp_path / "o.h5", "--tensor", "b", says="shares stored bytes with a")
    path.write_bytes(data.replace(two.to_bytes(8, "little"), len(data).to_bytes(8, "little")))
    refused("inject", path, "-o", tmp_path / "o.h5", "--tensor", "b", says="outside of the file")


BAD_CALLS = [
    (["--tensor", "model/conv2.*"], "no tensor matches 'model/conv2.*'"),
    (["--tensor", "model/conv1.*", "--tensor", "nothing"], "'nothing'"),
    (["--role", "exp_avg"], "has the role 'exp_avg'"),
    (["--role", "wheight"], "is not a role"),
    (["--role", "checksum"], "checksum"),
    (["--tensor", "checksum/*"], "follow from the tensors"),
    (["--tensor", "model/conv1.bias", "--role", "weight"], "of the asked roles"),
    (["--bits", "exponents"], "is not a bit field"),
    (["--bits", "40", "--role", "weight"], "has a bit of '40'"),
    (["--bits", "exponent", "--tensor", "progress/step"], "has a bit of 'exponent'"),
    (["--what", "burst"], "is not supported: give one of flip, zero, nan, inf"),
    (["--what", "nan", "--role", "progress"], "has a bit of"),
    (["--what", "nan", "--no-nan"], "--no-nan forbids"),
    (["--what", "zero", "--bits", "sign"], "sets whole elements"),
    (["--measure", "layer"], "bit, element, tensor"),
    (["--plane", "storage"], "--plane storage is not supported"),
    (["--plane", "metadata"], "--plane metadata is not supported"),
    (["--count", "0"], "--count 0"),
    (["--count", "-1"], "--count"),
    (["--count", "1e3"], "--count"),
    (["--seed", "-1"], "--seed"),
    (["--seed", "99999999999999999999"], "--seed"),
    (["--fraction", "1.5"], "--fraction 1.5"),
    (["--fraction", "nan"], "--fraction"),
    (["--fraction", "0.5", "--measure", "tensor"], "--measure tensor"),
    (["--ber", "0"], "--ber 0"),
    (["--ber", "0.1", "--count", "3"], "exactly one of"),
    (["--in-place"], "exclude each other"),
    (["--force"], "--force goes with --replay"),
    (["--replay", "no-such.json"], "no-such.json"),
    (["--model", "no-such.json"], "no-such.json"),
    (["--model", "x", "--bits", "3"], "leave out --bits"),
    (["--nonsense"], "--nonsense"),
    (["--manifest", "/no/such/folder/m.json"], "/no/such/folder/m.json"),
]


@pytest.mark.parametrize(
    ("extra", "says"), BAD_CALLS, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_a_wrong_call_is_one_line_and_leaves_nothing(model: Path, tmp_path: Path, extra: list[str], says: str) -> None:
    before, names = model.read_bytes(), names_in(tmp_path)
    refused("inject", model, "-o", tmp_path / "out.h5", *extra, says=says)
    assert (model.read_bytes(), names_in(tmp_path)) == (before, names)


def test_calls_without_enough_words_are_refused() -> None:
    refused(says="subcommand")
    refused("frobnicate", says="'frobnicate'")
    refused("inject", says="FILE")
    refused("diff", "one.h5", says="B")


def test_bad_files_are_refused_by_every_command(model: Path, tmp_path: Path) -> None:
    cut, text, empty = tmp_path / "cut.h5", tmp_path / "text.h5", tmp_path / "empty.h5"
    cut.write_bytes(model.read_bytes()[:-100])
    text.write_text("not HDF5 " * 100)
    empty.write_bytes(b"")
    header = tmp_path / "header.h5"
    header.write_bytes(model.read_bytes()[:60])
    names = names_in(tmp_path)
    cases = {
        cut: "is truncated",
        text: "is not an HDF5 file",
        empty: "is empty",
        header: "header.h5",
        tmp_path / "missing.h5": "No such file",
        tmp_path: "is a directory",
    }
    for path, says in cases.items():
        refused("ls", path, says=says)
        refused("inject", path, "-o", tmp_path / "out.h5", says=says)
        refused("inject", path, "--in-place", says=says)
        refused("diff", model, path, says=says)
        refused("diff", path, model, says=says)
    assert names_in(tmp_path) == names


@pytest.mark.parametrize("seed", range(6))
def test_a_file_with_flipped_structure_bytes_never_crashes_ls(model: Path, tmp_path: Path, seed: int) -> None:
    data, generator = bytearray(model.read_bytes()), random.Random(seed)
    first = min(offset_of(model, "model/conv1.weight"), 2048)
    damaged = tmp_path / "damaged.h5"
    for _ in range(40):
        copy = bytearray(data)
        for _ in range(3):
            copy[generator.randrange(first)] ^= 1 << generator.randrange(8)
        damaged.write_bytes(copy)
        done = subprocess.run([BITRIFT, "ls", damaged], capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode in (0, 2), (seed, done.returncode, done.stderr)
        assert done.stderr.count("\n") == (1 if done.returncode else 0), done.stderr


def test_links_are_listed_once_and_circles_end(tmp_path: Path) -> None:
    path, other = tmp_path / "links.h5", tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["foreign"] = np.ones(3)
    with h5py.File(path, "w") as file:
        file["a/w"] = np.ones(3, "<f4")
        file["a/circle"] = file["/"]
        file["b/again"] = file["a/w"]
        file["soft"] = h5py.SoftLink("/a/w")
        file["dangling"] = h5py.SoftLink("/nowhere")
        file["outside"] = h5py.ExternalLink(str(other), "/foreign")
    assert [row["path"] for row in run_json("ls", path)["tensors"]] == ["a/w"]
    with h5py.File(path, "w") as file:
        group = file
        for _ in range(300):
            group = group.create_group("g")
    refused("ls", path, says="nested more than")


# --- a hostile system


def test_a_folder_that_cannot_be_written_is_one_line(model: Path, tmp_path: Path) -> None:
    for out in ("/proc/out.h5", tmp_path / "missing" / "out.h5", model / "out.h5"):
        refused("inject", model, "-o", out, says=str(out))
    refused("inject", model, "-o", tmp_path, says="is a directory")


def test_a_file_size_limit_leaves_nothing_behind(tmp_path: Path) -> None:
    path = support.model_file(tmp_path / "big.h5", 30_000)
    before = path.read_bytes()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    refused("inject", path, "-o", tmp_path / "out.h5", says="File too large", preexec_fn=limit)
    refused("inject", path, "--in-place", "--count", 3000, says="File too large", preexec_fn=limit)
    assert (path.read_bytes(), names_in(tmp_path)) == (before, ["big.h5"])


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    path, disk = support.model_file(tmp_path / "big.h5", 30_000), tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("a small file system cannot be mounted here; the file size limit stands for it")
    try:
        refused("inject", path, "-o", disk / "out.h5", says="No space left")
        assert names_in(disk) == []
        refused(
            "inject",
            path,
            "-o",
            tmp_path / "out.h5",
            "--count",
            3000,
            "--manifest",
            disk / "m.json",
            says="No space left",
        )
        assert names_in(disk) == []
        assert names_in(tmp_path) == ["big.h5", "disk"]
    finally:
        subprocess.run(["umount", disk], check=True)


def test_output_that_cannot_be_printed_is_an_error(model: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([BITRIFT, "ls", model], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert "standard output" in done.stderr


HOLD = "import h5py, sys; f = h5py.File(sys.argv[1], sys.argv[2]); print('held', flush=True); sys.stdin.read()"


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_file_that_others_use_is_not_altered(model: Path, tmp_path: Path, mode: str) -> None:
    before = model.read_bytes()
    environment = {**os.environ, "HDF5_USE_FILE_LOCKING": "TRUE"}
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, model, mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        refused("inject", model, "--in-place", says="another program")
        if mode == "r":
            run("inject", model, "-o", tmp_path / "out.h5")
        else:
            refused("ls", model, says="another program")
            refused("inject", model, "-o", tmp_path / "out.h5", says="another program")
    finally:
        holder.communicate("", timeout=20)
    assert mode == "r+" or model.read_bytes() == before
    run("inject", model, "--in-place")
    run("undo", model)


# --- ls and diff


def test_ls_agrees_with_h5py(model: Path, formats: Path) -> None:
    for path in (model, formats):
        rows = {row["path"]: row for row in run_json("ls", path)["tensors"]}
        found = {}
        with h5py.File(path) as file:
            file.visititems(
                lambda name, item, f=found: f.update({name: item}) if isinstance(item, h5py.Dataset) else None
            )
            assert sorted(found) == list(rows)
            for name, item in found.items():
                assert rows[name]["shape"] == list(item.shape)
                assert rows[name]["bytes"] == item.id.get_storage_size()
                assert rows[name]["offset"] == item.id.get_offset()
                if not name.startswith(("bf16", "checksum")):
                    assert rows[name]["dtype"] == item.dtype.newbyteorder("=").name
    roles = {row["path"]: row["role"] for row in run_json("ls", model)["tensors"]}
    assert roles["model/bn.weight"] == "norm"
    assert roles["model/bn.num_batches_tracked"] == "running_stat"
    assert roles["optimizer/momentum_buffer/conv1.weight"] == "momentum"
    assert "model/conv1.weight" in run("ls", model).stdout


def test_diff_counts_what_numpy_counts(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    assert run_json("diff", model, model)["differences"] == []
    run("inject", model, "-o", out, "--tensor", "model/conv1.weight", "--count", 60, "--seed", 4)
    rows = {row["path"]: row for row in run_json("diff", model, out, code=1)["differences"]}
    with h5py.File(model) as a, h5py.File(out) as b:
        x = (a["model/conv1.weight"][()].view("u4") ^ b["model/conv1.weight"][()].view("u4")).ravel()
    assert rows["model/conv1.weight"]["bits"] == np.bitwise_count(x).sum() == 60
    assert rows["model/conv1.weight"]["elements"] == np.count_nonzero(x)
    assert rows["model/conv1.weight"]["first_element"] == np.flatnonzero(x)[0]
    assert set(rows) == {"model/conv1.weight", "checksum/crc32c"}


def test_diff_sees_values_not_storage(tmp_path: Path) -> None:
    one, two = tmp_path / "1.h5", tmp_path / "2.h5"
    data = np.arange(1000, dtype="<f4")
    with h5py.File(one, "w") as a, h5py.File(two, "w") as b:
        a["w"] = data
        b.create_dataset("w", data=data.astype(">f4"), chunks=(100,), compression="gzip", shuffle=True)
    run("diff", one, two)
    with h5py.File(two, "r+") as b:
        b["w"][7] = np.nan
        b["more"] = np.ones(3)
        b.attrs["spec"] = "x"
    with h5py.File(one, "r+") as a:
        a["shape"] = np.ones((2, 3))
        a["text"] = "abc"
    with h5py.File(two, "r+") as b:
        b["shape"] = np.ones((3, 2))
        b["text"] = "abc"
    rows = {row["path"]: row for row in run_json("diff", one, two, code=1)["differences"]}
    assert {name: row["kind"] for name, row in rows.items()} == {
        "@spec": "only_in_second",
        "more": "only_in_second",
        "shape": "shape",
        "text": "not_compared",
        "w": "values",
    }
    assert (rows["w"]["elements"], rows["w"]["first_element"]) == (1, 7)


def test_ls_of_a_small_checkpoint_takes_less_than_30_ms(model: Path) -> None:
    times = []
    for _ in range(30):
        start = time.perf_counter()
        run("ls", model)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.030


def test_doctor_says_what_is_here() -> None:
    done = subprocess.run([BITRIFT, "doctor", "--json"], capture_output=True, text=True, timeout=60, check=False)
    document = json.loads(done.stdout)
    assert done.returncode == (0 if document["complete"] else 1)
    findings = {entry["name"]: entry for entry in document["findings"]}
    assert findings["HDF5"]["found"].count(".") == 2
    assert all(entry["found"] or entry["remedy"] for entry in findings.values())
