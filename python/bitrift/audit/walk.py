"""What the names of a script lead to: objects that hold the state of a training, each with the name that reaches it."""

from __future__ import annotations

import collections
import functools
import gc
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

# How far a walk goes: programs hold data sets and caches that have nothing to do with their training's state.
MOST_OBJECTS, MOST_ITEMS, MOST_DEPTH = 50_000, 256, 8
MOST_ARRAY_BYTES = 1 << 28

_STATEFUL = (
    torch.nn.Module,
    torch.optim.Optimizer,
    torch.optim.lr_scheduler.LRScheduler,
    torch.amp.GradScaler,
    torch.Generator,
    np.random.Generator,
    np.random.RandomState,
)
_ITERATORS: tuple[type, ...] = (types.GeneratorType, enumerate, zip, map, filter, type(iter([])), type(iter(())))
_NOT_WALKED = frozenset(sys.stdlib_module_names) | {"torch", "numpy", "bitrift", "h5py", "torchvision", "PIL"}


@dataclass
class Place:
    """Where a value is: an attribute of an object, an item of a container, or a variable."""

    name: str
    value: Any
    put: Callable[[Any], None] | None
    """Puts another value there; None where the container cannot be changed."""


@dataclass
class Found:
    """What a walk came across, each object once, under the first name that led to it."""

    objects: dict[str, Any] = field(default_factory=dict)
    """Modules outside of all others, optimizers, schedulers, scalers, generators, and others with a state_dict()."""
    tensors: dict[str, dict[Any, torch.Tensor]] = field(default_factory=dict)
    """Tensors by name in their dict; a tensor alone has the name ""."""
    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    """NumPy arrays of numbers that the script can write to, up to MOST_ARRAY_BYTES."""
    array_bytes: int = 0
    """The size of these arrays."""
    numbers: dict[str, Place] = field(default_factory=dict)
    iterators: list[str] = field(default_factory=list)


def walk(functions: Iterable[Callable[..., Any]], folder: Path, state: Any = None) -> Found:
    """Everything that these functions can reach, and the script's state by its own names.

    folder: of the script; modules from there are walked, too. state: what state() returns.
    """
    found = Found()
    seen: set[int] = set()
    modules: set[int] = set()
    queue: collections.deque[tuple[int, Place]] = collections.deque()
    for function in functions:
        queue.extend((0, place) for place in _of_function("", function, modules))
    names = state if isinstance(state, dict) else {"state": state}
    queue.extend((0, Place(str(name), one, None)) for name, one in names.items())
    while queue and len(seen) < MOST_OBJECTS:
        depth, place = queue.popleft()
        value = place.value
        if isinstance(value, (bool, int, float, np.number, np.bool_)):
            found.numbers.setdefault(place.name, place)
            continue
        if value is None or isinstance(value, (str, bytes, type)) or id(value) in seen:
            continue
        seen.add(id(value))
        if not _record(found, place) and depth < MOST_DEPTH:
            queue.extend((depth + 1, one) for one in _inside(place, folder, modules))
    _add_unnamed(found)
    _drop_parts(found)
    return found


def _record(found: Found, place: Place) -> bool:
    """Notes an object that holds state; whether the walk ends there."""
    value = place.value
    if isinstance(value, torch.Tensor):
        found.tensors[place.name] = {"": value}
        return True
    if isinstance(value, dict) and value and all(isinstance(one, torch.Tensor) for one in value.values()):
        found.tensors[place.name] = value
        return True
    if isinstance(value, np.ndarray):
        fits = found.array_bytes + value.nbytes <= MOST_ARRAY_BYTES
        if fits and value.dtype.kind in "biufc" and value.flags.writeable:
            found.arrays[place.name] = value
            found.array_bytes += value.nbytes
        return True
    if isinstance(value, _ITERATORS) or type(value).__name__.endswith("DataLoaderIter"):
        found.iterators.append(place.name)
        return True
    if isinstance(value, _STATEFUL):
        found.objects[place.name] = value
        return not isinstance(value, torch.nn.Module)
    if isinstance(value, types.ModuleType):  # torch.distributed.checkpoint has functions of these names
        return False
    if _has(value, "state_dict") and _has(value, "load_state_dict") and _package(value) in sys.modules:
        # The parts of an object of the script are named one by one; those of a library's object are its own affair.
        own = _is_walked(value)
        if not own:
            found.objects[place.name] = value
        return not own
    return False


