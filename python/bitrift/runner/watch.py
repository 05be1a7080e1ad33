"""Hooks on the models and optimizers of a script, for one run."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any

import torch

from bitrift.errors import BadInput
from bitrift.runner import ranks


class NotComputed(BadInput):
    """What a fault names is not what this rank computes; other ranks do not know of it."""


class Watch:
    """The layers and parameters of a script's models by name. Its hooks stay until it is left.

    state: where the models are, as Script.state() returns it.
    """

    def __init__(self, state: Any) -> None:
        models = _models_of(state)
        self.layers = {name: module for model in models for name, module in _named(model, "named_modules")}
        self.parameters = {name: value for model in models for name, value in _named(model, "named_parameters")}
        self._handles: list[Any] = []
        self._in_epoch = False

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()

    def keep(self, handle: Any) -> None:
        """Takes a hook, which ends with this."""
        self._handles.append(handle)

    @contextlib.contextmanager
    def epoch(self) -> Iterator[None]:
        """While an epoch is trained."""
        self.begin_epoch()
        self._in_epoch = True
        try:
            yield
        finally:
            self._in_epoch = False

    def begin_epoch(self) -> None:
        """Called before each epoch."""

    def trains(self) -> bool:
        """Whether a forward pass that happens now belongs to a step, and not to an evaluation."""
        return self._in_epoch and torch.is_grad_enabled()


def _models_of(state: Any) -> list[tuple[str, torch.nn.Module]]:
    """The models of a state, each with what its names begin with: nothing for the only one, and for `model`."""
    found = [(name + "." if name else "", model) for name, model in _modules("", state)]
    return [("", found[0][1])] if len(found) == 1 else found


def _modules(name: str, value: Any) -> Iterator[tuple[str, torch.nn.Module]]:
    if isinstance(value, torch.nn.Module):
        yield name, ranks.unwrapped(value)
    elif isinstance(value, Mapping):
        for key, one in value.items():
            inner = f"{name}.{key}" if name else "" if key == "model" else str(key)
            yield from _modules(inner, one)
    elif isinstance(value, (list, tuple)):
        for number, one in enumerate(value):
            yield from _modules(f"{name}.{number}" if name else str(number), one)


def _named(model: tuple[str, torch.nn.Module], what: str) -> Iterator[tuple[str, Any]]:
    prefix, module = model
    for name, one in getattr(module, what)():
        if name:
            yield prefix + name, one


def first_tensor(name: str, output: Any) -> tuple[torch.Tensor, Callable[[torch.Tensor], Any]]:
    """The first floating tensor of a module's output, and how to put another one in its place."""
    if isinstance(output, torch.Tensor) and output.is_floating_point():
        return output, lambda y: y
    entries: list[tuple[Any, Any]] = []
    if isinstance(output, Mapping):
        entries = list(output.items())
    elif isinstance(output, (list, tuple)):
        entries = list(enumerate(output))
    for key, value in entries:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value, functools.partial(_with, output, key)
    raise NotComputed(f"{name} returns no tensor of floating-point numbers; name another module")


def _with(output: Any, key: Any, y: torch.Tensor) -> Any:
    if isinstance(output, tuple):
        values = [y if number == key else value for number, value in enumerate(output)]
        return type(output)(*values) if hasattr(output, "_fields") else tuple(values)
    output[key] = y
    return output
