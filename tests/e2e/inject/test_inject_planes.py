"""Faults of stored bytes and of HDF5's own structures, read back byte by byte."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import inject_support as support
import numpy as np
import pytest
from inject_support import crc32c, run, run_json


def differing(a: bytes, b: bytes) -> dict[int, int]:
    assert len(a) == len(b)
    return {i: x ^ y for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y}


def value_bytes(path: Path) -> set[int]:
    """Bytes of the file that hold values, as h5py finds them."""
    found: set[int] = set()
    with h5py.File(path, "r") as file:

        def visit(_: str, item: object) -> None:
            if not isinstance(item, h5py.Dataset):
                return
            if item.chunks:
                for i in range(item.id.get_num_chunks()):
                    chunk = item.id.get_chunk_info(i)
                    found.update(range(chunk.byte_offset, chunk.byte_offset + chunk.size))
            elif item.id.get_offset() is not None:
                found.update(range(item.id.get_offset(), item.id.get_offset() + item.id.get_storage_size()))

        file.visititems(visit)
    return found


def mixed(path: Path, libver: str) -> Path:
    with h5py.File(path, "w", libver=libver) as file:
        file["plain"] = np.arange(64, dtype="<f4")
        file.create_dataset("gzip", data=np.arange(640, dtype="<f4"), chunks=(64,), compression="gzip")
        file["plain"].attrs["note"] = "a text"
    return path


@pytest.mark.parametrize("libver", ["earliest", "v110"])
def test_metadata_faults_flip_what_they_name_and_nothing_else(tmp_path: Path, libver: str) -> None:
    path = mixed(tmp_path / "m.h5", libver)
    before, out, manifest = path.read_bytes(), tmp_path / "o.h5", tmp_path / "m.json"
    run("inject", path, "-o", out, "--plane", "metadata", "--count", 400, "--seed", 5, "--manifest", manifest)
    document = json.loads(manifest.read_text())
    values = value_bytes(path)
    assert document["eligible_bits"] == 8 * (len(before) - len(values))
    expected: dict[int, int] = {}
    for fault in document["faults"]:
        assert (fault["plane"], fault["tensor"]) == ("metadata", "")
        assert fault["element"] not in values
        assert before[fault["element"]] == int(fault["old"], 16)
        expected[fault["element"]] = int(fault["old"], 16) ^ int(fault["new"], 16)
    assert sum(mask.bit_count() for mask in expected.values()) == 400
    assert differing(before, out.read_bytes()) == expected
    superblock_bytes = {"earliest": 96, "v110": 48}[libver]
    named = {fault["structure"] for fault in document["faults"]}
    assert any(name.startswith("object header") and name.endswith(" of /plain") for name in named), named
    for fault in document["faults"]:
        assert (fault["structure"] == "superblock") == (fault["element"] < superblock_bytes), fault
    again, twin = tmp_path / "again.h5", tmp_path / "twin.h5"
    run("inject", path, "-o", again, "--replay", manifest)
    assert again.read_bytes() == out.read_bytes()
    twin.write_bytes(before)
    run("inject", twin, "--in-place", "--plane", "metadata", "--count", 400, "--seed", 5)
    assert twin.read_bytes() == out.read_bytes()
    run("undo", twin)
    assert twin.read_bytes() == before


def test_a_storage_fault_leaves_the_checksum_behind(tmp_path: Path) -> None:
    path = support.model_file(tmp_path / "model.h5")
    out = tmp_path / "o.h5"
    plane = ["--plane", "storage", "--tensor", "model/conv1.weight", "--seed", 3]
    (fault,) = run_json("inject", path, "-o", out, *plane)["faults"]
    assert (fault["plane"], fault["structure"]) == ("storage", "raw data, contiguous")
    assert len(differing(path.read_bytes(), out.read_bytes())) == 1
    with h5py.File(out, "r") as file:
        names = [name.decode() for name in file["checksum/path"][()]]
        stored = file["checksum/crc32c"][names.index("model/conv1.weight")]
        assert stored != crc32c(file["model/conv1.weight"][()].tobytes())
