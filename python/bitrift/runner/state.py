"""What a training run changes: its digest, and how to bring it back to what it was when the script called serve()."""

from __future__ import annotations

import copy
import gc
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from bitrift.runner import ranks, tensors

Restore = Callable[[], None]

_KINDS = (torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)


class Snapshot:
    """The state of models, optimizers, schedulers, tensors and arrays, in dicts and lists as deep as you like.

    All other modules, optimizers and schedulers of the process are part of it, and what the communication hooks of
    DistributedDataParallel keep: what a script forgets to name, and to load, must not come from the run before.
    """

    def __init__(self, value: Any) -> None:
        named = list(_objects(value))
        every = [*named, *_others(named)]
        self._restores = [_restore_of(one) for one in every]
        for one in every:
            if isinstance(one, torch.nn.parallel.DistributedDataParallel):
                self._restores += [_restore_attributes(state) for _, state in one._comm_hooks]

    def restore(self) -> None:
        """Brings everything back in place: parameters stay the tensors that the optimizer knows."""
        for restore in self._restores:
            restore()


def digest(value: Any) -> tuple[str, bool]:
    """128 bits over names, types, shapes and bytes of a state, and whether its tensors and arrays are finite. A sharded
    tensor counts with the bytes of this rank's shard.
    """
    total, finite = hashlib.blake2b(digest_size=16), True
    for name, leaf in _leaves("", value):
        total.update(name.encode() + b"\0")
        finite = _add(total, leaf) and finite
    return total.hexdigest(), finite


def digest_each(value: Any) -> dict[str, bytes]:
    """The same of every tensor, array and number of a state alone, by its name: "model/0.weight"."""
    digests = {}
    for name, leaf in _leaves("", value):
        own = hashlib.blake2b(digest_size=16)
        _add(own, leaf)
        digests[name.removeprefix("/")] = own.digest()
    return digests


def _add(total: hashlib.blake2b, leaf: Any) -> bool:
    """Adds type, shape and bytes of a value to a digest; whether all numbers of a tensor or an array are finite."""
    if isinstance(leaf, torch.Tensor):
        total.update(f"{leaf.dtype}{tuple(leaf.shape)}".encode())
        finite = True
        for values in tensors.flat(leaf):
            total.update(values.view(torch.uint8).numpy().data)
            finite = _is_finite(values) and finite
        return finite
    if isinstance(leaf, np.ndarray):
        total.update(f"{leaf.dtype}{leaf.shape}".encode() + np.ascontiguousarray(leaf).tobytes())
        return leaf.dtype.kind not in "fc" or bool(np.isfinite(leaf).all())
    total.update(repr(leaf).encode())
    return True  # the best loss that ReduceLROnPlateau has seen so far is infinite at first


def _is_finite(values: torch.Tensor) -> bool:
    if not values.is_floating_point():
        return True
    # PyTorch has no such test for numbers of 8 bits.
    return bool(torch.isfinite(values.float() if values.element_size() == 1 else values).all())


def _models_in(state: Any) -> list[torch.nn.Module]:
    """The modules in a state. If it has none, those of this process with parameters that are among its tensors, as
    state_dict() returns them; if it holds copies, all modules of this process.
    """
    named = list(_objects(state))
    if models := [one for one in named if isinstance(one, torch.nn.Module)]:
        return models
    memory = {part.data_ptr() for one in named if isinstance(one, torch.Tensor) for part in tensors.plain(one)}
    models = [one for one in _others(named) if isinstance(one, torch.nn.Module)]
    return [model for model in models if any(one.data_ptr() in memory for one in _parts_of(model))] or models


def weights_in(state: Any) -> Iterator[torch.Tensor]:
    """The numbers that an evaluation of this state can depend on: the parameters of _models_in(), and what it holds
    beside modules and optimizers, such as an average of the weights, alone or in an object with a state_dict().
    """
    for module in _models_in(state):
        yield from module.parameters()
    for one in _objects(state):
        if isinstance(one, _KINDS):
            continue
        held = one.state_dict() if callable(getattr(one, "state_dict", None)) else one
        yield from (part for part in _objects(held) if isinstance(part, torch.Tensor) and part.is_floating_point())


