"""Checkpoints: list their tensors, flip bits, take that back, compare."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, cast

from bitrift import _core

Path = str | PathLike[str]


@dataclass(frozen=True)
class Tensor:
    """One dataset of a file."""

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
    """contiguous, compact, chunked, virtual or external, with "+filters" when filtered."""
    stored_bytes: int
    offset: int | None
    """Of its first byte in the file; None when the bytes do not lie in one piece."""
    refusal: str
    """Why it cannot be altered; "" when it can."""


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
    """All datasets of an HDF5 file, sorted by path.

    Raises Error(not_found | bad_file | busy | io).
    """
    return [Tensor(**{**entry, "shape": tuple(entry["shape"])}) for entry in json.loads(_core.list_tensors(path))]


def _model(
    *,
    tensors: Sequence[str],
    roles: Sequence[str],
    layers: Sequence[str],
    count: int | None,
    fraction: float | None,
    ber: float | None,
    seed: int | None,
    formats: Mapping[str, str] | None,
    scope: Mapping[str, Any] | None,
    **others: object,
) -> str:
    """A fault model as JSON (docs/faults.md), under the names of `inject`; None leaves a key out."""
    if any(isinstance(names, str) for names in (tensors, roles, layers)):
        raise TypeError("tensors, roles and layers are sequences of strings, not one string")
    amounts = {"count": count, "fraction": fraction, "ber": ber}
    if all(amount is None for amount in amounts.values()):
        amounts["count"] = 1
    model: dict[str, Any] = {
        "tensors": list(tensors),
        "roles": list(roles),
        "layers": list(layers) or None,
        "seed": secrets.randbits(53) if seed is None else seed,
        "as": dict(formats) if formats else None,
        "scope": dict(scope) if scope else None,
        **amounts,
        **others,
    }
    return json.dumps({name: value for name, value in model.items() if value is not None})


def _target(output: Path | None, in_place: bool) -> None:
    if (output is None) != in_place:
        raise TypeError("give either output=FILE or in_place=True")


def plan(
    path: Path,
    *,
    tensors: Sequence[str] = (),
    roles: Sequence[str] = (),
    layers: Sequence[str] = (),
    bits: str = "any",
    what: str = "flip",
    measure: str = "bit",
    count: int | None = None,
    fraction: float | None = None,
    ber: float | None = None,
    seed: int | None = None,
    allow_nan: bool = True,
    keep_sign: bool = False,
    length: int | None = None,
    mask: str | None = None,
    mask_at: str | None = None,
    factor: float | None = None,
    value: float | str | None = None,
    formats: Mapping[str, str] | None = None,
    scope: Mapping[str, Any] | None = None,
    plane: str = "value",
) -> dict[str, Any]:
    """The manifest of what `inject` would do with these arguments (give a seed). Nothing is written."""
    model = _model(
        tensors=tensors,
        roles=roles,
        layers=layers,
        bits=bits,
        what=what,
        measure=measure,
        count=count,
        fraction=fraction,
        ber=ber,
        seed=seed,
        allow_nan=allow_nan,
        keep_sign=keep_sign,
        length=length,
        mask=mask,
        mask_at=mask_at,
        factor=factor,
        value=value,
        formats=formats,
        scope=scope,
        plane=plane,
    )
    return cast(dict[str, Any], json.loads(_core.plan(path, model, sys.argv)))


def inject(
    path: Path,
    output: Path | None = None,
    *,
    in_place: bool = False,
    tensors: Sequence[str] = (),
    roles: Sequence[str] = (),
    layers: Sequence[str] = (),
    bits: str = "any",
    what: str = "flip",
    measure: str = "bit",
    count: int | None = None,
    fraction: float | None = None,
    ber: float | None = None,
    seed: int | None = None,
    allow_nan: bool = True,
    keep_sign: bool = False,
    length: int | None = None,
    mask: str | None = None,
    mask_at: str | None = None,
    factor: float | None = None,
    value: float | str | None = None,
    formats: Mapping[str, str] | None = None,
    scope: Mapping[str, Any] | None = None,
    plane: str = "value",
) -> dict[str, Any]:
    """Alters a checkpoint and returns the manifest: every change, and what it was drawn from.

    The altered file is `output`, a new copy, or with `in_place=True` the file itself (take it back with `undo`).
    tensors: globs over tensor paths; `*` stays within one name between dots, `**` crosses. roles: see `Tensor.role`.
    layers: first, middle, last, or numbers and names of layers (see `Tensor.layer`).
    bits: any, sign, exponent, mantissa, exponent_msb, a range "23-30" or a list "3,7,30"; bit 0 is the least
    significant. what: flip, burst (with `length`), xor (with `mask`, and `mask_at` aligned or random), stuck-at-0,
    stuck-at-1, zero, nan, inf, max, set (with `value`), scale (with `factor`) or random. formats: glob over tensor
    paths -> number format of the same width that their bytes are read as. scope: {"replicas": 2} or
    {"replicas": [1, 3]}: only tensors of single replicas. plane: value, storage or metadata (docs/faults.md).
    measure: bit, element or tensor. At most one of count
    (faults), fraction (of the targeted elements) and ber (bit error rate); count=1 without any. seed: 0..2^53-1;
    without one, a random seed that the manifest holds. Equal arguments and seeds on equal files give equal changes.

    Raises Error(not_found | bad_input | bad_file | unsupported | busy | conflict | io).
    """
    _target(output, in_place)
    model = _model(
        tensors=tensors,
        roles=roles,
        layers=layers,
        bits=bits,
        what=what,
        measure=measure,
        count=count,
        fraction=fraction,
        ber=ber,
        seed=seed,
        allow_nan=allow_nan,
        keep_sign=keep_sign,
        length=length,
        mask=mask,
        mask_at=mask_at,
        factor=factor,
        value=value,
        formats=formats,
        scope=scope,
        plane=plane,
    )
    return cast(dict[str, Any], json.loads(_core.inject(path, output, model, sys.argv)))


def replay(
    path: Path,
    output: Path | None = None,
    *,
    manifest: Path,
    in_place: bool = False,
    force: bool = False,
    by_name: bool = False,
) -> dict[str, Any]:
    """Does again what a manifest file says. Returns that manifest.

    Raises Error(conflict) with the first difference when the checkpoint is not the one that the manifest was drawn
    from. by_name=True asks that it holds the altered tensors under their names, with shape, number format and every
    old value, stored in any way; force=True asks for the old values alone. Otherwise as `inject`.
    """
    _target(output, in_place)
    return cast(dict[str, Any], json.loads(_core.replay(path, output, manifest, force, by_name)))


def undo(path: Path) -> int:
    """Takes the last in-place injection back, byte for byte. Returns how many bytes were restored.

    Raises Error(not_found) when there is nothing to undo, Error(conflict) when the file was changed since.
    """
    return _core.undo(path)


def diff(first: Path, second: Path) -> list[Difference]:
    """What differs between two checkpoints, by value bits; empty when they are equal. Raises as `list_tensors` does."""
    return [Difference(**entry) for entry in json.loads(_core.diff(first, second))]
