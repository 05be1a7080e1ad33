"""Settings and sequences of hdf5_corrupter, as convert-config turns them into ours (docs/hdf5_corrupter.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import yaml
from bitrift import list_tensors
from bitrift.__main__ import main
from bitrift.corrupter import ConversionError, Converted, convert
from bitrift.corrupter_sequence import sequence_to_manifest

SETTINGS: dict[str, Any] = {
    "injection_probability": 1,
    "injection_type": "count",
    "injection_tries": 5,
    "float_precision": 32,
    "allow_sign_change": False,
    "allow_NaN_values": True,
    "use_random_locations": True,
    "save_injection_sequence": False,
}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "base.h5"
    with h5py.File(path, "w") as file:
        file["m/conv1/W"] = np.arange(50, dtype="<f4").reshape(5, 10)
        file["m/conv10/W"] = np.ones((5, 10), "<f4")
        file["m/steps"] = np.array([40, -5], "<i8")
        file["m/text"] = "a text"
    return path


def converted(base: Path, **changes: Any) -> Converted:
    settings = SETTINGS | {"hdf5_file": str(base)} | changes
    path = base.with_name("old.yaml")
    path.write_text(yaml.safe_dump({key: value for key, value in settings.items() if value is not None}))
    return convert(path)


def test_the_bits_are_counted_from_the_other_end(base: Path) -> None:
    def bits(first: int, last: int, **changes: Any) -> str:
        chosen = {"use_random_locations": False, "locations_to_corrupt": ["/m/conv1", "/m/conv10"]}
        return str(converted(base, first_bit=first, last_bit=last, **chosen, **changes).model["bits"])

    assert bits(1, 8) == "23-30"
    assert bits(0, 8) == "23-31"
    assert bits(31, 31) == "0"
    assert bits(0, 31) == "any"
    assert bits(30, 31, allow_sign_change=True) == "0,1,31"
    assert bits(0, 1, allow_sign_change=True) == "30-31"
    assert converted(base, float_precision="auto").model["bits"] == "any"


def test_what_was_asked_keeps_its_kind_and_amount(base: Path) -> None:
    model = converted(base).model
    assert model == {
        "tensors": [],
        "what": "flip",
        "bits": "any",
        "measure": "tensor",
        "count": 5,
        "allow_nan": True,
    }
    assert converted(base, bit_mask="1011").model["mask"] == "0b1011"
    assert converted(base, bit_mask="1011").model["mask_at"] == "random"
    assert converted(base, scaling_factor="1e3").model["factor"] == 1000
    assert converted(base, burst=3).model["length"] == 3
    assert converted(base, injection_tries=50, injection_probability=0.1).model["count"] == 5
    # Of all 103 values (the text is one, as it counted), whatever is targeted; truncated.
    assert converted(base, injection_type="percentage", injection_tries=1).model["count"] == 1
    assert converted(base, allow_NaN_values=False).model["allow_nan"] is False


def test_each_change_of_meaning_is_said(base: Path) -> None:
    def said(**changes: Any) -> str:
        return "\n".join(converted(base, **changes).notes)

    assert "adjacent" in said(burst=3)
    assert "on average" in said(injection_probability=0.5)
    assert "percent of the file's 103 values" in said(injection_type="percentage", injection_tries=1)
    assert "there is no log" in said(log_file_path="x")
    assert "every dataset is equally likely" in said()
    assert "in integers" in said(first_bit=1, last_bit=3)
    assert "but there are float32 values" in said(float_precision=64)
    only = {"use_random_locations": False, "locations_to_corrupt": ["/m/co"]}
    assert "only the beginning of names" in said(**only)
    assert converted(base, **only).model["tensors"] == ["m/co**"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"first_bit": 5, "last_bit": 2}, "not a range of the 32 bits"),
        ({"first_bit": 0, "last_bit": 32}, "not a range of the 32 bits"),
        ({"first_bit": "x"}, "is not a number"),
        ({"first_bit": 1.5}, "is not a whole number"),
        ({"first_bit": 1, "float_precision": "auto"}, "not auto"),
        ({"first_bit": 1, "float_precision": 64}, "mean nothing in the float32 values"),
        ({"float_precision": 8}, "none of 16, 32, 64, auto"),
        ({"bit_mask": "102"}, "not a mask of 0 and 1"),
        ({"bit_mask": "0"}, "not a mask of 0 and 1"),
        ({"bit_mask": "1" * 33}, "longer than float_precision"),
        ({"bit_mask": "1", "scaling_factor": 2}, "exclude each other"),
        ({"scaling_factor": 2, "burst": 2}, "exclude each other"),
        ({"burst": 0}, "not at least 1"),
        ({"injection_type": "all"}, "neither count nor percentage"),
        ({"injection_type": None}, "neither count nor percentage"),
        ({"injection_type": "percentage"}, "not a probability from 0 to 1"),
        ({"injection_tries": None}, "injection_tries is missing"),
        ({"injection_probability": 2}, "not from 0 to 1"),
        ({"injection_probability": "1e-8"}, "less than one fault"),
        ({"allow_NaN_values": "yes"}, "neither True nor False"),
        ({"use_random_locations": False}, "expected a list of names"),
        ({"use_random_locations": False, "locations_to_corrupt": "/m"}, "expected a list of names"),
        ({"use_random_locations": False, "locations_to_corrupt": ["/x"]}, "begins with '/x'"),
        ({"first_byte": 1}, "'first_byte' is not a setting"),
        ({"hdf5_file": None}, "hdf5_file is missing"),
        ({"hdf5_file": "/nowhere/x.h5"}, "does not exist"),
    ],
)
def test_what_cannot_be_meant_is_refused(base: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConversionError) as error:
        converted(base, **changes)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def sequence(base: Path, saved: object, **options: Any) -> tuple[dict[str, Any], list[str]]:
    path = base.with_name("sequence.json")
    path.write_text(json.dumps(saved))
    return sequence_to_manifest(path, base, **options)


def test_a_sequence_names_every_changed_bit(base: Path) -> None:
    saved = {"/m/conv1": [[[1, 2], [0, 31]], [[1, 2], [31]], [[0, 0], None]], "/m/steps": [[[0], 0], [[1], 2]]}
    manifest, notes = sequence(base, saved)
    faults = {(fault["tensor"], fault["element"]): fault for fault in manifest["faults"]}
    one = faults["m/conv1/W", 12]
    assert (one["bits"], one["field"], one["old"], one["new"]) == ([31], "sign", "0x41400000", "0xc1400000")
    assert int(faults["m/steps", 0]["new"], 16) == 40 ^ 32
    assert int(faults["m/steps", 1]["new"], 16) == 2**64 - 4
    assert len(faults) == 3
    assert any("1 tries" in note for note in notes)


@pytest.mark.parametrize(
    ("saved", "options", "says"),
    [
        ([], {}, "expected an object of locations"),
        ({"/m/conv1": [[[1, 2]]]}, {}, "expected pairs of indexes and bits"),
        ({"/x": [[[1], [2]]]}, {}, "begins with '/x'"),
        ({"/m/conv1": [[[5, 0], [2]]]}, {}, "is not an element of m/conv1/W"),
        ({"/m/conv1": [[[1], [2]]]}, {}, "is not an element of m/conv1/W"),
        ({"/m/conv1": [[[1, 2], [32]]]}, {}, "bit 32 (0 is the sign) is not one of its 32 bits"),
        ({"/m/conv1": [[[1, 2], [3]]]}, {"float_precision": "64"}, "the precision that it was saved with"),
        ({"/m/conv1": [[[], [3]]]}, {}, "give a --seed"),
        ({"/m": [[[0], [3]]]}, {}, "give a --seed"),
        ({"/m/steps": [[[0], 6]]}, {}, "has no digit 6"),
        ({"/m/text": [[[0], [1]]]}, {}, "have no bits that a manifest names"),
    ],
)
def test_a_sequence_that_fits_nothing_is_refused(base: Path, saved: object, options: Any, says: str) -> None:
    with pytest.raises(ConversionError) as error:
        sequence(base, saved, **options)
    assert says in str(error.value)


def test_a_seed_draws_what_a_sequence_leaves_open(base: Path) -> None:
    saved = {"/m/conv1": [[[], [3]]] * 6}
    assert sequence(base, saved, seed=4) == sequence(base, saved, seed=4)
    assert sequence(base, saved, seed=4) != sequence(base, saved, seed=5)


def test_the_command_writes_the_model_and_says_how_to_run_it(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    converted(base, save_injection_sequence=True)
    main(["convert-config", str(base.with_name("old.yaml"))])
    printed = capsys.readouterr()
    assert json.loads(printed.out)["count"] == 5
    assert f"run: bitrift inject {base} --in-place --model MODEL.json --manifest {base}.faults.json" in printed.err
    out = base.with_name("model.json")
    main(["convert-config", str(base.with_name("old.yaml")), "-o", str(out)])
    assert json.loads(out.read_text())["what"] == "flip"
    old = base.with_name("old.yaml")
    old.write_text(yaml.safe_dump(SETTINGS | {"hdf5_file": str(base), "bit_mask": "2"}))
    with pytest.raises(SystemExit) as end:
        main(["convert-config", str(old)])
    assert end.value.code == 2
    assert capsys.readouterr().err.endswith("put it in quotes in YAML)\n")


def test_roles_of_a_manifest_are_those_of_the_file(base: Path) -> None:
    base.with_name("sequence.json").write_text(json.dumps({"/m/conv1": [[[1, 2], [0]]]}))
    converted(base, float_precision="auto")
    out = base.with_name("manifest.json")
    options = ["--sequence", str(base.with_name("sequence.json")), "-o", str(out)]
    main(["convert-config", str(base.with_name("old.yaml")), *options])
    roles = {tensor.path: tensor.role for tensor in list_tensors(base)}
    assert json.loads(out.read_text())["faults"][0]["role"] == roles["m/conv1/W"]
