"""What a reader found in a checkpoint, as one digest for each tensor."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

State = dict[str, np.ndarray[Any, Any]]
Contents = dict[str, str]
# Number format, shape, and bytes of all values.
Plain = tuple[str, tuple[int, ...], Any]


class Extent(NamedTuple):
    """Bytes [first, end) of a file that hold values of a tensor. file: below the checkpoint's folder, or empty."""

    file: str
    first: int
    end: int
    tensor: str


def start_of_member(archive: bytes, member: zipfile.ZipInfo) -> int:
    """Where the stored bytes of a member begin in a zip archive (APPNOTE 4.3.7)."""
    header = archive[member.header_offset : member.header_offset + 30]  # 26 to 29: lengths of name and extra field
    lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    return member.header_offset + 30 + lengths


_known: set[str] | None = None
_unknown: dict[str, Plain] = {}


@contextmanager
def unknown_values(known: Contents) -> Iterator[dict[str, Plain]]:
    """Every value that gets an unknown digest inside the block, by that digest."""
    global _known  # readers return digests alone
    _known = set(known.values())
    try:
        yield _unknown
    finally:
        _known = None
        _unknown.clear()


def _digest(kind: str, shape: tuple[int, ...], values: Any) -> str:
    digest = hashlib.blake2b(f"{kind} {shape} ".encode(), digest_size=16)
    digest.update(values)
    found = digest.hexdigest()
    if _known is not None and found not in _known:
        _unknown[found] = (kind, shape, bytes(values))
    return found


def plain(array: np.ndarray[Any, Any]) -> Plain:
    """What the digest of an array is of."""
    if array.dtype.hasobject:
        return "object", array.shape, repr(array.tolist()).encode(errors="backslashreplace")
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return native.dtype.name, native.shape, np.ascontiguousarray(native).reshape(-1).view(np.uint8)


def of_array(array: np.ndarray[Any, Any]) -> str:
    """A digest of number format, shape and values; the byte order in memory does not matter."""
    return _digest(*plain(array))


def changed_element(before: np.ndarray[Any, Any], after: Plain) -> tuple[int, int] | None:
    """The one element that differs, and the mask of its bits that do; None where there is not one."""
    kind, shape, values = plain(before)
    if after[:2] != (kind, shape):
        return None
    differs = np.frombuffer(after[2], np.uint8) ^ values
    size = before.dtype.itemsize
    elements = np.unique(np.flatnonzero(differs) // size)
    if len(elements) != 1:
        return None
    element = int(elements[0])
    return element, int.from_bytes(differs[element * size : (element + 1) * size], sys.byteorder)


def of_tensor(tensor: Any) -> str:
    """The same of a PyTorch tensor, also of a type that NumPy does not have."""
    import torch

    kind, shape = str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)
    return _digest(kind, shape, tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy())


def of_anything(value: object) -> str:
    """The same of whatever a reader returned. What is not a plain tensor differs from every plain tensor."""
    try:
        if isinstance(value, np.ndarray | np.generic):
            return of_array(np.asarray(value))
        return of_tensor(value)
    except Exception:
        return _digest("other", (), type(value).__name__.encode())


def of_mapping(loaded: object, prefix: str = "") -> Contents:
    """The digests of a dictionary of tensors, also a nested one; anything else differs from all. Texts do not count."""
    if not isinstance(loaded, dict):
        return {prefix: of_anything(loaded)}
    found: Contents = {}
    for key, value in loaded.items():
        name = prefix + (key if isinstance(key, str) else repr(key))
        if isinstance(value, dict):
            found |= of_mapping(value, f"{name}/")
        elif not isinstance(value, str):
            found[name] = of_anything(value)
    return found
