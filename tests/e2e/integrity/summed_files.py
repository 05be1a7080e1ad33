"""Files with sums, by the libraries that write them, and flips of their bits."""

from __future__ import annotations

import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import torch


def network() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(), torch.nn.Linear(72, 40)
    )


def arrays() -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in network().state_dict().items()}


def write_torch(path: Path) -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, path)


def write_hdf5(path: Path, **options: object) -> None:
    with h5py.File(path, "w") as file:
        for name, values in arrays().items():
            if values.ndim:
                file.create_dataset(name, data=values, chunks=True, **options)


def write_npz(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays())


def write_deflated_npz(path: Path) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, **{name: values for name, values in arrays().items() if values.size < 500})


WRITERS: dict[str, Callable[[Path], None]] = {
    "torch": write_torch,
    "npz": write_npz,
    "deflated npz": write_deflated_npz,
    "fletcher32": lambda path: write_hdf5(path, fletcher32=True),
    "gzip and fletcher32": lambda path: write_hdf5(path, compression="gzip", shuffle=True, fletcher32=True),
    "gzip": lambda path: write_hdf5(path, compression="gzip"),
}


def covered(path: Path) -> list[tuple[int, int]]:
    """Bytes [first, end) that sums cover: the data of zip members, or the chunks of HDF5, by zipfile and h5py."""
    if zipfile.is_zipfile(path):
        content, found = path.read_bytes(), []
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                at = member.header_offset
                name, extra = (int.from_bytes(content[at + i : at + i + 2], "little") for i in (26, 28))
                first = at + 30 + name + extra
                found.append((first, first + member.compress_size))
        return found
    with h5py.File(path) as file:
        chunks = [file[name].id.get_chunk_info(i) for name in file for i in range(file[name].id.get_num_chunks())]
    return [(chunk.byte_offset, chunk.byte_offset + chunk.size) for chunk in chunks]


def random_bit(path: Path, draw: random.Random) -> tuple[int, int]:
    """A place and a bit, uniformly among the bytes that sums cover."""
    places = covered(path)
    at = draw.randrange(8 * sum(end - first for first, end in places))
    for first, end in places:
        if at < 8 * (end - first):
            return first + at // 8, at % 8
        at -= 8 * (end - first)
    raise AssertionError


def flip(path: Path, out: Path, *bits: tuple[int, int]) -> Path:
    content = bytearray(path.read_bytes())
    for offset, bit in bits:
        content[offset] ^= 1 << bit
    out.write_bytes(content)
    return out
