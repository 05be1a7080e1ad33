"""Checkpoints of every format that bitrift-train writes, read by the libraries that such files are for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
import xxhash
from safetensors import safe_open
from train_support import tensors

# What bitrift-train is told, and how a file is named.
FORMATS: dict[str, tuple[str, tuple[str, ...]]] = {
    "hdf5": ("h5", ()),
    "hdf5-deflate": ("h5", ("--format", "hdf5-deflate")),
    "safetensors": ("safetensors", ()),
    "npz": ("npz", ()),
    "npz-deflate": ("npz", ("--format", "npz-deflate")),
    "pytorch": ("pt", ()),
}
COMPRESSED = ("hdf5-deflate", "npz-deflate")
WITHOUT_BFLOAT16 = ("npz", "npz-deflate")


def file_of(folder: Path, stem: str, kind: str) -> Path:
    return folder / f"{stem}.{FORMATS[kind][0]}"


def flat(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of dicts in dicts, by their keys joined with '/'."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}/")
        else:
            yield prefix + key, value


def read_torch(path: Path) -> dict[str, torch.Tensor | str]:
    """The tensors and texts of a file of PyTorch or safetensors."""
    if path.suffix != ".safetensors":
        return dict(flat(torch.load(path, weights_only=True)))
    with safe_open(path, "pt") as file:
        keys = file.keys()
        # Copies: what the package gives is the file itself, mapped.
        return {key: file.get_tensor(key).clone() for key in keys} | file.metadata()


def read_all(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str], set[str]]:
    """Tensors, texts, and the paths of what is bfloat16 in the file, which comes as float32."""
    if path.suffix == ".h5":
        found, narrow = tensors(path), set[str]()
        with h5py.File(path) as file:
            narrow = {name for name in found if file[name].id.get_type().get_size() * 2 == found[name].itemsize}
            return found, dict(file.attrs), narrow
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        texts = {name[1:]: found.pop(name).item() for name in list(found) if name.startswith("@")}
        return found, texts, set()
    leaves = read_torch(path)
    found, texts, narrow = {}, {}, set()
    for name, value in leaves.items():
        if isinstance(value, str):
            texts[name] = value
        elif value.dtype == torch.bfloat16:
            narrow.add(name)
            found[name] = value.float().numpy()
        else:
            found[name] = value.numpy()
    return found, texts, narrow


def read_native(path: Path) -> dict[str, np.ndarray]:
    """The tensors; bfloat16 as float32, as h5py gives it."""
    return read_all(path)[0]


def state_digest(path: Path) -> str:
    """The digest of docs/checkpoint-format.md, of what the format's own library finds."""
    found, _, narrow = read_all(path)
    lines = []
    for name, value in sorted(found.items(), key=lambda item: item[0].encode()):
        if name.startswith("replica/"):
            continue
        data, dtype = value.tobytes(), value.dtype.name
        if name in narrow:  # the upper half of each float32
            data, dtype = np.ascontiguousarray(value).reshape(-1).view("<u2")[1::2].tobytes(), "bfloat16"
        shape = ",".join(map(str, value.shape))
        lines.append(f"{name}\t{dtype}\t{shape}\t{xxhash.xxh3_128_hexdigest(data)}\n")
    return xxhash.xxh3_128_hexdigest("".join(lines).encode())