def _parts_of(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    for parameter in model.parameters():
        yield from (part for part in tensors.plain(parameter) if part.numel())


def _objects(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for one in value.values():
            yield from _objects(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _objects(one)
    else:
        yield value


def _others(named: list[Any]) -> Iterator[Any]:
    """The modules outside of all others, the optimizers and the schedulers of this process that are not named."""
    # By type(), because some objects compute what isinstance() asks for.
    found = [one for one in gc.get_objects() if issubclass(type(one), _KINDS)]
    modules = [one for one in (*found, *named) if isinstance(one, torch.nn.Module)]
    parts = {id(part) for module in modules for part in module.modules() if part is not module}
    known = parts | {id(one) for one in named}
    yield from (one for one in found if id(one) not in known)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _leaves(f"{name}/{key}", one)
    elif isinstance(value, (list, tuple)):
        for index, one in enumerate(value):
            yield from _leaves(f"{name}/{index}", one)
    elif isinstance(value, torch.optim.Optimizer):
        yield from _leaves(name, _state_of(value))
    elif _keeps_state(value):
        yield from _leaves(name, value.state_dict())
    else:
        yield name, value


def _state_of(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Its state_dict(); if it has none on this rank, its slots and hyperparameters, and those of the optimizers that it
    wraps: PyTorch's ZeroRedundancyOptimizer gathers its state on one rank, and only when it is asked to.
    """
    try:
        return optimizer.state_dict()
    except Exception:
        inner = [one for one in vars(optimizer).values() if isinstance(one, torch.optim.Optimizer)]
        return {**_own_state(optimizer), "inner": [_own_state(one) for one in inner]}


def _own_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    slots = [optimizer.state.get(one) for one in parameters_of(optimizer)]
    return {"state": slots, "param_groups": hyperparameters_of(optimizer)}


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Those that it updates, group after group."""
    return [one for group in optimizer.param_groups for one in group["params"]]


def hyperparameters_of(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Those of each group."""
    return [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]


def set_hyperparameters(optimizer: torch.optim.Optimizer, groups: list[dict[str, Any]]) -> None:
    """Writes what hyperparameters_of() returned, and removes all others."""
    for group, saved in zip(optimizer.param_groups, groups, strict=True):
        for key in [key for key in group if key != "params" and key not in saved]:
            del group[key]
        group.update(saved)


def _keeps_state(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _restore_of(value: Any) -> Restore:
    if isinstance(value, torch.nn.Module):
        return _restore_module(value)
    if isinstance(value, torch.Tensor):
        return _restore_tensor(value)
    if isinstance(value, np.ndarray):
        content = value.copy()
        return lambda: np.copyto(value, content)
    if isinstance(value, torch.optim.Optimizer):
        return _restore_optimizer(value)
    if _keeps_state(value):
        return _restore_object(value)
    return lambda: None


def copy_of_state(state: Any) -> Any:
    """A deep copy, also of tensors that are results of computations or composed, which copy.deepcopy() refuses."""
    found = [one for one in _objects(state) if isinstance(one, torch.Tensor)]
    special = [one for one in found if not one.is_leaf or tensors.is_composed(one)]
    return copy.deepcopy(state, {id(one): tensors.copy_of(one) for one in special})


def _restore_object(value: Any) -> Restore:
    state = copy_of_state(value.state_dict())

    def restore() -> None:
        try:
            value.load_state_dict(copy_of_state(state))
        except Exception as error:
            raise TypeError(
                f"state: load_state_dict() of {type(value).__name__} does not take what its state_dict() returns "
                f"({type(error).__name__}: {error}); let state return its parts instead: tensors, and optimizers of "
                "PyTorch"
            ) from error

    return restore


def _restore_attributes(value: Any) -> Restore:
    """For an object without a state_dict: its numbers, tensors and collections of them."""
    plain = (bool, int, float, str, dict, list, tuple, torch.Tensor, np.random.RandomState, type(None))
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    names = [name for name in (*slots, *getattr(value, "__dict__", ())) if hasattr(value, name)]
    kept = {name: copy_of_state(one) for name in names if isinstance(one := getattr(value, name), plain)}

    def restore() -> None:
        for name, one in copy_of_state(kept).items():
            setattr(value, name, one)

    return restore


def _restore_tensor(tensor: torch.Tensor) -> Restore:
    content = tensors.copy_of(tensor)

    def restore() -> None:
        tensors.fill(tensor, content)
        tensor.grad = None

    return restore


def _restore_module(module: torch.nn.Module) -> Restore:
    ranks.reshard(module.modules())
    named = dict(module.named_parameters()) | dict(module.named_buffers())
    contents = {name: tensors.copy_of(value) for name, value in named.items()}
    trained = {name: value.requires_grad for name, value in module.named_parameters()}
    modes = {name: part.training for name, part in module.named_modules()}

    def restore() -> None:
        ranks.reshard(module.modules())
        for name, value in (*module.named_parameters(), *module.named_buffers()):
            tensors.fill(value, contents[name])
        for name, value in module.named_parameters():
            value.grad = None
            value.requires_grad_(trained[name])
        for name, part in module.named_modules():
            part.training = modes[name]

    return restore


def _restore_optimizer(optimizer: torch.optim.Optimizer) -> Restore:
    state = copy_of_state(_state_of(optimizer))

    def restore() -> None:
        if "inner" in state:  # these are optimizers of the process, too, and restored as such
            _write_state(optimizer, copy_of_state(state))
        else:
            optimizer.load_state_dict(copy_of_state(state))
        optimizer.zero_grad(set_to_none=True)

    return restore


def _write_state(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Writes what _own_state() returned."""
    for one, slots in zip(parameters_of(optimizer), state["state"], strict=True):
        if slots is None:
            optimizer.state.pop(one, None)
        else:
            optimizer.state[one] = slots
    set_hyperparameters(optimizer, state["param_groups"])
