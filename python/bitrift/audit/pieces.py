"""The pieces of a training's state: each can be read, compared and put back alone."""

from __future__ import annotations

import copy
import enum
import functools
import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from bitrift.audit.walk import Found, walk
from bitrift.runner import ranks, tensors
from bitrift.runner.state import copy_of_state, hyperparameters_of, parameters_of, set_hyperparameters

Write = Callable[[Any], None]

MOST_OF_ONE = 4
"""Names of pieces of one object that a list shows."""


class Kind(enum.Enum):
    """What a piece is part of."""

    PARAMETERS = "parameters"
    BUFFERS = "buffers"
    GRADIENTS = "gradients"
    MODE = "mode"
    OPTIMIZER_STATE = "optimizer state"
    HYPERPARAMETERS = "hyperparameters"
    SCHEDULER = "scheduler"
    SCALER = "scaler"
    GENERATOR = "generator"
    DEFAULT_GENERATOR = "default generator"
    OBJECT = "object"
    TENSOR = "tensor"
    ARRAY = "array"
    NUMBER = "number"
    EPOCH = "epoch"


STATE = frozenset(
    {
        Kind.PARAMETERS,
        Kind.BUFFERS,
        Kind.OPTIMIZER_STATE,
        Kind.HYPERPARAMETERS,
        Kind.SCHEDULER,
        Kind.SCALER,
        Kind.EPOCH,
    }
)
"""Kinds whose difference is one even if nothing follows from it in the epochs that the audit trains."""


@dataclass(frozen=True)
class Piece:
    """One piece in this process."""

    name: str
    kind: Kind
    read: Callable[[], Any]
    write: Write | None
    owner: torch.nn.Module | None = None
    """The module, for its parameters."""


@dataclass(frozen=True)
class Kept:
    """A piece as it was at one moment, for another process."""

    name: str
    kind: Kind
    state: Any


def pieces_of(
    functions: list[Callable[..., Any]], folder: Path, state: Any = None
) -> tuple[dict[str, Piece], list[str]]:
    """The pieces that a script's functions and state lead to, and the names of iterators.

    The position of an iterator cannot be read. state: what the script's state() returns.
    """
    found = walk(functions, folder, state)
    pieces = [*_default_generators(), *_of_objects(found), *_of_tensors(found)]
    pieces += [*_of_arrays(found), *_of_numbers(found)]
    return {one.name: one for one in pieces}, found.iterators


def keep(pieces: Mapping[str, Piece]) -> dict[str, Kept]:
    """All pieces as they are now."""
    return {name: Kept(name, one.kind, portable(one.read())) for name, one in pieces.items()}