def _inside(place: Place, folder: Path, modules: set[int]) -> Iterator[Place]:
    name, value = place.name, place.value
    if isinstance(value, types.ModuleType):
        if _is_of(value, folder):
            yield from _variables(name, vars(value))
    elif isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
        yield from _of_function(name, value, modules)
    elif isinstance(value, torch.nn.Module):
        for path, part in value.named_modules():
            prefix = f"{name}.{path}" if path else name
            inner = {key: one for key, one in vars(part).items() if not key.startswith("_") and key != "training"}
            yield from _attributes(prefix, part, inner)
    elif isinstance(value, torch.utils.data.DataLoader):
        for key in ("generator", "sampler", "batch_sampler", "dataset"):
            yield Place(f"{name}.{key}", getattr(value, key, None), None)
    elif isinstance(value, dict):
        for key, one in list(value.items())[:MOST_ITEMS]:
            yield Place(f"{name}[{key!r}]", one, functools.partial(value.__setitem__, key))
    elif isinstance(value, (list, collections.deque)):
        for index, one in enumerate(list(value)[:MOST_ITEMS]):
            yield Place(f"{name}[{index}]", one, functools.partial(value.__setitem__, index))
    elif isinstance(value, (tuple, set, frozenset)):
        for index, one in enumerate(list(value)[:MOST_ITEMS]):
            yield Place(f"{name}[{index}]", one, None)
    elif hasattr(value, "__dict__") and _is_walked(value):
        yield from _attributes(name, value, vars(value))


def _of_function(name: str, function: Any, modules: set[int]) -> Iterator[Place]:
    """The object of a method, the variables that a function closes over, and those of its module.

    modules: the ids of the variables of modules that were named before, since a library has thousands of functions.
    """
    while isinstance(function, functools.partial):
        for index, one in enumerate((*function.args, *function.keywords.values())):
            yield Place(f"{name or function.func.__name__}[{index}]", one, None)
        function = function.func
    if isinstance(function, types.MethodType):
        yield Place(type(function.__self__).__name__.lower(), function.__self__, None)
        function = function.__func__
    if not isinstance(function, types.FunctionType) or function.__module__.partition(".")[0] in _NOT_WALKED:
        return
    if id(function.__globals__) not in modules:
        modules.add(id(function.__globals__))
        yield from _variables("", function.__globals__)
    for key, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield Place(key, cell.cell_contents, functools.partial(setattr, cell, "cell_contents"))
        except ValueError:  # not assigned yet
            continue


def _variables(prefix: str, names: dict[str, Any]) -> Iterator[Place]:
    for key, one in list(names.items()):
        if not key.startswith("__"):
            yield Place(f"{prefix}.{key}" if prefix else key, one, functools.partial(names.__setitem__, key))


def _attributes(name: str, owner: Any, names: dict[str, Any]) -> Iterator[Place]:
    for key, one in list(names.items()):
        yield Place(f"{name}.{key}", one, functools.partial(setattr, owner, key))


def _has(value: Any, name: str) -> bool:
    """Like hasattr(), but False for a lazy module that cannot be imported."""
    try:
        return hasattr(value, name)
    except Exception:
        return False


def _package(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def _is_walked(value: Any) -> bool:
    return _package(value) not in _NOT_WALKED or isinstance(value, (torch.utils.data.Sampler, torch.utils.data.Dataset))


def _is_of(module: types.ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and folder in Path(file).resolve().parents and "site-packages" not in file


def _add_unnamed(found: Found) -> None:
    """The modules, optimizers and schedulers of this process that no name leads to."""
    kinds = (torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)
    named = {id(one) for one in found.objects.values()}
    named |= {id(part) for one in found.objects.values() if isinstance(one, torch.nn.Module) for part in one.modules()}
    # By type(), because some objects compute what isinstance() asks for.
    others = [one for one in gc.get_objects() if issubclass(type(one), kinds) and id(one) not in named]
    numbers: collections.Counter[str] = collections.Counter()
    for one in others:
        name = type(one).__name__
        found.objects[f"{name} #{numbers[name]}"] = one
        numbers[name] += 1
    _drop_wrappers(found)


def _drop_wrappers(found: Found) -> None:
    """Leaves out optimizers that have the parameter groups of an earlier one: they are that one, with more methods."""
    seen: set[int] = set()
    for name, one in list(found.objects.items()):
        if not isinstance(one, torch.optim.Optimizer):
            continue
        if id(one.param_groups) in seen:
            del found.objects[name]
        seen.add(id(one.param_groups))


def _drop_parts(found: Found) -> None:
    """Leaves out modules inside of others, and tensors of modules and optimizers."""
    modules = [one for one in found.objects.values() if isinstance(one, torch.nn.Module)]
    parts = {id(part) for module in modules for part in module.modules() if part is not module}
    found.objects = {name: one for name, one in found.objects.items() if id(one) not in parts}
    owned = {id(tensor) for module in modules for tensor in (*module.parameters(), *module.buffers())}
    found.tensors = {
        name: several
        for name, several in found.tensors.items()
        if not all(id(tensor) in owned for tensor in several.values())
    }
