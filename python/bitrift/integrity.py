"""Checkpoints: check the sums that they carry, and put flipped bits right."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from os import PathLike

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
class Verification:
    """What the sums of a file say (docs/repair.md)."""

    format: str
    """hdf5, safetensors, npz or pytorch."""
    bytes: int
    """The size of the file."""
    sound: bool
    """Every sum fits, and the structure is not damaged. A file without sums counts as sound."""
    parts: tuple[SummedPart, ...]
    tensors: tuple[VerifiedTensor, ...]
    damage: str = ""
    """What is wrong with the file's structure, so that its tensors cannot be listed; "" if nothing is."""


def verify(path: Path) -> Verification:
    """Checks every sum that a checkpoint carries. Damage is a part of the result.

    Raises NotFound, Busy, IoError and Unsupported; BadFile if it is not a checkpoint.
    """
    found = json.loads(_core.verify(path))
    parts = tuple(SummedPart(**part) for part in found.pop("parts"))
    tensors = tuple(VerifiedTensor(**{**one, "sums": tuple(one["sums"])}) for one in found.pop("tensors"))
    return Verification(**found, parts=parts, tensors=tensors)


def repair(path: Path, output: Path) -> Manifest:
    """Writes a copy in which the bits are put right whose flipping explains all sums that do not fit.

    Returns the flips, from the damaged file to the repaired one. Raises Conflict, and writes nothing, if damage has
    no such explanation or several, BadInput if every sum fits, and otherwise what `verify` raises.
    """
    return manifest_of(_core.repair(path, output, sys.argv))
