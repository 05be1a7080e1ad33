"""Checkpoints: list their tensors, flip bits, take that back, compare."""

from __future__ import annotations

import json
import operator
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, SupportsIndex

from bitrift import _core
from bitrift.errors import BadInput, NotFound
from bitrift.manifests import Manifest, manifest_of, stored_text

Path = str | PathLike[str]
Bits = str | SupportsIndex | Sequence[SupportsIndex]
Element = SupportsIndex | Sequence[SupportsIndex]


@dataclass(frozen=True)
class Tensor:
    """One dataset or array of a file."""

    path: str
    """Without a leading '/': "model/conv1.weight"."""
    role: str
    """weight, bias, norm, running_stat, momentum, exp_avg, exp_avg_sq, step, rng, progress, checksum or unknown."""
    layer: str
    """The layer that it belongs to (docs/roles.md); "" when it belongs to none."""
    dtype: str
    """float32, bfloat16, int64, ...; also "string" and other types that cannot be altered."""
    shape: tuple[int, ...]
    """Empty for a scalar."""
    storage: str
    """contiguous, compact, chunked, virtual or external, with "+filters" when filtered; outside of HDF5 stored or
    deflated. Anywhere: "deflated file", if its file is deflated as a whole in an archive."""
    stored_bytes: int
    offset: int | None
    """Where its first byte is in the file; None when the bytes do not lie in one piece."""
    refusal: str
    """Why it cannot be altered; "" when it can."""
    alias_of: str = ""
    """The tensor whose elements these are (docs/other-formats.md); "" when they are its own."""
    file: str = ""
    """In a checkpoint of several files: the names of those that hold it, joined by ", "; "" in a single file."""


@dataclass(frozen=True)
class Difference:
    """What differs in one tensor of two checkpoints."""

    path: str
    kind: str
    """values, only_in_first, only_in_second, shape, dtype or not_compared (which may hide a difference)."""
    role: str
    dtype: str
    detail: str
    elements: int
    """Differing elements."""
    bits: int
    """Differing bits, summed over elements."""
    first_element: int
    """Flat index, row-major, of the first element that differs."""
    first_old: int
    """Its bit pattern in the first file; bit 0 is the least significant bit of the value."""
    first_new: int


def list_tensors(path: Path) -> list[Tensor]:
    """All tensors of an HDF5, safetensors, npz or PyTorch file, sorted by path.

    Raises NotFound, BadFile, Busy and IoError.
    """
    return [Tensor(**{**entry, "shape": tuple(entry["shape"])}) for entry in json.loads(_core.list_tensors(path))]


def _bits(bits: Bits) -> str:
    if isinstance(bits, str):
        return bits
    numbers = [operator.index(one) for one in bits] if isinstance(bits, Iterable) else [operator.index(bits)]
    if not numbers:
        raise BadInput("bits is empty: give a number, numbers, or the name of a field", "bits")
    return ",".join(map(str, numbers))


def _element(path: Path, tensor: str | None, element: Element) -> int:
    """The row-major index of an element that is given by one index, or by one for each dimension."""
    if not isinstance(element, Iterable):
        flat = operator.index(element)
        if flat < 0:
            raise BadInput(f"element {flat} is negative: give a row-major index", "element")
        return flat
    if tensor is None:
        raise BadInput("element is an index for each dimension, so it needs tensor=NAME", "element")
    shape = next((one.shape for one in list_tensors(path) if one.path == tensor.removeprefix("/")), None)
    if shape is None:
        raise NotFound(f"{path}: no tensor is called {tensor} (see list_tensors)", "tensor")
    index = tuple(operator.index(one) for one in element)
    if len(index) != len(shape) or not all(0 <= i < n for i, n in zip(index, shape, strict=True)):
        raise BadInput(f"{path}: {tensor} has the shape {shape}, so it has no element {index}", "element")
    flat = 0
    for i, n in zip(index, shape, strict=True):
        flat = flat * n + i
    return flat


