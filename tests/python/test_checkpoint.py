"""Listing, altering, undoing and comparing checkpoints, read back by h5py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import bitrift
import h5py
import numpy as np
import pytest
from synthetic import write_checkpoint

NUMERIC = ["model/conv1.bias", "model/conv1.weight", "model/conv10.bias", "optimizer/momentum_buffer/conv1.weight"]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint.h5"
    write_checkpoint(path)
    return path


def values(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    with h5py.File(path, "r") as file:
        return {name: file[name][()] for name in NUMERIC}


def patterns(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    native = array.astype(array.dtype.newbyteorder("="))
    return native.view(f"u{native.dtype.itemsize}").reshape(-1)


def test_list_agrees_with_h5py(checkpoint: Path) -> None:
    tensors = {tensor.path: tensor for tensor in bitrift.list_tensors(checkpoint)}
    assert list(tensors) == sorted([*NUMERIC, "extra/note", "extra/packed"])
    with h5py.File(checkpoint, "r") as file:
        for name in NUMERIC:
            dataset = file[name]
            tensor = tensors[name]
            assert tensor.shape == dataset.shape
            assert tensor.dtype == dataset.dtype.name
            assert tensor.stored_bytes == dataset.id.get_storage_size()
            assert tensor.offset == dataset.id.get_offset()
            assert tensor.storage == "contiguous"
            assert tensor.refusal == ""
    assert tensors["model/conv1.weight"].role == "weight"
    assert tensors["model/conv1.bias"].role == "bias"
    assert tensors["optimizer/momentum_buffer/conv1.weight"].role == "momentum"
    assert tensors["extra/packed"].storage == "chunked+filters"
    assert tensors["extra/packed"].refusal == ""
    assert tensors["extra/note"].refusal != ""


def test_inject_flips_exactly_what_the_manifest_says(checkpoint: Path, tmp_path: Path) -> None:
    before = checkpoint.read_bytes()
    output = tmp_path / "altered.h5"
    manifest = bitrift.inject(checkpoint, output, tensors=["model/*.*"], count=20, seed=3)
    assert checkpoint.read_bytes() == before
    old, new = values(checkpoint), values(output)
    changed = set()
    for name in NUMERIC:
        for element in np.flatnonzero(patterns(old[name]) != patterns(new[name])):
            changed.add((name, int(element), int(patterns(old[name])[element]), int(patterns(new[name])[element])))
    faults = manifest["faults"]
    assert changed == {(f["tensor"], f["element"], f["old"], f["new"]) for f in faults}
    assert sum(len(fault["bits"]) for fault in faults) == 20
    for fault in faults:
        assert fault["old"] ^ fault["new"] == sum(1 << bit for bit in fault["bits"])


def test_a_glob_does_not_reach_a_longer_name(checkpoint: Path, tmp_path: Path) -> None:
    manifest = bitrift.inject(checkpoint, tmp_path / "o.h5", tensors=["model/conv1.*"], count=50)
    assert {fault["tensor"] for fault in manifest["faults"]} <= {"model/conv1.weight", "model/conv1.bias"}


def test_layers_and_planes_are_chosen(checkpoint: Path, tmp_path: Path) -> None:
    layers = {tensor.path: tensor.layer for tensor in bitrift.list_tensors(checkpoint)}
    assert (layers["model/conv1.weight"], layers["model/conv10.bias"]) == ("conv1", "conv10")
    drawn = bitrift.plan(checkpoint, layers=["conv10"], count=2, seed=3)
    assert {layers[fault["tensor"]] for fault in drawn["faults"]} == {"conv10"}
    with pytest.raises(bitrift.Error, match="conv7"):
        bitrift.plan(checkpoint, layers=["conv7"])
    with pytest.raises(TypeError, match="sequences, not"):
        bitrift.plan(checkpoint, layers="first")
    before = checkpoint.read_bytes()
    manifest = bitrift.inject(checkpoint, tmp_path / "out.h5", plane="metadata", count=5, seed=1)
    after = (tmp_path / "out.h5").read_bytes()
    places = [i for i in range(len(before)) if before[i] != after[i]]
    assert places == sorted(fault["element"] for fault in manifest["faults"])
    assert all(fault["structure"] for fault in manifest["faults"])


def test_a_bit_field_is_kept(checkpoint: Path, tmp_path: Path) -> None:
    manifest = bitrift.inject(checkpoint, tmp_path / "o.h5", roles=["weight"], bits="exponent", count=60)
    bits = {bit for fault in manifest["faults"] for bit in fault["bits"]}
    assert bits <= set(range(23, 31)) and len(bits) > 3


def test_equal_seeds_give_equal_files_and_others_do_not(checkpoint: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / f"{i}.h5" for i in range(3)]
    for output, seed in zip(outputs, (1, 1, 2), strict=True):
        bitrift.inject(checkpoint, output, roles=["weight"], count=5, seed=seed)
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert outputs[0].read_bytes() != outputs[2].read_bytes()


def test_one_fault_is_drawn_when_no_amount_is_given(checkpoint: Path, tmp_path: Path) -> None:
    manifest = bitrift.inject(checkpoint, tmp_path / "o.h5", roles=["weight", "bias"])
    assert len(manifest["faults"]) == 1
    assert len(value_differences(checkpoint, tmp_path / "o.h5")) == 1


def test_undo_restores_every_byte(checkpoint: Path) -> None:
    before = checkpoint.read_bytes()
    bitrift.inject(checkpoint, in_place=True, roles=["weight"], bits="sign", count=7)
    assert checkpoint.read_bytes() != before
    assert bitrift.undo(checkpoint) > 0
    assert checkpoint.read_bytes() == before
    with pytest.raises(bitrift.Error) as raised:
        bitrift.undo(checkpoint)
    assert raised.value.code == "not_found"


def test_plan_writes_nothing_and_says_what_inject_does(checkpoint: Path, tmp_path: Path) -> None:
    listed = sorted(tmp_path.iterdir())
    before = checkpoint.read_bytes()
    planned = bitrift.plan(checkpoint, roles=["bias"], count=3, seed=9)
    assert sorted(tmp_path.iterdir()) == listed
    assert checkpoint.read_bytes() == before
    done = bitrift.inject(checkpoint, tmp_path / "o.h5", roles=["bias"], count=3, seed=9)
    for manifest in (planned, done):
        assert manifest.pop("provenance")["command"]
    assert done == planned


def test_without_a_seed_a_random_one_is_told(checkpoint: Path, tmp_path: Path) -> None:
    first = bitrift.inject(checkpoint, tmp_path / "a.h5", roles=["weight"], count=8)
    again = bitrift.inject(checkpoint, tmp_path / "b.h5", roles=["weight"], count=8, seed=first["model"]["seed"])
    assert again["faults"] == first["faults"]
    other = bitrift.plan(checkpoint, roles=["weight"], count=8)
    assert other["model"]["seed"] != first["model"]["seed"]


def test_a_manifest_is_replayed_on_its_base_only(checkpoint: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.json"
    first = bitrift.inject(checkpoint, tmp_path / "a.h5", roles=["weight"], count=4)
    bitrift.save_manifest(first, manifest)  # a random bit may give NaN, which json.dumps writes as no JSON
    assert bitrift.replay(checkpoint, tmp_path / "b.h5", manifest=manifest) == first
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
    other = tmp_path / "other.h5"
    write_checkpoint(other, seed=1)
    for force in (False, True):  # other values: force does not help
        with pytest.raises(bitrift.Error) as raised:
            bitrift.replay(other, tmp_path / "c.h5", manifest=manifest, force=force)
        assert raised.value.code == "conflict"
    assert not (tmp_path / "c.h5").exists()


def test_a_manifest_is_replayed_by_name_in_another_layout(checkpoint: Path, tmp_path: Path) -> None:
    manifest, other, out = tmp_path / "manifest.json", tmp_path / "other.h5", tmp_path / "out.h5"
    first = bitrift.inject(checkpoint, tmp_path / "a.h5", tensors=["model/conv1.weight"], count=30, seed=2)
    manifest.write_text(json.dumps(first), encoding="utf-8")
    with h5py.File(checkpoint) as source, h5py.File(other, "w") as file:
        weight = source["model/conv1.weight"][()]
        file.create_dataset("model/conv1.weight", data=weight.astype(">f4"), chunks=True, compression="gzip")
    with pytest.raises(bitrift.Error, match="--by-name"):
        bitrift.replay(other, out, manifest=manifest)
    with pytest.raises(bitrift.Error, match="exclude each other"):
        bitrift.replay(other, out, manifest=manifest, by_name=True, force=True)
    assert bitrift.replay(other, out, manifest=manifest, by_name=True)["faults"] == first["faults"]
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(out) as b:
        altered = b["model/conv1.weight"][()].astype("<f4")
        assert a["model/conv1.weight"][()].tobytes() == altered.tobytes() != weight.tobytes()


def test_diff_names_tensor_and_bits(checkpoint: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.h5"
    copy.write_bytes(checkpoint.read_bytes())
    assert bitrift.diff(checkpoint, copy) == []
    with h5py.File(copy, "r+") as file:
        file["model/conv1.bias"][2] = -file["model/conv1.bias"][2]
    (difference,) = value_differences(checkpoint, copy)
    assert (difference.path, difference.role, difference.dtype) == ("model/conv1.bias", "bias", "float64")
    assert (difference.elements, difference.bits, difference.first_element) == (1, 1, 2)
    assert difference.first_old ^ difference.first_new == 1 << 63


def value_differences(first: Path, second: Path) -> list[bitrift.Difference]:
    differences = bitrift.diff(first, second)
    # The text cannot be compared, and that is said.
    assert [d.path for d in differences if d.kind == "not_compared"] == ["extra/note"]
    return [d for d in differences if d.kind != "not_compared"]


def refused(code: str, call: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(bitrift.Error) as raised:
        call(*arguments, **options)
    assert raised.value.code == code, str(raised.value)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_errors_have_codes_and_leave_nothing(checkpoint: Path, tmp_path: Path) -> None:
    output = tmp_path / "o.h5"
    text = tmp_path / "text.h5"
    text.write_text("this is no HDF5 file")
    missing = tmp_path / "missing.h5"
    assert str(missing) in refused("not_found", bitrift.list_tensors, missing)
    assert str(text) in refused("bad_file", bitrift.list_tensors, text)
    assert "nothere" in refused("not_found", bitrift.inject, checkpoint, output, tensors=["model/nothere"])
    refused("bad_input", bitrift.inject, checkpoint, output, roles=["weight"], bits="elbow")
    refused("bad_input", bitrift.inject, checkpoint, output, roles=["weight"], count=10**9)
    refused("bad_input", bitrift.inject, checkpoint, output, roles=["weight"], count=1, ber=0.1)
    refused("bad_input", bitrift.inject, checkpoint, checkpoint, roles=["weight"])
    refused("unsupported", bitrift.inject, checkpoint, output, tensors=["extra/note"])
    refused("not_found", bitrift.inject, checkpoint, tmp_path / "no" / "folder.h5", roles=["weight"])
    assert not output.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint.h5", "text.h5"}


def test_a_file_that_somebody_holds_is_not_altered_in_place(checkpoint: Path) -> None:
    with h5py.File(checkpoint, "r"):
        refused("busy", bitrift.inject, checkpoint, in_place=True, roles=["weight"])


def test_where_to_write_must_be_said_once(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        bitrift.inject(checkpoint)
    with pytest.raises(TypeError):
        bitrift.inject(checkpoint, tmp_path / "o.h5", in_place=True)
    with pytest.raises(TypeError, match="sequences"):
        bitrift.inject(checkpoint, tmp_path / "o.h5", roles="weight")


def test_values_of_the_wrong_type_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    wrong: Any = "many"
    refused("bad_input", bitrift.inject, checkpoint, tmp_path / "o.h5", roles=["weight"], count=wrong)
