"""Hooks on the models and optimizers of a script, for one run."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from bitrift.errors import BadInput
from bitrift.runner import ranks


class NotComputed(BadInput):
    """What a fault names is not what this rank computes; other ranks do not know of it."""


class Watch:
    """The layers and parameters of a script's models by name, and its steps. Its hooks stay until it is left.

    state: where the models and optimizers are, as Script.state() returns it. All optimizers that step without a forward
    pass between them take one step together. Optimizers of different models may take turns, as those of a GAN do: then
    a step ends when the models of all of them have been updated.
    """

    def __init__(self, state: Any) -> None:
        models = _models_of(state)
        self.layers = {name: module for model in models for name, module in _named(model, "named_modules")}
        self.parameters = {name: value for model in models for name, value in _named(model, "named_parameters")}
        self.step = 1
        """The number of the step that is being taken."""
        self._handles: list[Any] = []
        self._in_epoch = False
        optimizers = {id(one): one for one in _optimizers(state)}.values()
        self._several = len(optimizers) > 1
        self._model_of = _updated_together(optimizers, [model for _, model in models])
        self._models = {self._model_updated_by(one) for one in optimizers}
        self._waiting = set(self._models)  # models that are not updated yet in this step
        self.never_updated = set(self._models)
        """The models with an optimizer that took no step so far."""
        self._stepped: set[int] = set()  # the optimizers that took their part of the step
        self._within = 0  # step() calls in progress: an optimizer that wraps another calls that one's

    def __enter__(self) -> Watch:
        self.keep(register_optimizer_step_pre_hook(self._optimizer_begins))
        self.keep(register_optimizer_step_post_hook(self._optimizer_ends))
        if self._several:
            self.keep(register_module_forward_pre_hook(self._forward_begins))
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
        self._in_epoch, self._within = True, 0
        try:
            yield
        finally:
            if self._stepped:
                self._end_step()
            self._in_epoch = False

    def begin_epoch(self) -> None:
        """Called before each epoch."""

    @property
    def taken(self) -> int:
        """How many steps optimizers took, with the one that not all of them may have taken."""
        return self.step - 1 + bool(self._stepped)

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Called before an optimizer takes its part of a step; once in a step."""

    def after_update(self) -> None:
        """Called when it has."""

    def end_step(self) -> None:
        """Called when all have, before `step` counts on."""

    def _forward_begins(self, *_: Any) -> None:
        if self._stepped and not self._waiting and self.trains():
            self._end_step()

    def _optimizer_begins(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._within += 1
        if self._within > 1:
            return
        if id(optimizer) in self._stepped and not self._waiting:
            self._end_step()
        if id(optimizer) not in self._stepped:
            self.before_update(optimizer)

    def _optimizer_ends(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._within -= 1
        if self._within > 0:
            return
        self.after_update()
        self._stepped.add(id(optimizer))
        for missing in (self._waiting, self.never_updated):
            missing.discard(self._model_updated_by(optimizer))
        if not self._several:
            self._end_step()

    def _end_step(self) -> None:
        self.end_step()
        self._stepped.clear()
        self._waiting = set(self._models)
        self.step += 1

    def _model_updated_by(self, optimizer: torch.optim.Optimizer) -> int:
        """The number of the model that an optimizer updates. One that wraps another has the same parameters."""
        values = (value for group in optimizer.param_groups for value in group["params"])
        return self._model_of.get(id(next(values, None)), -1)

    def trains(self) -> bool:
        """Whether a forward pass that happens now belongs to a step, and not to an evaluation. One that happens in a
        backward pass only computes again what gradient checkpointing did not keep.
        """
        in_backward = torch._C._current_graph_task_id() >= 0
        return self._in_epoch and torch.is_grad_enabled() and not in_backward


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


def _updated_together(optimizers: Iterable[torch.optim.Optimizer], models: Sequence[torch.nn.Module]) -> dict[int, int]:
    """The number of the model that each parameter belongs to, by id. Models that one optimizer updates are one."""
    owner = {id(value): number for number, model in enumerate(models) for value in model.parameters()}
    for optimizer in optimizers:
        own = {owner.get(id(value), -1) for group in optimizer.param_groups for value in group["params"]}
        owner = {value: min(own) if number in own else number for value, number in owner.items()}
    return owner


def _optimizers(value: Any) -> Iterator[torch.optim.Optimizer]:
    if isinstance(value, torch.optim.Optimizer):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _optimizers(one)


def _named(model: tuple[str, torch.nn.Module], what: str) -> Iterator[tuple[str, Any]]:
    prefix, module = model
    for name, one in getattr(module, what)():
        if name:
            yield prefix + name, one
        elif prefix and not list(module.children()):
            yield prefix.removesuffix("."), one  # a model that is a single layer


def first_tensor(name: str, output: Any) -> tuple[torch.Tensor, Callable[[torch.Tensor], Any]]:
    """The first floating tensor of a module's output, and how to put another one in its place. One without dimensions
    is a loss that the model computes: its value reaches no step.
    """
    if _has_numbers(output):
        return output, lambda y: y
    entries: list[tuple[Any, Any]] = []
    if isinstance(output, Mapping):
        entries = list(output.items())
    elif isinstance(output, (list, tuple)):
        entries = list(enumerate(output))
    for key, value in entries:
        if _has_numbers(value):
            return value, functools.partial(_with, output, key)
    raise NotComputed(f"{name} returns no tensor of floating-point numbers; name another module")


def _has_numbers(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() > 0


def _with(output: Any, key: Any, y: torch.Tensor) -> Any:
    if isinstance(output, tuple):
        values = [y if number == key else value for number, value in enumerate(output)]
        return type(output)(*values) if hasattr(output, "_fields") else tuple(values)
    output[key] = y
    return output
