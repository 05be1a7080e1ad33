"""Each reproduced defect of hdf5_corrupter, and ours doing what was asked: the table in docs/hdf5_corrupter.md."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import yaml
from inject_support import BITRIFT, random_values, refused, run, run_json

CONFIG = {
    "injection_probability": 1,
    "injection_type": "count",
    "injection_tries": 5,
    "float_precision": 32,
    "allow_sign_change": True,
    "allow_NaN_values": True,
    "save_injection_sequence": False,
    "use_random_locations": True,
    "log_file_path": "./logs/",
}


def write(path: Path, tensors: dict[str, Any]) -> Path:
    with h5py.File(path, "w") as file:
        for name, value in tensors.items():
            file[name] = value
    return path


def read(path: Path) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: found.update({name: np.asarray(item[()])}) if isinstance(item, h5py.Dataset) else None
        )
    return found


def patterns(values: np.ndarray) -> np.ndarray:
    return values.view(f"u{values.dtype.itemsize}").ravel()


def changes(before: Path, after: Path) -> dict[str, np.ndarray]:
    """XOR of old and new patterns of the elements that differ."""
    one, other = read(before), read(after)
    found = {}
    for name, values in one.items():
        if values.dtype.kind not in "fiu" or values.size == 0:
            assert values.tolist() == other[name].tolist()
            continue
        mask = patterns(values) ^ patterns(other[name])
        if mask.any():
            found[name] = mask[mask != 0]
    return found


def bit_count(found: dict[str, np.ndarray]) -> int:
    return sum(int(np.bitwise_count(mask).sum()) for mask in found.values())


def convert(config: dict[str, Any], folder: Path, *options: object, code: int = 0) -> tuple[Path, str]:
    """python -m bitrift convert-config: the file that it writes and what it says."""
    old, new = folder / "old.yaml", folder / "new.json"
    old.write_text(yaml.safe_dump(config))
    call = [sys.executable, "-m", "bitrift", "convert-config", str(old), "-o", str(new), *map(str, options)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return new, done.stderr


def corrupted(config: dict[str, Any], base: Path, seed: int = 1) -> Path:
    """The file that a converted configuration gives, by the command that the conversion prints."""
    copy = base.with_name("altered.h5")
    copy.write_bytes(base.read_bytes())
    _, says = convert(CONFIG | config | {"hdf5_file": str(copy)}, base.parent)
    command = next(line for line in says.splitlines() if line.startswith("run: ")).removeprefix("run: ")
    program, *arguments = shlex.split(command)
    assert program == "bitrift"
    seeded = [] if "--replay" in arguments else ["--seed", str(seed)]
    run(*arguments, *seeded)
    return copy


def test_runs_on_current_pythons_and_repeats(tmp_path: Path) -> None:
    """Defect 1: it seeds Python's generator with a time stamp, a TypeError from Python 3.11 on."""
    assert sys.version_info >= (3, 11)
    base = write(tmp_path / "base.h5", {"conv1/W": random_values("<f4", (20, 30))})
    first = corrupted({}, base).read_bytes()
    assert bit_count(changes(base, tmp_path / "altered.h5")) == 5
    assert corrupted({}, base).read_bytes() == first
    assert corrupted({}, base, seed=2).read_bytes() != first


def test_masks_and_factors_are_applied(tmp_path: Path) -> None:
    """Defect 2: a misplaced `or` rejects every scaling_factor and every bit_mask."""
    base = write(tmp_path / "base.h5", {"w": random_values("<f4", (40, 5))})
    found = changes(base, corrupted({"bit_mask": "101011", "injection_tries": 8}, base))["w"]
    assert len(found) == 8
    shifted = {0b101011 << place for place in range(32 - 6 + 1)}
    assert set(found.tolist()) <= shifted
    assert len(set(found.tolist())) > 1  # at a place of its own in each value
    scaled = corrupted({"scaling_factor": 4, "injection_tries": 8}, base)
    before, after = read(base)["w"].ravel(), read(scaled)["w"].ravel()
    hit = before != after
    assert hit.sum() == 8
    assert np.array_equal(after[hit], before[hit] * np.float32(4))


def test_bits_are_those_of_the_stored_type(tmp_path: Path) -> None:
    """Defect 3: 64-bit mode turns float32 values into doubles, flips low bits that vanish, and logs success."""
    base = write(tmp_path / "base.h5", {"w": random_values("<f4", (40, 5))})
    found = changes(base, corrupted({"float_precision": 64, "injection_tries": 100}, base))
    assert len(found["w"]) > 0
    assert bit_count(found) == 100  # each flip landed
    ranged = CONFIG | {"float_precision": 64, "first_bit": 40, "last_bit": 63, "hdf5_file": str(base)}
    _, says = convert(ranged, tmp_path, code=2)
    assert says.count("\n") == 1
    assert "bits 40 to 63 of 64 mean nothing in the float32 values" in says
    exponent = {"float_precision": 32, "first_bit": 1, "last_bit": 8, "allow_sign_change": False}
    mask = np.bitwise_or.reduce(changes(base, corrupted(exponent | {"injection_tries": 300}, base))["w"])
    assert mask == 0x7F800000
    signed = {"first_bit": 9, "last_bit": 31, "injection_tries": 400}  # the sign bit is added
    mask = np.bitwise_or.reduce(changes(base, corrupted(signed, base))["w"])
    assert mask == 0x807FFFFF


