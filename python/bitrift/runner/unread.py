"""Which tensors of a file a script does not load or use: altering them changes nothing of the loaded state, or of an
evaluation.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from itertools import combinations, islice
from math import comb
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import bitrift
from bitrift import _core
from bitrift.runner import ranks
from bitrift.runner.serving import Request, Trainer

_MOST_UNUSED = 16
"""How many weights are tried at each end."""


class Loads:
    """Loads of a file with altered tensors, compared with those of the file as it is. All ranks make each together."""

    def __init__(self, trainer: Trainer, base: Path, copy: Path) -> None:
        self._trainer, self._base, self._copy = trainer, base, copy
        self._expected = self._load([])

    @property
    def refused(self) -> bool:
        """Whether the script refuses the file as it is."""
        return self._expected is None

    def differing(self, tensors: Sequence[str]) -> set[str] | None:
        """The parts of the state that differ when these tensors are altered; None if the script refuses the file."""
        found, expected = self._load(tensors), self._expected
        if found is None or expected is None:
            return None
        mine = {name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)}
        return {name for one in ranks.gather(mine) for name in one}

    def evaluation(self, tensors: Sequence[str]) -> Any:
        """How a run that takes no step ends with these tensors altered, on all ranks."""
        self._write_together(tensors)
        try:
            result = self._trainer.run(Request(str(self._copy), epochs=0))
            ending = [result["status"], result["detail"], repr(result["replicas"])]
        except Exception as error:  # such as that of a distribution whose variance is negative now
            ending = [repr(error)]
        return ranks.gather(ending)

    def _load(self, tensors: Sequence[str]) -> dict[str, bytes] | None:
        self._write_together(tensors)
        refusal, returned = self._trainer.load(str(self._copy), 0)
        return None if refusal else self._trainer.digests(returned)

    def _write_together(self, tensors: Sequence[str]) -> None:
        if ranks.number() == 0:
            self._write(tensors)
        ranks.gather(None)  # nobody loads before the file is written, or after the next one is

    def _write(self, tensors: Sequence[str]) -> None:
        if self._base.is_dir():
            shutil.rmtree(self._copy, ignore_errors=True)
            shutil.copytree(self._base, self._copy, copy_function=shutil.copyfile)  # without modes: all can be written
            return _core.disturb(self._base, self._copy, tensors)
        shutil.copyfile(self._base, self._copy)
        if not h5py.is_hdf5(self._base):
            return _core.disturb(self._base, self._copy, tensors)
        with h5py.File(self._copy, "r+") as file:
            for name in tensors:
                file[name][...] = other_values(file[name][()])


def other_values(values: Any) -> Any:
    """Values that differ everywhere, in whatever type they are loaded: of another sign, and other lowest bits."""
    values = np.asarray(values)
    if values.dtype.kind == "f":
        other = np.where(np.signbit(values), 1 - values, -1 - values)
        return np.where(np.isfinite(values), other, 1).astype(values.dtype)
    return ~values if values.dtype.kind == "b" else values ^ 1


def candidates(base: Path) -> list[str]:
    """The tensors of a file that can be altered, in HDF5 by h5py, each under the name that counts."""
    names = [one.path for one in bitrift.list_tensors(base) if not one.refusal and not one.alias_of]
    if base.is_dir() or not h5py.is_hdf5(base):
        return names
    with h5py.File(base) as file:
        return [name for name in names if isinstance(file.get(name), h5py.Dataset) and file[name].dtype.kind in "fiub"]


def unread_tensors(loads: Loads, tensors: Sequence[str]) -> list[str]:
    """Those of these tensors that leave the loaded state as it is, sorted.

    Each tensor gets a code of its own, a set of as many loads as every other, in which it is altered. A part of the
    state that differs in exactly these loads comes from this tensor: those of several tensors together are more. Where
    a script makes one part of several tensors, groups that make a difference are halved until each tensor is alone.
    """
    proven = _read_alone(loads, tensors)
    return sorted(_unread_among(loads, [name for name in tensors if name not in proven]))


def _read_alone(loads: Loads, tensors: Sequence[str]) -> set[str]:
    codes = codes_of(len(tensors))
    where: dict[str, set[int]] = {}
    for load in sorted({one for code in codes for one in code}):
        found = loads.differing([name for name, code in zip(tensors, codes, strict=True) if load in code])
        if found is None:
            return set()
        for part in found:
            where.setdefault(part, set()).add(load)
    patterns = {frozenset(one) for one in where.values()}
    return {name for name, code in zip(tensors, codes, strict=True) if frozenset(code) in patterns}


def codes_of(count: int) -> list[tuple[int, ...]]:
    """So many different sets of equal size, of numbers as small as possible."""
    numbers = 2
    while comb(numbers, numbers // 2) < count:
        numbers += 1
    return list(islice(combinations(range(numbers), numbers // 2), count))


def _unread_among(loads: Loads, tensors: Sequence[str]) -> list[str]:
    if not tensors or loads.differing(tensors) == set():
        return list(tensors)
    if len(tensors) == 1:
        return []
    half = len(tensors) // 2
    return _unread_among(loads, tensors[:half]) + _unread_among(loads, tensors[half:])


def unused_weights(loads: Loads, folders: Sequence[Sequence[str]]) -> list[str]:
    """The weights before the first, and after the last that changes an evaluation, in the first folder that has one. No
    weight at an end where no such weight is near.

    The weights of the folders before are unused, too: a script may evaluate averages of the weights instead. None of
    them is if no folder has a weight that changes an evaluation.
    """
    plain = loads.evaluation([])

    def before_a_used_one(names: Iterable[str]) -> list[str] | None:
        unused: list[str] = []
        for name in islice(names, _MOST_UNUSED + 1):
            if loads.evaluation([name]) != plain:
                return unused
            unused.append(name)
        return None

    before: list[str] = []
    for weights in folders:
        first, last = before_a_used_one(weights), before_a_used_one(reversed(weights))
        if first is not None or last is not None:
            return sorted({*before, *(first or []), *(last or [])})
        before += weights
    return []
