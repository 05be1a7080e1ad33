"""Files of safetensors, NumPy and PyTorch, and their values as native readers find them."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

KINDS = ["safetensors", "npz", "npz_deflated", "pt"]

# What a safetensors header calls these types of NumPy (bfloat16 and float8 are read as integers of their width).
SAFE_TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "F8_E4M3": "|u1",
    "F8_E5M2": "|u1",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
    "C64": "<c8",
}


def write_safetensors(
    path: Path, tensors: dict[str, tuple[str, np.ndarray]], metadata: dict[str, str] | None = None
) -> Path:
    """Header and values, as https://github.com/huggingface/safetensors describes them."""
    header: dict[str, object] = {} if metadata is None else {"__metadata__": metadata}
    values = b""
    for name, (dtype, array) in tensors.items():
        piece = np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [len(values), len(values) + len(piece)],
        }
        values += piece
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + values)
    return path


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """By the package safetensors, and by the layout that it documents: the package gives PyTorch's types only."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, end = entry["data_offsets"]
        values = np.frombuffer(data[8 + length + first : 8 + length + end], SAFE_TYPES[entry["dtype"]])
        found[name] = values.reshape(entry["shape"])
    for name, tensor in load_file(path).items():
        assert raw(tensor) == found[name].tobytes()
    return found


def raw(tensor: torch.Tensor) -> bytes:
    """The bytes of the values, row-major."""
    dense = tensor.detach().contiguous()
    return dense.reshape(-1).view(torch.uint8).numpy().tobytes() if dense.numel() else b""


def model_values(seed: int = 0) -> dict[str, np.ndarray]:
    """A small network: names as a state_dict has them."""
    draw = np.random.default_rng(seed)
    return {
        "conv1.weight": draw.standard_normal((4, 3, 3, 3)).astype("<f4"),
        "conv1.bias": draw.standard_normal(4).astype("<f4"),
        "bn1.weight": draw.standard_normal(4).astype("<f4"),
        "bn1.bias": draw.standard_normal(4).astype("<f4"),
        "bn1.running_mean": draw.standard_normal(4).astype("<f4"),
        "bn1.num_batches_tracked": np.array(7, "<i8"),
        "half.weight": draw.standard_normal((5, 6)).astype("<f2"),
        "fc.weight": draw.standard_normal((10, 12)).astype("<f8"),
        "fc.bias": draw.standard_normal(10).astype("<f8"),
    }


def write(kind: str, path: Path, values: dict[str, np.ndarray]) -> Path:
    if kind == "safetensors":
        codes = {
            np.dtype(code): name for name, code in SAFE_TYPES.items() if name not in ("BF16", "F8_E4M3", "F8_E5M2")
        }
        return write_safetensors(path, {name: (codes[array.dtype], array) for name, array in values.items()})
    if kind == "pt":
        torch.save({name: torch.from_numpy(array.copy()) for name, array in values.items()}, path)
        return path
    with path.open("wb") as file:  # whatever the name, without ".npz" after it
        (np.savez if kind == "npz" else np.savez_compressed)(file, **values)
    return path


def read(kind: str, path: Path) -> dict[str, np.ndarray]:
    """By the native reader, which must take the file for sound."""
    if kind == "safetensors":
        return read_safetensors(path)
    if kind == "pt":
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
        return {name: tensor.numpy() for name, tensor in torch.load(path, weights_only=True).items()}
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def patterns(array: np.ndarray) -> np.ndarray:
    """The bit patterns of the elements, row-major."""
    native = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("=")))
    return native.reshape(-1).view(f"u{array.dtype.itemsize}")


def changed(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> dict[tuple[str, int], tuple[int, int]]:
    """Tensor and element to the patterns before and after."""
    assert list(before) == list(after)
    found = {}
    for name in before:
        a, b = patterns(before[name]), patterns(after[name])
        assert before[name].shape == after[name].shape and before[name].dtype == after[name].dtype
        for i in np.nonzero(a != b)[0]:
            found[name, int(i)] = int(a[i]), int(b[i])
    return found