def in_short(names: Iterable[str]) -> str:
    """Names of pieces as a list; an object with many of them is named once, with their number."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(re.split(r"[.\[]", name, maxsplit=1)[0], []).append(name)
    several = (own if len(own) <= MOST_OF_ONE else [f"{one} ({len(own)} values)"] for one, own in groups.items())
    return ", ".join(name for own in several for name in own)


def portable(value: Any) -> Any:
    """A copy that another process can read: tensors on the CPU, this rank's shard of each sharded one, and the text
    of what is of another type.
    """
    if isinstance(value, torch.Tensor):
        copied = tensors.copy_of(value)
        return copied if copied.device.type == "cpu" else copied.cpu()
    if isinstance(value, np.ndarray):
        return value.copy()
    if value is None or type(value) in (bool, int, float, str, bytes, complex) or isinstance(value, np.generic):
        return value
    if isinstance(value, dict):
        pairs = {portable(key): portable(one) for key, one in value.items()}
        return type(value)(pairs) if type(value).__module__ == "collections" and type(value) is not dict else pairs
    if isinstance(value, (list, tuple)):
        items = [portable(one) for one in value]
        return items if isinstance(value, list) else tuple(items)
    return f"<{type(value).__name__}>"


def _of_objects(found: Found) -> list[Piece]:
    pieces = []
    for name, one in found.objects.items():
        if isinstance(one, torch.nn.Module):
            pieces += _of_module(name, one)
        elif isinstance(one, torch.optim.Optimizer):
            pieces += _of_optimizer(name, one)
        elif isinstance(one, torch.Generator):
            pieces.append(Piece(name, Kind.GENERATOR, one.get_state, cast(Write, one.set_state)))
        elif isinstance(one, np.random.Generator):
            pieces.append(_of_numpy(name, one))
        elif isinstance(one, np.random.RandomState):
            read = functools.partial(one.get_state, legacy=False)
            pieces.append(Piece(name, Kind.GENERATOR, read, one.set_state))
        else:
            kind = Kind.OBJECT
            if isinstance(one, torch.optim.lr_scheduler.LRScheduler):
                kind = Kind.SCHEDULER
            elif isinstance(one, torch.amp.GradScaler):
                kind = Kind.SCALER
            pieces.append(Piece(name, kind, one.state_dict, one.load_state_dict))
    return pieces


def _of_module(name: str, module: torch.nn.Module) -> list[Piece]:
    def tensors_of(values: Callable[[], Any]) -> tuple[Callable[[], Any], Callable[[Any], None]]:
        def write(state: Mapping[str, torch.Tensor]) -> None:
            ranks.reshard(module.modules())
            for key, tensor in values():
                tensors.fill(tensor, state[key])

        def read() -> dict[str, torch.Tensor]:
            ranks.reshard(module.modules())
            return dict(values())

        return read, write

    def gradients() -> dict[str, torch.Tensor]:
        return {key: one.grad for key, one in module.named_parameters() if one.grad is not None}

    def set_gradients(state: Mapping[str, torch.Tensor]) -> None:
        for key, one in module.named_parameters():
            one.grad = _to(state[key], one) if key in state else None

    def mode() -> dict[str, bool]:
        return {key: part.training for key, part in module.named_modules()}

    def set_mode(state: Mapping[str, bool]) -> None:
        for key, part in module.named_modules():
            part.training = state[key]

    pieces = [
        Piece(f"gradients of {name}", Kind.GRADIENTS, gradients, set_gradients),
        Piece(f"train()/eval() of {name}", Kind.MODE, mode, set_mode),
    ]
    if next(iter(module.parameters()), None) is not None:
        pieces.insert(0, Piece(name, Kind.PARAMETERS, *tensors_of(module.named_parameters), module))
    if next(iter(module.buffers()), None) is not None:
        pieces.append(Piece(f"buffers of {name}", Kind.BUFFERS, *tensors_of(module.named_buffers)))
    return pieces


def _of_optimizer(name: str, optimizer: torch.optim.Optimizer) -> list[Piece]:
    def read() -> list[dict[str, Any]]:
        # None: ZeroRedundancyOptimizer has no slots of other ranks' parameters.
        return [dict(optimizer.state.get(one) or {}) for one in parameters_of(optimizer)]

    def write(state: list[dict[str, Any]]) -> None:
        for one, slots in zip(parameters_of(optimizer), state, strict=True):
            optimizer.state.pop(one, None)
            if slots:
                optimizer.state[one] = {key: _to(value, one) for key, value in copy_of_state(slots).items()}

    def groups() -> list[dict[str, Any]]:
        return hyperparameters_of(optimizer)

    def set_groups(state: list[dict[str, Any]]) -> None:
        set_hyperparameters(optimizer, copy.deepcopy(state))

    return [
        Piece(f"state of {name}", Kind.OPTIMIZER_STATE, read, write),
        Piece(f"hyperparameters of {name}", Kind.HYPERPARAMETERS, groups, set_groups),
    ]


def _to(value: Any, parameter: torch.Tensor) -> Any:
    """A gradient or slot on the device of its parameter, and sharded like that."""
    # Step counters are numbers, which optimizers keep on the CPU.
    if not isinstance(value, torch.Tensor) or not value.dim():
        return value
    part = value.to(parameter.device)
    return ranks.sharded_like(part, parameter) if part.shape == ranks.local_shard(parameter).shape else part


def _of_numpy(name: str, generator: np.random.Generator) -> Piece:
    bits = generator.bit_generator
    return Piece(name, Kind.GENERATOR, lambda: bits.state, lambda state: setattr(bits, "state", state))


def _of_tensors(found: Found) -> list[Piece]:
    def write(several: dict[Any, torch.Tensor]) -> Callable[[dict[Any, torch.Tensor]], None]:
        def copy_from(state: dict[Any, torch.Tensor]) -> None:
            for key, tensor in several.items():
                tensors.fill(tensor, state[key])

        return copy_from

    return [
        Piece(name, Kind.TENSOR, functools.partial(_same, several), write(several))
        for name, several in found.tensors.items()
        if all(one.layout == torch.strided and not one.is_meta for one in several.values())
    ]


def _of_arrays(found: Found) -> list[Piece]:
    return [
        Piece(name, Kind.ARRAY, functools.partial(_same, array), functools.partial(np.copyto, array))
        for name, array in found.arrays.items()
    ]


def _of_numbers(found: Found) -> list[Piece]:
    return [
        Piece(name, Kind.NUMBER, functools.partial(_same, place.value), place.put)
        for name, place in found.numbers.items()
    ]


def _same(value: Any) -> Any:
    return value


def _default_generators() -> list[Piece]:
    pieces = [
        Piece("Python's random", Kind.DEFAULT_GENERATOR, random.getstate, random.setstate),
        Piece(
            "numpy.random",
            Kind.DEFAULT_GENERATOR,
            lambda: np.random.get_state(legacy=False),  # noqa: NPY002 (scripts draw from this generator)
            np.random.set_state,
        ),
        Piece("PyTorch's default generator", Kind.DEFAULT_GENERATOR, torch.get_rng_state, torch.set_rng_state),
    ]
    if torch.cuda.is_available():
        pieces.append(
            Piece(
                "PyTorch's default generators on CUDA",
                Kind.DEFAULT_GENERATOR,
                torch.cuda.get_rng_state_all,
                torch.cuda.set_rng_state_all,
            )
        )
    return pieces
