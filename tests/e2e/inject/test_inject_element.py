"""`bitrift inject --element`: a chosen element, read back by h5py."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from inject_support import refused, run, run_json


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as out:
        out["model/fc.weight"] = np.arange(12, dtype="<f4").reshape(3, 4)
        out["model/fc.bias"] = np.ones(3, "<f4")
        out.create_dataset("model/packed", data=np.arange(32, dtype="<f4"), chunks=(16,), compression="gzip")
    return path


def changes(first: Path, second: Path, name: str = "model/fc.weight") -> list[tuple[int, int]]:
    with h5py.File(first) as before, h5py.File(second) as after:
        mask = before[name][()].reshape(-1).view("<u4") ^ after[name][()].reshape(-1).view("<u4")
    return [(int(i), int(mask[i])) for i in np.flatnonzero(mask)]


def test_all_listed_bits_of_the_element_are_flipped(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.h5"
    choice = ["--tensor", "model/fc.weight", "--element", 7]
    run("inject", file, "-o", out, *choice, "--bits", "22,30")
    assert changes(file, out) == [(7, 1 << 22 | 1 << 30)]
    run("inject", file, "-o", out, *choice, "--bits", "3-5")
    assert changes(file, out) == [(7, 0b111000)]
    run("inject", file, "-o", out, *choice, "--bits", "3-5", "--count", 1, "--seed", 1)
    ((element, mask),) = changes(file, out)
    assert element == 7 and mask.bit_count() == 1
    run("inject", file, "-o", out, *choice, "--bits", "sign")
    assert changes(file, out) == [(7, 1 << 31)]
    run("inject", file, "-o", out, "--tensor", "model/packed", "--element", 20, "--bits", 30)
    assert changes(file, out, "model/packed") == [(20, 1 << 30)]


@pytest.mark.parametrize("compact", [[], ["--compact-manifest"]])
def test_the_manifest_holds_the_element_and_is_replayed(compact: list[str], file: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "m.json"
    run("inject", file, "-o", tmp_path / "a.h5", "--tensor", "model/fc.weight", "--element", 7, "--bits", "2,30",
        "--manifest", manifest, *compact)  # fmt: skip
    model = json.loads(manifest.read_text())["model"]
    assert (model["element"], model["count"]) == (7, 2)
    run("inject", file, "-o", tmp_path / "b.h5", "--replay", manifest)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes() != file.read_bytes()
    (tmp_path / "model.json").write_text(json.dumps(model))
    run("inject", file, "-o", tmp_path / "c.h5", "--model", tmp_path / "model.json")
    assert (tmp_path / "c.h5").read_bytes() == (tmp_path / "a.h5").read_bytes()


def test_the_population_is_the_element(file: Path) -> None:
    shown = run_json("inject", file, "--dry-run", "--tensor", "model/fc.weight", "--element", 7, "--no-nan")
    assert shown["eligible_elements"] == 1 and shown["eligible_bits"] == 32


def test_other_elements_are_refused(file: Path, tmp_path: Path) -> None:
    out = ["-o", tmp_path / "o.h5"]
    refused("inject", file, *out, "--tensor", "model/fc.weight", "--element", 12, says="numbers from 0 to 11")
    refused("inject", file, *out, "--element", 1, says="needs one tensor, but 3 are chosen")
    refused("inject", file, *out, "--tensor", "model/fc.weight", "--element", "1,2", says="whole number")
    refused("inject", file, *out, "--plane", "metadata", "--element", 1, says="no elements to choose")
    refused("inject", file, *out, "--plane", "storage", "--tensor", "model/packed", "--element", 1, says="--element")
    assert not (tmp_path / "o.h5").exists()