def _model(path: Path, given: dict[str, Any]) -> str:
    """A fault model as JSON (docs/faults.md) of the arguments of `inject`; None leaves a key out."""
    if any(isinstance(given[names], str) for names in ("tensors", "exclude", "roles", "layers")):
        raise TypeError("tensors, exclude, roles and layers are sequences, not one string")
    tensor, element, mask, value = (given.pop(name) for name in ("tensor", "element", "mask", "value"))
    formats, scope = given.pop("formats"), given["scope"]
    if tensor is not None and given["tensors"]:
        raise TypeError("give either tensor or tensors")
    model = given | {
        "tensors": list(given["tensors"]) if tensor is None else [tensor],
        "element": None if element is None else _element(path, tensor, element),
        "exclude": list(given["exclude"]) or None,
        "roles": list(given["roles"]),
        "layers": [str(layer) for layer in given["layers"]] or None,
        "bits": _bits(given["bits"]),
        "mask": f"{mask:#x}" if isinstance(mask, int) else mask,
        "value": None if value is None else str(value),
        "seed": secrets.randbits(53) if given["seed"] is None else given["seed"],
        "as": dict(formats) if formats else None,
        "scope": dict(scope) if scope else None,
    }
    return json.dumps({name: value for name, value in model.items() if value is not None})


def _target(output: Path | None, in_place: bool) -> None:
    if (output is None) != in_place:
        raise TypeError("give either output=FILE or in_place=True")


def plan(
    path: Path,
    *,
    tensor: str | None = None,
    element: Element | None = None,
    tensors: Sequence[str] = (),
    exclude: Sequence[str] = (),
    roles: Sequence[str] = (),
    layers: Sequence[str | int] = (),
    bits: Bits = "any",
    what: str = "flip",
    measure: str = "bit",
    count: int | None = None,
    fraction: float | None = None,
    ber: float | None = None,
    seed: int | None = None,
    allow_nan: bool = True,
    keep_sign: bool = False,
    length: int | None = None,
    mask: str | int | None = None,
    mask_at: str | None = None,
    factor: float | None = None,
    value: float | str | None = None,
    ecc: str | None = None,
    upset_mode: str | None = None,
    upset_rates: str | None = None,
    formats: Mapping[str, str] | None = None,
    scope: Mapping[str, Any] | None = None,
    plane: str = "value",
) -> Manifest:
    """The manifest of what `inject` would do with these arguments (give a seed). Nothing is written."""
    where = {"tensor": tensor, "element": element, "tensors": tensors, "exclude": exclude, "roles": roles}
    fields = {"layers": layers, "bits": bits}
    kind = {"what": what, "length": length, "mask": mask, "mask_at": mask_at, "factor": factor, "value": value}
    upset = {"ecc": ecc, "upset_mode": upset_mode, "upset_rates": upset_rates}
    amount = {"measure": measure, "count": count, "fraction": fraction, "ber": ber, "seed": seed}
    limits = {"allow_nan": allow_nan, "keep_sign": keep_sign, "formats": formats, "scope": scope, "plane": plane}
    model = _model(path, where | fields | kind | upset | amount | limits)
    return manifest_of(_core.plan(path, model, sys.argv))


