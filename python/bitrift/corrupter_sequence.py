"""Injection sequences that hdf5_corrupter saved, as manifests of bitrift (docs/hdf5_corrupter.md)."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xxhash

from bitrift.corrupter import ConversionError, Dataset, datasets_of, globs_of, open_file, precision_of, selected


class _Sequence:
    """A saved injection sequence on its way into a manifest."""

    def __init__(self, file: h5py.File, precision: int | None, seed: int | None) -> None:
        self.file = file
        self.datasets = datasets_of(file)
        self.precision = precision
        self.generator = None if seed is None else random.Random(seed)
        self.masks: dict[tuple[str, int], int] = {}
        self.notes: list[str] = []

    def draw(self, choices: int, what: str) -> int:
        if choices == 1:
            return 0
        if self.generator is None:
            raise ConversionError(
                f"{what}, and hdf5_corrupter would draw one; give a --seed to draw it once and for all"
            )
        return self.generator.randrange(choices)

    def add(self, location: str, indexes: Sequence[int], bits: Sequence[int] | int) -> None:
        dataset = self.choose(location)
        element = self.element(location, dataset, indexes)
        key = (dataset.path, element)
        old = self.pattern(dataset, element) ^ self.masks.get(key, 0)
        self.masks[key] = self.masks.get(key, 0) ^ self.change(dataset, old, bits)

    def choose(self, location: str) -> Dataset:
        globs = globs_of(location, self.datasets, self.notes)
        candidates = selected(globs, self.datasets)
        return candidates[self.draw(len(candidates), f"'{location}' names {len(candidates)} datasets")]

    def element(self, location: str, dataset: Dataset, indexes: Sequence[int]) -> int:
        if not dataset.shape:
            return 0
        if not indexes:
            if dataset.values == 0:
                raise ConversionError(f"'{location}': {dataset.path} has no elements")
            return self.draw(dataset.values, f"'{location}' was saved without the indexes of the value")
        inside = len(indexes) == len(dataset.shape) and all(
            0 <= index < size for index, size in zip(indexes, dataset.shape, strict=True)
        )
        if not inside:
            raise ConversionError(
                f"'{location}': {list(indexes)} is not an element of {dataset.path} of shape {list(dataset.shape)}"
            )
        return int(np.ravel_multi_index(tuple(indexes), dataset.shape))

    def pattern(self, dataset: Dataset, element: int) -> int:
        """The value's bits, bit 0 the least significant."""
        if dataset.dtype.kind not in "fiu" or dataset.dtype.itemsize not in (1, 2, 4, 8):
            raise ConversionError(f"{dataset.path}: values of type {dataset.dtype} have no bits that a manifest names")
        place = np.unravel_index(element, dataset.shape) if dataset.shape else ()
        value = np.asarray(self.file[dataset.path][tuple(int(i) for i in place)])
        return int.from_bytes(value.astype(value.dtype.newbyteorder(">")).tobytes(), "big")

    def change(self, dataset: Dataset, old: int, bits: Sequence[int] | int) -> int:
        width = dataset.dtype.itemsize * 8
        if dataset.dtype.kind == "f":
            if self.precision not in (None, width):
                raise ConversionError(
                    f"{dataset.path}: its values have {width} bits, and float_precision says that the sequence counts "
                    f"{self.precision}: give the precision that it was saved with"
                )
            mask = 0
            for bit in [bits] if isinstance(bits, int) else bits:
                if not 0 <= bit < width:
                    raise ConversionError(f"{dataset.path}: bit {bit} (0 is the sign) is not one of its {width} bits")
                mask ^= 1 << (width - 1 - bit)
            return mask
        # Integers: one digit of the magnitude in base two, counted from its first 1.
        digit = bits if isinstance(bits, int) else bits[0]
        value = old - (1 << width) if dataset.dtype.kind == "i" and old >> (width - 1) else old
        digits = max(1, abs(value).bit_length())
        if not 0 <= digit < digits:
            raise ConversionError(f"{dataset.path}: {value} has no digit {digit} in base two")
        magnitude = abs(value) ^ (1 << (digits - 1 - digit))
        return old ^ ((-magnitude if value < 0 else magnitude) % (1 << width))


