"""Random files: bitrift reads and alters them as libhdf5 does. studies/hdf5_stream.py does it for hours."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import pytest
from hdf5_compare import Divergence, compare_list, compare_values
from hdf5_witness import look_at
from random_hdf5 import VERSIONS
from random_hdf5_datasets import FILTERS, INDEXES
from random_hdf5_types import Chance

STUDY = Path(__file__).resolve().parents[3] / "studies" / "hdf5_stream.py"
SEED, FILES = 133, 60
LAYOUTS = ["compact", "contiguous", "external", "virtual", *(f"chunked, {index}" for index in INDEXES)]
CLASSES = [
    *["integer", "float", "bitfield", "string", "opaque", "enum", "bool", "time", "complex", "array", "compound"],
    *["float, bfloat16", "float, long double", "padded integer", "native complex"],
]
FEATURES = [
    *["group with dense links", "group with link order", "group with dense attributes", "group of many links"],
    *["soft link", "hard link", "external link", "committed type", "attribute", "object deleted", "file opened again"],
    *["file with user block", "file with small addresses", "file with shared messages", "file with space strategy"],
    *[
        "fill value",
        "nothing written",
        "written in parts",
        "resized",
        "zero-size dataspace",
        "scalar or null dataspace",
    ],
    *[
        "chunk written directly",
        "chunk written directly, filters left out",
        "sparse, fixed",
        "sparse, one",
        "sparse, two",
    ],
    *["refused by bitrift: file of several pieces", "refused by bitrift: group with filters", "text written"],
]


def test_random_files_are_read_as_libhdf5_reads_them(tmp_path: Path) -> None:
    command = [sys.executable, STUDY, "--seed", SEED, "--files", FILES, "--keep", tmp_path, "--json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    seen = Counter(json.loads(done.stdout)["seen"])
    expected = [f"layout {name}" for name in LAYOUTS] + [f"filter {name}" for name in FILTERS]
    expected += [f"class {name}" for name in CLASSES] + FEATURES
    assert [name for name in expected if not seen[name]] == []
    pairs = [name.removeprefix("version ").split(" to ") for name in seen if name.startswith("version ")]
    assert {low for low, _ in pairs} == set(VERSIONS)
    assert {high for _, high in pairs} == set(VERSIONS) - {"earliest"}
    # Most files get through all comparisons; the rest libhdf5 does not write or refuses to read.
    assert seen["files"] == FILES
    assert seen["files compared"] > 0.8 * FILES
    assert seen["injected and taken back"] > 0.5 * FILES


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    path = tmp_path / "packed.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("chunks", data=np.arange(600, dtype=">i4").reshape(20, 30), chunks=(7, 11))
        file.create_dataset("parts", data=np.zeros(9, [("x", "<f4"), ("y", "u1", (3,))]))
        file["plain"] = np.arange(4, dtype="u2")
        file.attrs["number"] = np.arange(5.0)
    return path


def differs(path: Path, before: object) -> bool:
    """Whether the comparer notices that the file is not the one that libhdf5 described."""
    try:
        for seed in range(3):
            compare_values(path, before, Chance(seed), Counter())  # type: ignore[arg-type]
    except Divergence:
        return True
    return False


@pytest.mark.parametrize("name", ["chunks", "parts", "plain"])
def test_one_altered_byte_is_noticed(packed: Path, name: str) -> None:
    before = look_at(packed)
    assert not differs(packed, before)
    (holder,) = (one for one in before.datasets if one.path == name)
    data = bytearray(packed.read_bytes())
    for place in (holder.ranges[0].start, holder.ranges[-1].start, holder.ranges[0].start + 5):
        data[place] ^= 0x10
        packed.write_bytes(data)
        assert differs(packed, before), place
        data[place] ^= 0x10
    packed.write_bytes(data)
    assert not differs(packed, before)


def test_an_altered_attribute_is_noticed(packed: Path) -> None:
    before = look_at(packed)
    with h5py.File(packed, "r+") as file:
        file.attrs.modify("number", np.array([0, 1, 2, 3, 5.0]))
    assert differs(packed, before)


def test_another_description_is_noticed(packed: Path) -> None:
    compare_list(packed, look_at(packed))
    for key, value in {"stored": 1, "refusal": "it is virtual", "storage": "compact", "offset": 8}.items():
        look = look_at(packed)
        (holder,) = (one for one in look.datasets if one.path == "plain")
        setattr(holder, key, value)
        with pytest.raises(Divergence):
            compare_list(packed, look)
