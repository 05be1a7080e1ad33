"""Whether a training that stops, saves, loads and continues is one that never stopped; and if not, what is missing."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from bitrift.audit.pieces import STATE, Kept, Kind
from bitrift.audit.process import Record, digest_of
from bitrift.audit.trainings import Trainings

MOST_LEFT_OUT = 6
"""If more pieces of state than this differ after the load, none of them is left out alone to see its effect."""


@dataclass(frozen=True)
class Difference:
    """The first thing in which two trainings differ."""

    rank: int
    update: int | None
    """The step after the save, from 1; None for what is compared at the end of an epoch or of the training."""
    what: str
    uninterrupted: float | None
    resumed: float | None


@dataclass(frozen=True)
class Missing:
    """A piece that differs after the load."""

    piece: str
    kind: Kind
    rank: int
    detail: str
    needed: bool | None
    """Whether the training differs if this piece alone stays as it was loaded; None if that was not found out."""


@dataclass
class Audit:
    """What an audit of a resume found."""

    script: str
    epochs: int
    more: int
    ranks: int
    tolerance: float
    equal: bool = False
    difference: Difference | None = None
    missing: list[Missing] = field(default_factory=list)
    harmless: list[Missing] = field(default_factory=list)
    """Pieces that differ after the load, without any effect on the training."""
    explained: bool = True
    """Whether putting back all pieces that differ makes the trainings equal."""
    restored: list[str] = field(default_factory=list)
    """Pieces that the training changed and that the load brought back."""
    iterators: list[str] = field(default_factory=list)
    problem: str = ""
    """Why no answer can be given; "" if there is one."""
    largest: float = 0.0
    """With a tolerance: the largest relative difference that it hides."""
    trainings: int = 0


def audit_resume(
    trainings: Trainings,
    *,
    epochs: int = 1,
    more: int = 1,
    tolerance: float = 0.0,
    say: Callable[[str], None] = lambda _: None,
) -> Audit:
    """Trains `epochs` + `more` epochs in one go, and again with a save, a new process and a load after `epochs`.

    tolerance: relative difference of losses, metrics and tensors that counts as equal, for kernels that do not repeat.
    say: is told what happens next. Raises TrainingFailed where the script does not train, save or load.
    """
    audit = Audit(trainings.command(), epochs, more, 0, tolerance)
    saved = trainings.file("saved")
    say(f"training {epochs} + {more} epochs in one go, with a save after {epochs}")
    one = trainings.run("one", before=epochs, save=saved, after=more)
    reference = trainings.count
    audit.ranks = len(one)
    say("the same without the save")
    audit.problem = _unrepeatable(trainings, one, epochs, more, tolerance)
    if audit.problem:
        return audit
    say(f"a new process: load, and {more} more epochs")
    resumed = trainings.run("resumed", load=saved, after=more)
    audit.iterators = sorted({name for record in one for name in record.iterators})
    audit.difference = first_difference(one, resumed, tolerance)
    if tolerance:
        audit.largest = largest_difference(one, resumed)
    suspects = _suspects(one, resumed, tolerance)
    audit.restored = _restored(one, suspects)
    if audit.difference is None and not any(each.kind in STATE for each in suspects.values()):
        audit.equal, audit.harmless = True, list(suspects.values())
    else:
        again = _Again(trainings, one, saved, more, tolerance, reference, say)
        again.explain(audit, suspects)
    audit.trainings = trainings.count
    return audit


def _unrepeatable(trainings: Trainings, one: list[Record], epochs: int, more: int, tolerance: float) -> str:
    """Why two trainings from the same seed differ before anything is loaded; "" if they do not."""
    plain = trainings.run("one", before=epochs, after=more)
    if first_difference(one, plain, tolerance) is None:
        return ""
    third = trainings.run("one", before=epochs, after=more)
    found = first_difference(plain, third, tolerance)
    if found is None:
        found = first_difference(one, plain, tolerance)
        return f"saving changes the training: with and without a save, {words_of(found)}"
    largest = largest_difference(plain, third)
    return (
        f"two trainings from the same seed differ: {words_of(found)}; the largest relative difference of a parameter "
        f"is {largest:.2g}: seed every generator that the script makes, or give --tolerance"
    )


class _Again:
    """Resumes with pieces of the uninterrupted training put back."""

    def __init__(
        self,
        trainings: Trainings,
        one: list[Record],
        saved: Any,
        more: int,
        tolerance: float,
        reference: int,
        say: Callable[[str], None],
    ) -> None:
        self._trainings, self._one, self._saved, self._more = trainings, one, saved, more
        self._tolerance, self._reference, self._say = tolerance, reference, say

    def explain(self, audit: Audit, suspects: Mapping[str, Missing]) -> None:
        """Finds out which pieces make the difference, by leaving them out one after the other."""
        names = list(suspects)
        if audit.difference is None:  # nothing followed from it so far
            audit.missing = [each for each in suspects.values() if each.kind in STATE]
            audit.harmless = [each for each in suspects.values() if each.kind not in STATE]
            return
        self._say(f"the trainings differ; resuming with {len(names)} pieces put back")
        audit.explained = bool(names) and self._equal(names)
        if not audit.explained:
            audit.missing = list(suspects.values())
            return
        state = [name for name in names if suspects[name].kind in STATE]
        others = [name for name in names if name not in state]
        needed = set(self._needed(others, names)) if others else set()
        # Pieces of state count in any case.
        tried = state if len(state) <= MOST_LEFT_OUT else []
        for name in tried:
            needed |= set(self._needed([name], names))
        for name, each in suspects.items():
            effect = name in needed if name in tried or name in others else None
            found = Missing(each.piece, each.kind, each.rank, each.detail, effect)
            (audit.missing if name in needed or name in state else audit.harmless).append(found)

    def _needed(self, group: list[str], everything: list[str]) -> Iterator[str]:
        """Those of a group without which the trainings differ."""
        self._say(f"leaving out {group[0] if len(group) == 1 else f'{len(group)} of them'}")
        if self._equal([name for name in everything if name not in group]):
            return
        if len(group) == 1:
            yield group[0]
            return
        half = len(group) // 2
        yield from self._needed(group[:half], everything)
        yield from self._needed(group[half:], everything)

    def _equal(self, names: Iterable[str]) -> bool:
        resumed = self._trainings.run(
            "resumed",
            load=self._saved,
            after=self._more,
            transplant=self._trainings.path_of(self._reference),
            take=tuple(names),
        )
        return first_difference(self._one, resumed, self._tolerance) is None


def first_difference(one: list[Record], other: list[Record], tolerance: float) -> Difference | None:
    """Where two trainings part: at the earliest step, a rate before a loss before a tensor; else at the end."""
    found = [
        difference
        for rank, (a, b) in enumerate(zip(one, other, strict=True))
        if (difference := _first(rank, a, b, tolerance)) is not None
    ]
    return min(found, key=lambda each: (each.update is None, each.update or 0, each.rank), default=None)


def _first(rank: int, one: Record, other: Record, tolerance: float) -> Difference | None:
    for index, (a, b) in enumerate(zip(one.updates, other.updates, strict=False)):
        for name in a.rates.keys() | b.rates.keys():
            for mine, its in zip(a.rates.get(name, []), b.rates.get(name, []), strict=False):
                if not _close(mine, its, tolerance):
                    return Difference(rank, index + 1, "the learning rate", mine, its)
        losses = one.losses[index : index + 1] + other.losses[index : index + 1]
        if len(losses) == 2 and not _close(losses[0], losses[1], tolerance):
            return Difference(rank, index + 1, "the loss", losses[0], losses[1])
        if not tolerance:
            altered = next((key for key, digest in a.tensors.items() if b.tensors.get(key, digest) != digest), None)
            if altered is not None:
                return Difference(rank, index + 1, f"the parameter {altered}", None, None)
    if len(one.updates) != len(other.updates):
        return Difference(rank, None, "the number of steps", len(one.updates), len(other.updates))
    for index, (mine, its) in enumerate(zip(one.losses, other.losses, strict=False)):
        if not _close(mine, its, tolerance):
            return Difference(rank, index + 1, "the loss", mine, its)
    return _first_at_end(rank, one, other, tolerance)


def _first_at_end(rank: int, one: Record, other: Record, tolerance: float) -> Difference | None:
    for metrics, others in zip(one.epochs, other.epochs, strict=True):
        for name, value in metrics.items():
            if name in others and not _close(value, others[name], tolerance):
                return Difference(rank, None, name, value, others[name])
    for name, kept in one.end.items():
        if kept.kind in (Kind.PARAMETERS, Kind.BUFFERS, Kind.OPTIMIZER_STATE) and name in other.end:
            where = first_unequal(kept.state, other.end[name].state, tolerance)
            if where is not None:
                return Difference(rank, None, f"{name}: {where}", None, None)
    return None


def _suspects(one: list[Record], resumed: list[Record], tolerance: float) -> dict[str, Missing]:
    """The pieces that differ between the save and the load, on any rank, by name."""
    found: dict[str, Missing] = {}
    for rank, (a, b) in enumerate(zip(one, resumed, strict=True)):
        for name, kept in a.saved.items():
            if name in found or (name not in b.saved and kept.kind not in STATE):
                continue
            where: str | None = "is not there after the load"
            if name in b.saved:
                where = first_unequal(_compared(kept), _compared(b.saved[name]), tolerance)
            if where is not None:
                found[name] = Missing(name, kept.kind, rank, where, None)
    return found


def _compared(kept: Kept) -> Any:
    """What counts of a piece's state: not how a scheduler came to where it is."""
    if kept.kind is not Kind.SCHEDULER or not isinstance(kept.state, Mapping):
        return kept.state
    own = {"_step_count", "_last_lr", "_get_lr_called_within_step", "_initial_step", "_is_initial"}
    state = {key: value for key, value in kept.state.items() if key not in own}
    if "_schedulers" in state:
        state["_schedulers"] = [_compared(Kept("", Kind.SCHEDULER, one)) for one in state["_schedulers"]]
    return state