_FIELDS = {16: 5, 32: 8, 64: 11}  # exponent bits of floats


def _field_of(dtype: np.dtype[Any], bits: Sequence[int]) -> str:
    width = dtype.itemsize * 8

    def one(bit: int) -> str:
        if bit == width - 1 and dtype.kind != "u":
            return "sign"
        return "exponent" if dtype.kind == "f" and bit >= width - 1 - _FIELDS[width] else "mantissa"

    fields = {one(bit) for bit in bits}
    return fields.pop() if len(fields) == 1 else "mixed"


def sequence_to_manifest(
    sequence: Path,
    hdf5_file: Path,
    *,
    float_precision: str = "auto",
    seed: int | None = None,
    roles: Mapping[str, str] | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """A saved injection sequence as a manifest for `bitrift inject --replay`, and what had to be decided.

    Old values are read from `hdf5_file`, the unaltered file. `seed` draws what the sequence leaves open (a location
    that holds several datasets, a value without indexes). Raises ConversionError.
    """
    try:
        saved = json.loads(sequence.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConversionError(f"{sequence}: is not JSON ({error})") from None
    if not isinstance(saved, dict):
        raise ConversionError(f"{sequence}: is not an injection sequence: expected an object of locations")
    precision = precision_of({"float_precision": float_precision})
    failed = 0
    with open_file(hdf5_file) as file:
        reading = _Sequence(file, precision, seed)
        for location, entries in saved.items():
            for entry in entries:
                if not (isinstance(entry, list) and len(entry) == 2):
                    raise ConversionError(f"{sequence}: '{location}': expected pairs of indexes and bits")
                indexes, bits = entry
                if bits is None:
                    failed += 1
                    continue
                reading.add(location, indexes, bits)
        faults = _faults(reading, roles or {})
    notes = list(dict.fromkeys(reading.notes))
    if failed:
        notes.append(f"{failed} tries of the sequence changed nothing, and are left out")
    cancelled = sum(mask == 0 for mask in reading.masks.values())
    if cancelled:
        notes.append(f"the changes of {cancelled} values take each other back, and are left out")
    return _manifest(sequence, hdf5_file, faults), notes


def _faults(reading: _Sequence, roles: Mapping[str, str]) -> list[dict[str, Any]]:
    dtypes = {one.path: one for one in reading.datasets}
    faults = []
    for (path, element), mask in sorted(reading.masks.items(), key=lambda one: (one[0][0].encode(), one[0][1])):
        if mask == 0:
            continue
        dataset = dtypes[path]
        digits = dataset.dtype.itemsize * 2
        old = reading.pattern(dataset, element)
        bits = [bit for bit in range(digits * 4) if mask >> bit & 1]
        faults.append(
            {
                "tensor": path,
                "role": roles.get(path, "unknown"),
                "element": element,
                "dtype": dataset.dtype.newbyteorder("=").name,
                "bits": bits,
                "field": _field_of(dataset.dtype, bits),
                "old": f"0x{old:0{digits}x}",
                "new": f"0x{old ^ mask:0{digits}x}",
            }
        )
    return faults


def _manifest(sequence: Path, hdf5_file: Path, faults: list[dict[str, Any]]) -> dict[str, Any]:
    digest = xxhash.xxh3_128()
    with hdf5_file.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    model = {
        "tensors": [],
        "roles": [],
        "bits": "any",
        "what": "flip",
        "measure": "tensor",
        "plane": "value",
        "seed": 0,
        "allow_nan": True,
        "keep_sign": False,
        "count": max(1, len(faults)),
    }
    return {
        "schema": "bitrift/fault-manifest/1",
        "provenance": {"converted_from": str(sequence), "tool": "hdf5_corrupter"},
        "base": {"path": str(hdf5_file), "digest": digest.hexdigest()},
        "model": model,
        "eligible_bits": 0,  # the sequence does not say what it was drawn from
        "eligible_elements": 0,
        "redrawn": 0,
        "faults": faults,
    }