def test_a_location_is_a_name_and_no_beginning_of_others(tmp_path: Path) -> None:
    """Defect 4: locations are compared by startswith, so layer1 hits layer10 too."""
    values = random_values("<f4", (6, 6))
    names = ["model/layer1.0.weight", "model/layer1.1.weight", "model/layer10.0.weight", "model/layer1/W", "x/layer1.w"]
    base = write(tmp_path / "base.h5", dict.fromkeys(names, values))
    chosen = {"use_random_locations": False, "locations_to_corrupt": ["/model/layer1"], "injection_tries": 60}
    assert set(changes(base, corrupted(chosen, base))) == {names[0], names[1], names[3]}
    _, says = convert(CONFIG | chosen | {"hdf5_file": str(base)}, tmp_path)
    assert "would also have hit model/layer10.0.weight" in says
    exact = chosen | {"locations_to_corrupt": ["/model/layer10.0.weight", "/model/layer1/"]}
    assert set(changes(base, corrupted(exact, base))) == {names[2], names[3]}
    absent = CONFIG | chosen | {"locations_to_corrupt": ["/model/layer2"], "hdf5_file": str(base)}
    assert "no dataset of the file begins with '/model/layer2'" in convert(absent, tmp_path, code=2)[1]


def test_replay_is_exact(tmp_path: Path) -> None:
    """Defect 5: replay draws integers' bits and the dataset below a prefix anew."""
    tensors = {
        "m/steps": np.array([40, -5, 7], "<i8"),
        "m/a/W": random_values("<f4", (4, 3)),
        "m/b/W": random_values(">f8", (5,)),
    }
    base = write(tmp_path / "base.h5", tensors)
    saved = {"/m/steps": [[[0], 1], [[1], 0]], "/m/a": [[[2, 1], [1, 31]], [[0, 0], None]], "/m/b/W": [[[4], [0]]]}
    sequence = tmp_path / "sequence.json"
    sequence.write_text(json.dumps(saved))
    config = {"float_precision": "auto", "injection_sequence_path": str(sequence)}
    after = read(corrupted(config, base))
    assert after["m/steps"].tolist() == [40 ^ 0b010000, -(5 ^ 0b100), 7]
    assert patterns(after["m/a/W"])[7] == patterns(tensors["m/a/W"])[7] ^ 0x40000001
    assert after["m/b/W"][4] == -tensors["m/b/W"][4]
    assert bit_count(changes(base, tmp_path / "altered.h5")) >= 4
    first = (tmp_path / "altered.h5").read_bytes()
    corrupted(config, base)
    assert (tmp_path / "altered.h5").read_bytes() == first
    # What was saved for a prefix of several datasets, or without indexes, is drawn once, by a seed that is given.
    sequence.write_text(json.dumps({"/m": [[[], [3]]]}))
    open_ends = CONFIG | config | {"hdf5_file": str(base)}
    assert "give a --seed" in convert(open_ends, tmp_path, code=2)[1]
    drawn = {convert(open_ends, tmp_path, "--seed", seed)[0].read_text() for seed in (4, 4, 4)}
    assert len(drawn) == 1
    # Ours: a manifest gives the same bytes again, integers included.
    options = ["--count", 20, "--seed", 9, "--manifest", tmp_path / "m.json"]
    run("inject", base, "-o", tmp_path / "a.h5", *options)
    run("inject", base, "-o", tmp_path / "b.h5", "--replay", tmp_path / "m.json")
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes() != base.read_bytes()


def test_complex_values_keep_their_other_part(tmp_path: Path) -> None:
    """Defect 6: a complex value goes through float() and loses its imaginary part."""
    values = random_values("<f4", (10, 2)).view("<c8").ravel()
    base = write(tmp_path / "base.h5", {"z": values, "w": random_values("<f4", (4,))})
    out = tmp_path / "out.h5"
    faults = run_json("inject", base, "-o", out, "--tensor", "z", "--count", 40, "--seed", 1)["faults"]
    assert {fault["tensor"] for fault in faults} == {"z:real", "z:imag"}
    expected = values.copy()
    parts = {"z:real": expected.view("<u4")[::2], "z:imag": expected.view("<u4")[1::2]}
    for fault in faults:
        parts[fault["tensor"]][fault["element"]] ^= sum(1 << bit for bit in fault["bits"])
    after = read(out)
    assert after["z"].tobytes() == expected.tobytes()  # NaN included
    assert after["w"].tobytes() == read(base)["w"].tobytes()
    assert np.bitwise_count(after["z"].view("<u4") ^ values.view("<u4")).sum() == 40
    run("inject", base, "-o", out, "--tensor", "z:imag", "--what", "zero", "--count", 10)
    assert np.array_equal(read(out)["z"], values.real)