def inject(
    path: Path,
    output: Path | None = None,
    *,
    in_place: bool = False,
    tensor: str | None = None,
    element: Element | None = None,
    tensors: Sequence[str] = (),
    exclude: Sequence[str] = (),
    roles: Sequence[str] = (),
    layers: Sequence[str | int] = (),
    bits: Bits = "any",
    what: str = "flip",
    measure: str = "bit",
    count: int | None = None,
    fraction: float | None = None,
    ber: float | None = None,
    seed: int | None = None,
    allow_nan: bool = True,
    keep_sign: bool = False,
    length: int | None = None,
    mask: str | int | None = None,
    mask_at: str | None = None,
    factor: float | None = None,
    value: float | str | None = None,
    ecc: str | None = None,
    upset_mode: str | None = None,
    upset_rates: str | None = None,
    formats: Mapping[str, str] | None = None,
    scope: Mapping[str, Any] | None = None,
    plane: str = "value",
) -> Manifest:
    """Alters a checkpoint and returns the manifest: every change, and what it was drawn from.

    The altered file is `output`, a new copy, or with `in_place=True` the file itself (take it back with `undo`).
    tensor: the only one. tensors: globs over tensor paths; `*` stays within one name between dots, `**` crosses.
    exclude: globs over paths of tensors that are not targets. roles: see `Tensor.role`. layers: first, middle, last, or
    numbers and names of layers (see `Tensor.layer`). element: the only one of the one chosen tensor, as its row-major
    index or as an index for each dimension, such as (3, 0, 1); all bits that are listed by number are then altered,
    unless an amount is given.
    bits: any, sign, exponent, mantissa, exponent_msb, a number, numbers such as [22, 30], or a text such as "23-30";
    bit 0 is the least significant. what: flip, burst (with `length`), xor (with `mask`, and `mask_at` aligned or
    random), stuck-at-0, stuck-at-1, zero, nan, inf, max, set (with `value`), scale (with `factor`), random, or upset:
    upsets of memory that escape its code `ecc` (none, secded or chipkill), of one `upset_mode` (bit, word, column, row,
    bank or chip) or of all, by their transient or permanent `upset_rates`.
    formats: glob over tensor paths -> number format of the same width that their bytes are read as.
    scope: {"replicas": 2} or {"replicas": [1, 3]}: only tensors of single replicas. plane: value, storage or metadata
    (docs/faults.md).
    measure: bit, element or tensor. At most one of count
    (faults), fraction (of the targeted elements) and ber (bit error rate); count=1 without any. seed: 0..2^53-1;
    without one, a random seed that the manifest holds. Equal arguments and seeds on equal files give equal changes.

    The manifest has the keys of docs/faults.md, with patterns (`old`, `new`) as integers and values as numbers.
    `replay` takes it, `save_manifest` writes it to a file.

    Raises NotFound, BadInput, BadFile, Unsupported, Busy, Conflict and IoError, all of them `Error`.
    """
    _target(output, in_place)
    where = {"tensor": tensor, "element": element, "tensors": tensors, "exclude": exclude, "roles": roles}
    fields = {"layers": layers, "bits": bits}
    kind = {"what": what, "length": length, "mask": mask, "mask_at": mask_at, "factor": factor, "value": value}
    upset = {"ecc": ecc, "upset_mode": upset_mode, "upset_rates": upset_rates}
    amount = {"measure": measure, "count": count, "fraction": fraction, "ber": ber, "seed": seed}
    limits = {"allow_nan": allow_nan, "keep_sign": keep_sign, "formats": formats, "scope": scope, "plane": plane}
    model = _model(path, where | fields | kind | upset | amount | limits)
    return manifest_of(_core.inject(path, output, model, sys.argv))


def replay(
    path: Path,
    output: Path | None = None,
    *,
    manifest: Path | Mapping[str, Any],
    in_place: bool = False,
    force: bool = False,
    by_name: bool = False,
) -> Manifest:
    """Does again what a manifest says, which `inject` returned or a file holds. Returns that manifest.

    Raises Conflict with the first difference when the checkpoint is not the one that the manifest was drawn from.
    by_name=True asks that it holds the altered tensors under their names, with shape, number format and every old
    value, stored in any way; force=True asks for the old values alone. Otherwise as `inject`.
    """
    _target(output, in_place)
    if isinstance(manifest, Mapping):
        return manifest_of(_core.replay_text(path, output, stored_text(manifest), force, by_name))
    return manifest_of(_core.replay(path, output, manifest, force, by_name))


def undo(path: Path) -> int:
    """Takes the last in-place injection back, byte for byte. Returns how many bytes were restored.

    Raises NotFound when there is nothing to undo, Conflict when the file was changed since.
    """
    return _core.undo(path)


def diff(first: Path, second: Path) -> list[Difference]:
    """What differs between two checkpoints, by value bits; empty when they are equal. Raises as `list_tensors` does."""
    return [Difference(**entry) for entry in json.loads(_core.diff(first, second))]