def _restored(one: list[Record], suspects: Mapping[str, Missing]) -> list[str]:
    """What the training changed until the save, and the load brought back."""
    return sorted(
        name
        for name, kept in one[0].saved.items()
        if name not in suspects
        and kept.kind not in (Kind.NUMBER, Kind.MODE, Kind.GRADIENTS)
        and one[0].begun.get(name, "") != digest_of(kept.state)
    )


def first_unequal(one: Any, other: Any, tolerance: float) -> str | None:
    """Where two states first differ, in words; None if they do not."""
    return next(_unequal("", one, other, tolerance), None)


def _unequal(name: str, one: Any, other: Any, tolerance: float) -> Iterator[str]:
    where = f"{name} is " if name else "is "
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.dtype != other.dtype or one.shape != other.shape or one.tobytes() != other.tobytes():
            yield f"{name or 'its state'} differs"
    elif isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if one.dtype != other.dtype or one.shape != other.shape:
            yield f"{where}{_shape(one)} at the save and {_shape(other)} after the load"
        elif (count := _differing(one, other, tolerance)) > 0:
            if one.numel() == 1:
                yield f"{where}{one.item()} at the save and {other.item()} after the load"
            else:
                yield f"{count} of {one.numel()} elements{f' of {name}' if name else ''} differ"
    elif isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in one:
            inner = f"{name}/{key}" if name else str(key)
            if key not in other:
                yield f"{inner} is not there after the load"
            else:
                yield from _unequal(inner, one[key], other[key], tolerance)
        for key in other:
            if key not in one:
                yield f"{f'{name}/{key}' if name else key} is there after the load, but not at the save"
    elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        if len(one) != len(other):
            yield f"{name or 'it'} has {len(one)} items at the save and {len(other)} after the load"
        elif len(one) > 100:  # the inside of a random generator
            if repr(one) != repr(other):
                yield f"{name or 'its state'} differs"
        else:
            for index, (a, b) in enumerate(zip(one, other, strict=True)):
                inner = f"{name}[{index}]" if len(one) > 1 else name
                yield from _unequal(inner, a, b, tolerance)
    elif isinstance(one, float) and isinstance(other, float):
        if not _close(one, other, tolerance):
            yield f"{where}{one:.6g} at the save and {other:.6g} after the load"
    elif type(one) is not type(other) or one != other:
        yield f"{where}{one!r} at the save and {other!r} after the load"