def test_texts_and_empty_datasets_are_no_obstacle(tmp_path: Path) -> None:
    """Defect 7: strings, compounds and empty datasets raise when they are drawn."""
    tensors = {
        "config": "a text",
        "names": np.array([b"one", b"two"]),
        "nothing": np.zeros((0, 4), "f4"),
        "w": random_values("<f4", (30,)),
    }
    base = write(tmp_path / "base.h5", tensors)
    with h5py.File(base, "r+") as file:
        file["null"] = h5py.Empty("f4")
        file["scalar"] = np.float32(2)
    assert set(changes(base, corrupted({"injection_tries": 40}, base))) <= {"w", "scalar"}
    assert bit_count(changes(base, tmp_path / "altered.h5")) == 40
    row = np.array([(1.5, 2)], [("x", "<f4"), ("n", "<i4")])
    mixed = write(tmp_path / "mixed.h5", {"rows": row, "w": tensors["w"]})
    faults = run_json("inject", mixed, "--in-place", "--count", 50, "--seed", 2)["faults"]
    assert {fault["tensor"] for fault in faults} == {"rows:x", "rows:n", "w"}
    expected = row.copy()
    for fault in faults:
        if fault["tensor"] != "w":
            member = expected[fault["tensor"].removeprefix("rows:")].view("<u4")
            member[fault["element"]] ^= sum(1 << bit for bit in fault["bits"])
    assert read(mixed)["rows"].tobytes() == expected.tobytes() != row.tobytes()
    run("undo", mixed)
    only = run_json("inject", mixed, "-o", tmp_path / "n.h5", "--tensor", "rows:n", "--what", "set", "--value", 7)
    assert [fault["tensor"] for fault in only["faults"]] == ["rows:n"]
    assert read(tmp_path / "n.h5")["rows"].tolist() == [(1.5, 7)]


def test_five_dimensions_are_as_good_as_four(tmp_path: Path) -> None:
    """Defect 8: a dataset of five dimensions is passed over in silence, and counted as hit."""
    base = write(tmp_path / "base.h5", {"conv3d/W": random_values("<f4", (3, 2, 2, 3, 2))})
    assert bit_count(changes(base, corrupted({"injection_tries": 30}, base))) == 30


def test_forbidden_nan_ends(tmp_path: Path) -> None:
    """Defect 9: where every flip gives NaN it calls itself without end."""
    ones = np.full(50, 1.5, "<f4")
    base = write(tmp_path / "base.h5", {"w": ones})
    top = {"first_bit": 1, "last_bit": 1, "allow_sign_change": False, "allow_NaN_values": False}
    model, _ = convert(CONFIG | top | {"hdf5_file": str(base)}, tmp_path)
    refused("inject", base, "--dry-run", "--model", model, "--seed", 1, says="only 0 of the 5 faults can be placed")
    ones[::10] = 0.5
    base = write(tmp_path / "base.h5", {"w": ones})
    altered = corrupted(top, base)  # five values of fifty can take it
    assert np.array_equal(np.flatnonzero(read(altered)["w"] != ones), np.arange(0, 50, 10))
    assert np.isfinite(read(altered)["w"]).all()


def test_elements_not_tensors_are_equally_likely(tmp_path: Path) -> None:
    """Defect 10: every dataset is equally likely, so 0.4 % of the elements get most of the faults."""
    tensors = {
        "conv.weight": random_values("<f4", (996, 10)),
        **{f"bn{i}.w": random_values("<f4", (4,)) for i in range(10)},
    }
    base = write(tmp_path / "base.h5", tensors)
    hits = {"bit": 0, "tensor": 0}
    for measure in hits:
        report = run_json("inject", base, "--dry-run", "--count", 2000, "--seed", 3, "--measure", measure)
        hits[measure] = sum(len(fault["bits"]) for fault in report["faults"] if fault["tensor"] != "conv.weight")
    assert abs(hits["bit"] - 2000 * 40 / 10000) < 6 * 8**0.5  # 0.4 % of 2,000
    assert hits["tensor"] > 1000  # the older measure, by name only, stops where small tensors are used up


def test_a_seed_and_files_of_ones_own(tmp_path: Path) -> None:
    """Defect 11: there is no seed, and two runs in one second write one log."""
    base = write(tmp_path / "base.h5", {"w": random_values("<f4", (30, 30))})
    running = [
        subprocess.Popen(
            [
                *(BITRIFT, "inject", base, "-o", tmp_path / f"{i}.h5", "--count", "50", "--seed", str(i % 2)),
                *("--manifest", tmp_path / f"{i}.json"),
            ]
        )
        for i in range(4)
    ]
    assert [one.wait(timeout=60) for one in running] == [0] * 4
    made = [(tmp_path / f"{i}.h5").read_bytes() for i in range(4)]
    assert made[0] == made[2] != made[1] == made[3]
    faults = [json.loads((tmp_path / f"{i}.json").read_text())["faults"] for i in range(4)]
    assert faults[0] == faults[2] != faults[1]
    report = run_json("inject", base, "--dry-run")  # a seed that is not given is drawn, printed and stored
    again = run_json("inject", base, "--dry-run", "--seed", report["model"]["seed"])
    assert again["faults"] == report["faults"]
