"""What a Python user writes: numbers for bits and layers, a chosen element, manifests as dicts, errors as classes."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import bitrift
import h5py
import numpy as np
import pytest
from synthetic import write_campaign, write_checkpoint
from test_checkpoint import patterns, values
from test_results import rows_with_details

WEIGHT = "model/conv1.weight"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint.h5"
    write_checkpoint(path)
    return path


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (30, "30"),
        ([30, 22], "22,30"),
        ((5,), "5"),
        (range(4), "0-3"),
        (np.int64(7), "7"),
        (np.array([1, 2]), "1,2"),
        ("sign", "sign"),
    ],
)
def test_bits_are_numbers_or_a_text(bits: Any, text: str, checkpoint: Path) -> None:
    chosen = bitrift.plan(checkpoint, roles=["weight"], bits=bits, count=40, seed=1)
    assert chosen["faults"] == bitrift.plan(checkpoint, roles=["weight"], bits=text, count=40, seed=1)["faults"]


def test_layers_are_numbers_or_names(checkpoint: Path) -> None:
    by_number = bitrift.plan(checkpoint, layers=[0], count=5, seed=1)
    assert by_number["faults"] == bitrift.plan(checkpoint, layers=["conv1"], count=5, seed=1)["faults"]
    assert bitrift.plan(checkpoint, layers=[1, "conv1"], seed=1)["model"]["layers"] == ["1", "conv1"]


def test_a_chosen_element_gets_exactly_the_chosen_bits(checkpoint: Path, tmp_path: Path) -> None:
    before = patterns(values(checkpoint)[WEIGHT])
    flat = int(np.ravel_multi_index((3, 0, 1, 4), (6, 1, 5, 5)))
    for element in (flat, (3, 0, 1, 4), np.int64(flat), np.array([3, 0, 1, 4])):
        output = tmp_path / "o.h5"
        manifest = bitrift.inject(checkpoint, output, tensor=WEIGHT, element=element, bits=[22, 30])
        after = patterns(values(output)[WEIGHT])
        assert [(int(i), int(before[i] ^ after[i])) for i in np.flatnonzero(before != after)] == [
            (flat, 1 << 22 | 1 << 30)
        ]
        (fault,) = manifest["faults"]
        assert (fault["element"], fault["old"], fault["new"]) == (flat, int(before[flat]), int(after[flat]))
        assert manifest["eligible_bits"] == 2 and manifest["eligible_elements"] == 1


def test_a_chosen_element_can_be_set_and_drawn_from(checkpoint: Path, tmp_path: Path) -> None:
    bitrift.inject(checkpoint, tmp_path / "o.h5", tensor=WEIGHT, element=7, what="set", value=-2.5)
    old, new = (values(path)[WEIGHT].reshape(-1) for path in (checkpoint, tmp_path / "o.h5"))
    assert new[7] == -2.5 and np.array_equal(np.delete(old, 7), np.delete(new, 7))
    one = bitrift.plan(checkpoint, tensor=WEIGHT, element=7, bits="mantissa", seed=1)["faults"]
    assert [(fault["element"], len(fault["bits"])) for fault in one] == [(7, 1)]
    assert bitrift.plan(checkpoint, tensor=WEIGHT, element=7, bits=[1, 2, 3], count=2)["model"]["count"] == 2


def test_elements_that_there_are_not_are_refused(checkpoint: Path) -> None:
    def key_of(kind: type[bitrift.Error], **arguments: Any) -> str:
        with pytest.raises(kind) as raised:
            bitrift.plan(checkpoint, **arguments)
        return raised.value.key

    assert key_of(bitrift.BadInput, tensor=WEIGHT, element=150) == "element"
    assert key_of(bitrift.BadInput, tensor=WEIGHT, element=-1) == "element"
    assert key_of(bitrift.BadInput, tensor=WEIGHT, element=(6, 0, 0, 0)) == "element"
    assert key_of(bitrift.BadInput, tensor=WEIGHT, element=(1, 2)) == "element"
    assert key_of(bitrift.BadInput, element=(1, 2)) == "element"
    assert key_of(bitrift.BadInput, element=1) == "element"
    assert key_of(bitrift.NotFound, tensor="model/none", element=(1, 2)) == "tensor"
    assert key_of(bitrift.BadInput, tensor=WEIGHT, bits=[]) == "bits"
    with pytest.raises(TypeError):
        bitrift.plan(checkpoint, tensor=WEIGHT, tensors=[WEIGHT])
    wrong: Any = 3.5
    with pytest.raises(TypeError):
        bitrift.plan(checkpoint, tensor=WEIGHT, bits=wrong)


def test_patterns_are_integers_and_values_are_numbers(checkpoint: Path, tmp_path: Path) -> None:
    with h5py.File(checkpoint, "r+") as file:
        file["model/count"] = np.array([-5, 2**62 + 1], np.int64)
    with h5py.File(checkpoint) as file:
        weight = file[WEIGHT][()].reshape(-1)
    (fault,) = bitrift.plan(checkpoint, tensor=WEIGHT, element=2, what="nan")["faults"]
    assert fault["old"] == int(weight.view("u4")[2]) and np.float32(fault["old_value"]) == weight[2]
    assert fault["new"] == 0x7FC00000 and math.isnan(fault["new_value"])
    (fault,) = bitrift.plan(checkpoint, tensor="model/count", element=1, bits=0)["faults"]
    assert (fault["old_value"], fault["new_value"], fault["old"]) == (2**62 + 1, 2**62, 2**62 + 1)
    (fault,) = bitrift.plan(checkpoint, tensor="model/count", element=0, what="set", value=-(2**60) - 1)["faults"]
    assert (fault["old_value"], fault["new_value"], fault["new"]) == (-5, -(2**60) - 1, 2**64 - 2**60 - 1)


@pytest.mark.parametrize("what", [{"what": "nan"}, {"what": "set", "value": math.inf}, {"what": "xor", "mask": 0x5}])
def test_a_manifest_is_replayed_as_it_was_returned(what: dict[str, Any], checkpoint: Path, tmp_path: Path) -> None:
    manifest = bitrift.inject(checkpoint, tmp_path / "a.h5", roles=["weight"], count=4, seed=3, **what)
    names = [tmp_path / f"{i}.h5" for i in range(2)]
    bitrift.save_manifest(manifest, tmp_path / "m.json")
    json.loads((tmp_path / "m.json").read_text(), parse_constant=pytest.fail)  # plain JSON, without NaN
    assert bitrift.replay(checkpoint, names[0], manifest=manifest) == manifest
    assert bitrift.replay(checkpoint, names[1], manifest=tmp_path / "m.json") == manifest
    assert {path.read_bytes() for path in names} == {(tmp_path / "a.h5").read_bytes()}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.h5", "1.h5", "a.h5", "checkpoint.h5", "m.json"]


def test_a_manifest_that_json_dump_wrote_is_read_too(checkpoint: Path, tmp_path: Path) -> None:
    manifest = bitrift.plan(checkpoint, roles=["weight"], bits="mantissa", count=3, seed=3)
    (tmp_path / "m.json").write_text(json.dumps(manifest))
    assert bitrift.replay(checkpoint, tmp_path / "o.h5", manifest=tmp_path / "m.json") == manifest


def test_a_damaged_manifest_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    manifest = bitrift.plan(checkpoint, roles=["weight"], seed=3)
    for key, value in (("old", -1), ("new", 2**40), ("bits", [40]), ("element", "x")):
        damaged = {**manifest, "faults": [{**manifest["faults"][0], key: value}]}
        with pytest.raises(bitrift.Error):
            bitrift.replay(checkpoint, tmp_path / "o.h5", manifest=damaged)
    with pytest.raises(bitrift.BadInput):
        bitrift.replay(checkpoint, tmp_path / "o.h5", manifest={})
    assert not (tmp_path / "o.h5").exists()


def test_errors_are_what_python_calls_them(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "text.h5").write_text("no HDF5")
    with pytest.raises(FileNotFoundError) as missing:
        bitrift.list_tensors(tmp_path / "none.h5")
    assert isinstance(missing.value, bitrift.NotFound) and missing.value.code == "not_found"
    with pytest.raises(LookupError):
        bitrift.plan(checkpoint, tensor="model/none")
    with pytest.raises(bitrift.BadFile):
        bitrift.list_tensors(tmp_path / "text.h5")
    with pytest.raises(bitrift.Unsupported):
        bitrift.plan(checkpoint, tensor="extra/note")
    with pytest.raises(bitrift.Busy), h5py.File(checkpoint, "r"):
        bitrift.inject(checkpoint, in_place=True)
    other = tmp_path / "other.h5"
    write_checkpoint(other, seed=1)
    with pytest.raises(bitrift.Conflict):
        bitrift.replay(other, tmp_path / "o.h5", manifest=bitrift.plan(checkpoint, roles=["weight"]))
    with pytest.raises(ValueError) as wrong:
        bitrift.wilson(1, 2, 3)
    assert isinstance(wrong.value, bitrift.BadInput)
    for error in (missing.value, wrong.value):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.code, again.key) == (type(error), str(error), error.code, error.key)
    kinds = [getattr(bitrift, name) for name in bitrift.__all__]
    errors = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, bitrift.Error)]
    assert len({kind.code for kind in errors}) == 8 == len(errors) - 1


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({"bits": "elbow"}, "bits"),
        ({"count": 10**9}, "count"),
        ({"fraction": 1e-9}, "fraction"),
        ({"ber": 0.1, "what": "nan"}, "ber"),
        ({"layers": ["conv7"]}, "layers"),
        ({"roles": ["elbow"]}, "roles"),
        ({"tensors": ["elbow"]}, "tensors"),
        ({"what": "burst"}, "length"),
        ({"what": "xor", "mask": "9"}, "mask"),
        ({"factor": 2.0}, "factor"),
        ({"scope": {"replicas": 2}}, "scope"),
        ({"formats": {"**.weight": "float64"}}, "as"),
    ],
)
def test_an_error_names_the_argument(arguments: dict[str, Any], key: str, checkpoint: Path) -> None:
    with pytest.raises(bitrift.Error) as raised:
        bitrift.plan(checkpoint, **{"tensors": ["model/*.*"], **arguments})
    assert raised.value.key == key


def test_rows_hold_integers_and_floats(tmp_path: Path) -> None:
    rows = rows_with_details()
    judged = next(one for one in rows if one["faults"] and "result" in one)
    judged["result"]["replicas"][0][0] |= {"test_loss": "NaN", "train_loss": "-Infinity"}
    write_campaign(tmp_path, rows, ["serial", "data2"])
    read = bitrift.read_journal(tmp_path)[rows.index(judged)]
    (fault,) = read["faults"]
    assert (fault["old"], fault["new"]) == (0x3FF0000000000001, 0xFFF0000000000001)
    evaluation = read["result"]["replicas"][0][0]
    assert math.isnan(evaluation["test_loss"]) and evaluation["train_loss"] == -math.inf
    assert read["id"] == judged["id"]
