"""HDF5's library is asked only for filters that are not bitrift's own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
import pytest
from inject_support import BITRIFT

HELPER = "bitrift-hdf5"


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """The program without anything beside it."""
    (tmp_path / "bin").mkdir()
    return Path(shutil.copy(BITRIFT.resolve(), tmp_path / "bin" / "bitrift"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("plain", data=np.arange(64, dtype="<f4"))
        file.create_dataset("gzip", data=np.arange(64, dtype="<f4"), chunks=(16,), compression="gzip")
        file.create_dataset("offset", data=np.arange(64, dtype="<i4"), chunks=(16,), scaleoffset=0)
    return path


def call(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


def test_without_it_all_but_the_foreign_filters_work(alone: Path, file: Path, tmp_path: Path) -> None:
    for name in ("plain", "gzip"):
        assert call(alone, "inject", file, "-o", tmp_path / "o.h5", "--tensor", name).returncode == 0
    before = file.read_bytes()
    done = call(alone, "inject", file, "--in-place", "--tensor", "offset")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert HELPER in done.stderr
    assert file.read_bytes() == before
    doctor = call(alone, "doctor")
    assert doctor.returncode == 1
    assert HELPER in doctor.stdout + doctor.stderr


def test_it_is_found_beside_the_program(alone: Path, file: Path, tmp_path: Path) -> None:
    shutil.copy(BITRIFT.resolve().parent / HELPER, alone.parent)
    done = call(alone, "inject", file, "-o", tmp_path / "o.h5", "--tensor", "offset", "--bits", "0")
    assert done.returncode == 0, done.stderr
    with h5py.File(file) as old, h5py.File(tmp_path / "o.h5") as new:
        assert np.count_nonzero(old["offset"][()] ^ new["offset"][()]) == 1


@pytest.mark.parametrize("name", ["Bitshuffle", "Blosc", "Blosc2", "BZip2", "FciDecomp", "LZ4", "Zstd"])
def test_plugins_find_the_library_behind_the_program(tmp_path: Path, name: str) -> None:
    """Some look for HDF5's functions by name, in a program that is not linked to them."""
    path, out = tmp_path / "f.h5", tmp_path / "o.h5"
    data = np.arange(600, dtype="<u2").reshape(20, 30)
    with h5py.File(path, "w") as file:
        file.create_dataset("w", data=data, chunks=(10, 15), **getattr(hdf5plugin, name)())
    environment = {**os.environ, "HDF5_PLUGIN_PATH": hdf5plugin.PLUGIN_PATH}
    done = subprocess.run(
        [BITRIFT, "inject", path, "-o", out, "--count", "5", "--seed", "1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    with h5py.File(out) as file:
        changed = np.bitwise_xor(file["w"][()], data)
    assert sum(int(one).bit_count() for one in changed.ravel()) == 5
