"""Checkpoints: check the sums that they carry, seal them, and put damage right."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from os import PathLike
from typing import Any

from bitrift import _core
from bitrift.manifests import Manifest, manifest_of

Path = str | PathLike[str]


@dataclass(frozen=True)
class SummedPart:
    """A part of a file that one sum protects."""

    part: str
    """"member archive/data/3", "raw chunk 2 of /w" or "values of model/w"."""
    sum: str
    """CRC-32, CRC-32C, Fletcher-32 or Adler-32."""
    state: str
    """sound or damaged."""
    damage: str = ""
    """One line; "" if the sum fits."""


@dataclass(frozen=True)
class VerifiedTensor:
    """A tensor, and the sums that protect it."""

    path: str
    role: str
    bytes: int
    """As stored."""
    state: str
    """sound, damaged, unprotected (no sum covers all of its bytes) or unreadable."""
    sums: tuple[str, ...]
    reason: str = ""
    """Why it is unreadable."""


@dataclass(frozen=True)
class SealCheck:
    """What the comparison with a seal found."""

    file: str
    """The seal."""
    sound: bool
    """Every byte is as it was sealed."""
    unusable: str = ""
    """Why the seal cannot be used; then nothing of the rest is known."""
    blocks: int = 0
    block_bytes: int = 0
    data_rows: int = 0
    parity_rows: int = 0
    seal_damaged: bool = False
    """A part of the seal is damaged, which leaves enough of it."""
    damaged_blocks: int = 0
    flipped_blocks: int = 0
    """Damaged ones that one flipped bit explains, in stripes with too little sound parity."""
    lost_blocks: int = 0
    """Other damaged ones of such stripes."""
    repairable: bool = False
    damaged: tuple[dict[str, Any], ...] = ()
    """Damaged blocks that follow each other: "file" ("" if there is one), its byte "first", and "bytes"."""
    resized: tuple[dict[str, Any], ...] = ()
    """"file", "sealed_bytes", and "bytes" now: None if it is gone."""


@dataclass(frozen=True)
class Verification:
    """What the sums and the seal of a checkpoint say (docs/repair.md)."""

    format: str | None
    """hdf5, safetensors, npz, ...; None if it is damaged too much, or not a checkpoint."""
    bytes: int
    """The size of the file, or of all files."""
    sound: bool
    """Every sum and the seal fit, and the structure is not damaged. A file without either counts as sound."""
    parts: tuple[SummedPart, ...]
    tensors: tuple[VerifiedTensor, ...]
    damage: str = ""
    """What is wrong with the file's structure, so that its tensors cannot be listed; "" if nothing is."""
    other: str = ""
    """Why a sealed file has no tensors: it is not a checkpoint; or ""."""
    seal: SealCheck | None = None
    """If there is one."""


def verify(path: Path) -> Verification:
    """Checks every sum that a checkpoint carries, and compares it with its seal. Damage is a part of the result.

    Raises NotFound, Busy, IoError and Unsupported; BadFile if it is neither a checkpoint nor sealed.
    """
    found = json.loads(_core.verify(path))
    parts = tuple(SummedPart(**part) for part in found.pop("parts"))
    tensors = tuple(VerifiedTensor(**{**one, "sums": tuple(one["sums"])}) for one in found.pop("tensors"))
    if "seal" in found:
        check: dict[str, Any] = found.pop("seal")
        check |= {key: tuple(check[key]) for key in ("damaged", "resized") if key in check}
        found["seal"] = SealCheck(**check)
    return Verification(**found, parts=parts, tensors=tensors)


@dataclass(frozen=True)
class Seal:
    """A seal that was written."""

    seal: str
    """Its path."""
    seal_bytes: int
    bytes: int
    """What it protects."""
    files: int
    blocks: int
    block_bytes: int
    stripes: int
    data_rows: int
    """Blocks of a stripe, at most."""
    parity_rows: int
    """How many of them can be lost."""


def seal(path: Path, *, percent: float = 1, replace: bool = False, check: bool = True) -> Seal:
    """Writes PATH.seal: digests of all blocks of a file, or of all files of a folder, and parity.

    With it, `verify` finds every damaged block, and `repair` restores as many as the parity covers.

    percent: parity, of the bytes that are sealed: 0.4 to 100; digests take 0.4 % more.
    replace: a seal that is there already; otherwise, it is refused.
    check: whether sums that do not fit are refused. False saves time for what was written just now.

    Raises BadInput, Conflict for damage and where a file changes in the meantime, NotFound and IoError.
    """
    return Seal(**json.loads(_core.seal(path, percent, replace, not check)))


def repair(path: Path, output: Path) -> Manifest | None:
    """Writes a copy in which lost blocks are restored by the seal, or flipped bits that explain all sums put right.

    Returns the flips, from the damaged file to the repaired one; None if a manifest cannot say what the seal restored,
    such as more than 65,536 bytes or the size of a file. Raises Conflict, and writes nothing, if the damage cannot be
    repaired, BadInput if there is none, and otherwise what `verify` raises.
    """
    text = _core.repair(path, output, sys.argv)
    return manifest_of(text) if text else None
