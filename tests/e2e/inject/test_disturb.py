"""Tensors that are altered as a whole, to find out whether a script reads them: every element of theirs, and no other.

The files are written and read by h5py and PyTorch.
"""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from bitrift import _core
from safetensors.torch import load_file, save_file

Values = dict[str, np.ndarray[Any, Any]]
SHAPE = (40, 100)


def in_hdf5(file: h5py.File) -> None:
    values = np.arange(4000, dtype="f4").reshape(SHAPE)
    file.create_dataset("gzip", data=values, chunks=(8, 25), compression="gzip")
    file.create_dataset("sums", data=values, chunks=(8, 30), fletcher32=True)
    file.create_dataset("chunks", data=values, chunks=(9, 25))
    file["contiguous"] = values.astype("<i8")
    pairs = np.zeros(100, dtype=[("a", "<f4"), ("b", "<i2")])
    pairs["a"], pairs["b"] = np.arange(100), np.arange(100)
    file.create_dataset("pairs", data=pairs, chunks=(10,), compression="gzip")


def read_hdf5(file: h5py.File) -> Values:
    found: Values = {}
    for name, dataset in file.items():
        values = dataset[()]
        parts = values.dtype.names
        found |= {f"{name}:{part}": values[part] for part in parts} if parts else {name: values}
    return found


def write_keras(path: Path, method: int) -> None:
    held = io.BytesIO()
    with h5py.File(held, "w") as file:
        for name in ("a", "b", "c"):
            file[name] = np.arange(500, dtype="f4")
        if method == zipfile.ZIP_STORED:
            file.create_dataset("shuffled", data=np.arange(500, dtype="f4"), chunks=(50,), shuffle=True)
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("model.weights.h5", held.getvalue())


def read_keras(path: Path) -> Values:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        with h5py.File(io.BytesIO(archive.read("model.weights.h5"))) as file:
            return read_hdf5(file)


def write_torch(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, method in (("a", zipfile.ZIP_DEFLATED), ("b", zipfile.ZIP_STORED), ("c", zipfile.ZIP_DEFLATED)):
            held = io.BytesIO()
            torch.save({"x": torch.arange(300.0), "y": torch.arange(70)}, held)
            archive.writestr(f"{name}.pt", held.getvalue(), method)


def read_torch(path: Path) -> Values:
    found: Values = {}
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        for name in archive.namelist():
            state = torch.load(io.BytesIO(archive.read(name)))
            found |= {f"{name.removesuffix('.pt')}/{key}": value.numpy() for key, value in state.items()}
    return found


def write_halves(path: Path) -> None:
    stored = torch.arange(200, dtype=torch.uint8)
    save_file({"f": stored.view(torch.float4_e2m1fn_x2), "w": torch.ones(9)}, path)


def read_halves(path: Path) -> Values:
    held = load_file(path)
    stored = held["f"].view(torch.uint8).numpy()
    return {"f": np.stack([stored & 15, stored >> 4]), "w": held["w"].numpy()}


def write_hdf5(path: Path, libver: str) -> None:
    with h5py.File(path, "w", libver=libver) as file:
        in_hdf5(file)


def read_file(path: Path) -> Values:
    with h5py.File(path) as file:
        return read_hdf5(file)


KINDS: dict[str, tuple[Callable[[Path], None], Callable[[Path], Values]]] = {
    "HDF5": (lambda path: write_hdf5(path, "earliest"), read_file),
    "HDF5 with sums": (lambda path: write_hdf5(path, "latest"), read_file),
    "stored .keras": (lambda path: write_keras(path, zipfile.ZIP_STORED), read_keras),
    "deflated .keras": (lambda path: write_keras(path, zipfile.ZIP_DEFLATED), read_keras),
    "files of torch.save": (write_torch, read_torch),
    "elements of half a byte": (write_halves, read_halves),
}


@pytest.mark.parametrize("kind", KINDS)
def test_all_elements_of_these_tensors_differ_and_no_others(kind: str, tmp_path: Path) -> None:
    write, read = KINDS[kind]
    base, copy = tmp_path / "base", tmp_path / "copy"
    write(base)
    before = read(base)
    names = sorted(before)
    for chosen in ([name] for name in names), (names[:2], names[1:], names):
        for some in chosen:
            shutil.copyfile(base, copy)
            _core.disturb(base, copy, some)
            after = read(copy)
            differing = {name: int((before[name] != after[name]).sum()) for name in names}
            assert differing == {name: before[name].size if name in some else 0 for name in names}, some
