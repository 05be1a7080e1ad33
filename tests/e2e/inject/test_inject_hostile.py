"""Files made to deceive, targets that are not files, programs that write at the same time: one line, nothing harmed."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import h5py
import inject_support as support
import numpy as np
import pytest
from inject_support import BITRIFT, names_in, refused, run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return support.model_file(tmp_path / "model.h5")


def point_at(path: Path, dataset: str, place: int) -> None:
    """Makes a contiguous dataset of an old file say that its values lie elsewhere."""
    with h5py.File(path, "r") as file:
        old, size = file[dataset].id.get_offset(), file[dataset].id.get_storage_size()
    layout = old.to_bytes(8, "little") + size.to_bytes(8, "little")
    data = path.read_bytes()
    assert data.count(layout) == 1
    path.write_bytes(data.replace(layout, place.to_bytes(8, "little") + layout[8:]))


STRUCTURES = [(0, "superblock"), (96, "object header"), (136, "B-tree"), (680, "heap")]


@pytest.mark.parametrize(("place", "structure"), STRUCTURES)
def test_values_over_structures_are_refused(tmp_path: Path, place: int, structure: str) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        file["w"] = np.zeros(8, "<f4")
        file["x"] = np.zeros(4096, "<f4")
    point_at(path, "w", place)
    before = path.read_bytes()
    for target in (["-o", tmp_path / "o.h5"], ["--in-place"]):
        line = refused("inject", path, *target, "--tensor", "w", "--count", 256, says="belongs to the")
        assert structure in line
    assert (path.read_bytes(), names_in(tmp_path)) == (before, ["f.h5"])


def test_a_chunk_that_says_it_is_not_filtered_has_its_whole_size(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("w", (800,), "<f4", chunks=(200,), compression="gzip")
        made[...] = np.arange(800, dtype="<f4")
        size = made.id.get_chunk_info(0).size
    data = path.read_bytes()
    key = struct.pack("<IIQQ", size, 0, 0, 0)  # of the chunk in its B-tree: stored size, filter mask, place
    assert data.count(key) == 1
    path.write_bytes(data.replace(key, struct.pack("<IIQQ", size, 1, 0, 0)))
    with h5py.File(path, "r") as file:
        assert file["w"].id.get_chunk_info(0).filter_mask == 1
    refused("inject", path, "-o", tmp_path / "o.h5", "--tensor", "w", says="without filters")
    assert names_in(tmp_path) == ["f.h5"]


def test_a_file_that_a_program_writes_for_readers_is_not_altered(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("w", data=np.ones(8, "<f4"), chunks=(4,), maxshape=(None,))
        file.swmr_mode = True
        before = path.read_bytes()
        for target in (["-o", tmp_path / "o.h5"], ["--in-place"]):
            refused("inject", path, *target, says="open for writing")
        assert (path.read_bytes(), names_in(tmp_path)) == (before, ["f.h5"])
    run("inject", path, "-o", tmp_path / "o.h5")


@pytest.mark.parametrize(("mode", "expected"), [(0o600, 0o600), (0o640, 0o640), (0o444, 0o444)])
def test_a_copy_has_no_more_rights_than_its_input(model: Path, tmp_path: Path, mode: int, expected: int) -> None:
    model.chmod(mode)
    out = tmp_path / "o.h5"
    run("inject", model, "-o", out)
    assert out.stat().st_mode & 0o777 == expected & ~current_umask()
    out.chmod(0o660)
    run("inject", model, "-o", out)
    assert out.stat().st_mode & 0o777 == 0o660


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_manifest_that_cannot_be_written_changes_nothing(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    before = model.read_bytes()
    for target in (["-o", tmp_path / "o.h5"], ["--in-place"]):
        refused("inject", model, *target, "--manifest", folder, says="is not a regular file")
    assert (model.read_bytes(), names_in(tmp_path)) == (before, ["folder", "model.h5"])


def test_a_journal_that_is_no_file_is_refused(model: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.h5.undo")
    refused("undo", model, says="is not a regular file")
    refused("inject", model, "--in-place", says="is not a regular file")


def test_an_attribute_spelled_like_a_dataset_is_another_tensor(tmp_path: Path) -> None:
    path, out = tmp_path / "f.h5", tmp_path / "o.h5"
    with h5py.File(path, "w") as file:
        file["u"] = np.zeros(2, "<f4")
        file["u@v"] = np.ones(3, "<f4")
        file["u"].attrs["v"] = np.ones(3, "<f4")
    run("inject", path, "-o", out, "--tensor", "u@v*", "--measure", "element", "--count", 6)
    with h5py.File(out, "r") as file:
        assert np.all(file["u@v"][()] != 1)
        assert np.all(file["u"].attrs["v"] != 1)


def test_names_as_long_as_they_may_be_are_no_fault_of_ours(model: Path, tmp_path: Path) -> None:
    for length in (240, 251, 255):
        done = subprocess.run(
            [BITRIFT, "inject", model, "-o", tmp_path / ("o" * length)], capture_output=True, text=True, check=False
        )
        assert done.returncode in (0, 2), done.stderr
        assert done.stderr.count("\n") == done.returncode // 2


@pytest.mark.parametrize("option", ["-o", "--manifest"])
def test_a_device_or_pipe_is_not_replaced_by_a_file(model: Path, tmp_path: Path, option: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to(pipe)
    output = [] if option == "-o" else ["-o", tmp_path / "o.h5"]
    for target in (pipe, link):
        refused("inject", model, *output, option, target, says="is not a regular file")
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert names_in(tmp_path) == ["link", "model.h5", "pipe"]