def _shape(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _differing(one: torch.Tensor, other: torch.Tensor, tolerance: float) -> int:
    """How many elements differ in a bit, or by more than the tolerance times the largest magnitude."""
    if tolerance and one.is_floating_point():
        gap = (one.double() - other.double()).abs()
        return int((~(gap <= tolerance * one.double().abs().max())).sum())
    size = one.element_size()
    a, b = (each.contiguous().reshape(-1).view(torch.uint8).reshape(-1, size) for each in (one, other))
    return int((a != b).any(1).sum())


def _close(one: float, other: float, tolerance: float) -> bool:
    if struct.pack("<d", one) == struct.pack("<d", other):
        return True
    return abs(one - other) <= tolerance * max(abs(one), abs(other)) if tolerance else False


def largest_difference(one: list[Record], other: list[Record]) -> float:
    """The largest difference of a parameter at the end, relative to the largest magnitude in its tensor."""
    largest = 0.0
    for a, b in zip(one, other, strict=True):
        for name, kept in a.end.items():
            if kept.kind is not Kind.PARAMETERS or name not in b.end:
                continue
            for key, tensor in kept.state.items():
                its = b.end[name].state.get(key)
                if its is None or its.shape != tensor.shape or not tensor.is_floating_point() or not tensor.numel():
                    continue
                gap = (tensor.double() - its.double()).abs().max() / tensor.double().abs().max().clamp_min(1e-300)
                largest = max(largest, float(gap))
    return largest


def words_of(difference: Difference | None) -> str:
    """A difference as the end of a sentence."""
    if difference is None:
        return "nothing differs"
    pair = ""
    if difference.uninterrupted is not None and difference.resumed is not None:
        pair = f" is {difference.uninterrupted:.7g} and {difference.resumed:.7g}"
    else:
        pair = " differs"
    when = f" in step {difference.update} after the save" if difference.update is not None else " at the end"
    rank = f" on rank {difference.rank}" if difference.rank else ""
    return f"{difference.what}{pair}{when}{rank}"
