"""Injections in place and their undo, those that were cut short included; manifests and their replay."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import inject_support as support
import pytest
from inject_support import names_in, refused, run, undo_ranges


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return support.model_file(tmp_path / "model.h5")


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
    offset, before, after = undo_ranges(tmp_path / "model.h5.undo")[0]
    foreign = next(x for x in range(256) if x not in (before[0], after[0]))
    data = bytearray(model.read_bytes())
    data[offset] = foreign
    model.write_bytes(data)
    refused("undo", model, says="has changed since")
    assert model.read_bytes() == data
    assert (tmp_path / "model.h5.undo").exists()
    model.write_bytes(data[:-8])
    refused("undo", model, says="replaced or changed")


def test_a_damaged_undo_journal_is_refused(model: Path, tmp_path: Path) -> None:
    run("inject", model, "--in-place")
    altered, journal = model.read_bytes(), tmp_path / "model.h5.undo"
    text = journal.read_bytes()
    turned = text[:-1] + bytes([text[-1] ^ 1])
    for damaged in (text[:-5], turned, text.replace(b'"ranges":', b'"ranges":1'), text + b"x", b"{}", b""):
        journal.write_bytes(damaged)
        line = refused("undo", model, says="is damaged")
        assert "json" not in line.replace(str(model.parent), "")
        assert model.read_bytes() == altered


def test_an_injection_that_was_cut_short_is_taken_back_by_the_next(model: Path, tmp_path: Path) -> None:
    before = model.read_bytes()
    run("inject", model, "--in-place", "--tensor", "model/conv1.weight", "--count", 40, "--seed", 1)
    altered = model.read_bytes()
    ranges = undo_ranges(tmp_path / "model.h5.undo")
    cut = bytearray(before)
    for offset, _, new in ranges[: len(ranges) // 2]:
        cut[offset : offset + len(new)] = new
    offset, _, new = ranges[len(ranges) // 2]  # torn inside of an element
    cut[offset : offset + 2] = new[:2]
    assert before != cut != altered
    model.write_bytes(cut)
    done = run("inject", model, "--in-place", "--tensor", "model/conv1.bias", "--what", "zero", "--count", 7)
    assert "interrupted" in done.stderr
    run("undo", model)
    assert model.read_bytes() == before


def test_a_replay_gives_the_same_file(model: Path, tmp_path: Path) -> None:
    one, two, manifest = tmp_path / "1.h5", tmp_path / "2.h5", tmp_path / "m.json"
    run("inject", model, "-o", one, "--count", 30, "--manifest", manifest)
    run("inject", model, "-o", two, "--replay", manifest)
    assert one.read_bytes() == two.read_bytes()
    document = json.loads(manifest.read_text())
    assert document["schema"] == "bitrift/fault-manifest/3"
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

    refuse({"old": []}, "faults")
    refuse({"old": -5}, "-5 is not a bit pattern")
    refuse({"old": 5}, "do not differ in the bits")
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
