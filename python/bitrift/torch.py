"""Checkpoints of your own PyTorch programs as HDF5 files that bitrift can alter.

Tensors are named as docs/checkpoint-format.md names them, so that bitrift knows their roles: model/KEY for each entry
of the model's state_dict, optimizer/SLOT/KEY for the optimizer's state of each parameter, progress/NAME for numbers of
your own. Averages of the weights are ema/KEY. Schedulers, scalers, samplers and random states are an attribute of the
file. Needs PyTorch, NumPy and h5py.
"""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import h5py
import torch

from bitrift import integrity
from bitrift.hdf5_tensors import read_tensor, write_file
from bitrift.kept_state import (
    ConversionError,
    from_json,
    get_inline,
    put_inline,
    random_states,
    restore,
    set_random_states,
    several,
    state_of,
    to_json,
)
from bitrift.sealed_saves import remove_seal, seal_saves

__all__ = ["ConversionError", "from_pt", "load_into", "save", "seal_saves"]

_BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
_MODELS = ("model", "state_dict", "model_state_dict", "net", "network", "module")
_OPTIMIZERS = ("optimizer", "optimizer_state_dict", "optimizer_state", "optim")
_NUMBER = "number"  # in place of a state that is one number: its dataset holds it


def save(
    path: str | PathLike[str],
    model: torch.nn.Module | Mapping[str, torch.nn.Module],
    optimizer: Any = None,
    *,
    scheduler: Any = None,
    ema: Any = None,
    scaler: Any = None,
    sampler: Any = None,
    random: bool = False,
    seal: bool | float = False,
    **progress: float,
) -> None:
    """Writes a checkpoint, over an existing file only when it is complete.

    model: a module, or several by name. DistributedDataParallel and torch.compile change no name: tensors are stored as
        those of the module inside.
    optimizer, scheduler, ema, scaler, sampler: one of each kind, or several as a list or a dict. ema is a module such
        as AveragedModel, an object with state_dict(), or a dict of tensors; sampler is a sampler, a DataLoader or a
        torch.Generator.
    random: whether to store the states of the default generators of Python, NumPy and PyTorch, too.
    seal: whether to write PATH.seal too, see bitrift.seal(); a number is the parity in percent, True one percent.
    progress: numbers that load_into() gives back, such as epoch=3.

    If tensors are one in the program, such as tied weights, the first in the order of the state_dict is written, and
    the others become hard links to it. Raises ConversionError for what HDF5 cannot hold.
    """
    inner = _inner(model)
    content = {_clean(key): value for key, value in inner.state_dict().items()}
    states = {f"model/{key}": value for key, value in _tensors_of(content)}
    optimizers = _optimizers_json(several(optimizer), inner, states)
    kept: dict[str, Any] = {
        kind: {name: to_json(state_of(one), put_inline, kind) for name, one in several(value).items()}
        for kind, value in (("scheduler", scheduler), ("scaler", scaler), ("sampler", sampler))
    }
    kept["ema"] = {name: _ema_json(name, one, states) for name, one in several_averages(ema).items()}
    if random:
        kept["random"] = {"": to_json(random_states(), put_inline, "random")}
    kept = {kind: value for kind, value in kept.items() if value}
    if seal:
        remove_seal(path)
    write_file(Path(path), states, _aliases_of(content), progress, optimizers | {"kept": kept})
    if seal:
        integrity.seal(path, percent=float(seal), replace=True, check=False)


def load_into(
    path: str | PathLike[str],
    model: torch.nn.Module | Mapping[str, torch.nn.Module],
    optimizer: Any = None,
    *,
    scheduler: Any = None,
    ema: Any = None,
    scaler: Any = None,
    sampler: Any = None,
    random: bool = False,
) -> dict[str, float]:
    """Loads a checkpoint of save() or from_pt() into what a program has; returns the progress.

    Takes what save() took, and loads it in the right order: no scheduler has to be stepped. Warns where the file holds
    a part that is not asked for. Hyperparameters of the optimizer's groups, such as the learning rate, become those of
    the file. Tensors that are one in the program, such as tied weights, may be one or several in the file, or have one
    of the names only; if several differ, the last in the order of the state_dict counts, as in load_state_dict. Raises
    RuntimeError where the names or shapes of the model's tensors differ, as load_state_dict does, and ConversionError
    where the optimizer's parameters do, or where the file lacks a part that is asked for.
    """
    inner = _inner(model)
    wanted = {"scheduler": scheduler, "ema": ema, "scaler": scaler, "sampler": sampler, "random": random or None}
    with h5py.File(path, "r") as file:
        _load_model(file, inner)
        optimizers = several(optimizer)
        if optimizers:
            _load_optimizers(file, inner, optimizers)
        stored = json.loads(file.attrs.get("kept", "{}"))
        for kind, value in wanted.items():
            _load_kept(file, kind, several_averages(value) if kind == "ema" else several(value), stored.get(kind, {}))
        return {key: value[()].item() for key, value in file.get("progress", {}).items()}


def from_pt(source: str | PathLike[str], output: str | PathLike[str]) -> list[str]:
    """Converts a file of torch.save() without executing code of it; returns what was left out, one line each.

    Takes a state_dict, or a dict that holds one as model, state_dict, model_state_dict, net, network or module, beside
    it the optimizer's as optimizer, optimizer_state_dict, optimizer_state, optim or the only one of Lightning's
    optimizer_states, and numbers. Raises ConversionError where the file is none of these, or the optimizer's
    parameters cannot be told.
    """
    try:
        content = torch.load(source, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except Exception as error:  # of whatever the file makes the unpickler raise
        raise ConversionError(
            f"{source}: torch.load(weights_only=True) refuses it: {str(error).splitlines()[0]}"
        ) from None
    if not isinstance(content, Mapping):
        raise ConversionError(f"{source}: holds a {type(content).__name__}, not a state_dict or a dict with one")
    model, optimizer, progress, left_out = _parts_of(content, str(source))
    states = {f"model/{key}": value for key, value in _tensors_of(model)}
    groups: list[dict[str, Any]] = []
    other: dict[str, dict[str, Any]] = {}
    if optimizer is not None:
        groups = _named_groups(optimizer, model, str(source))
        names = [key for group in groups for key in group["params"]]
        for index, state in optimizer["state"].items():
            _put_slots(names[index], state, states, other)
    documents = {"param_groups": groups, "optimizer_state": other}
    write_file(Path(output), states, _aliases_of(model), progress, documents)
    return left_out


def _aliases_of(state: Mapping[str, Any]) -> dict[str, str]:
    """The tensors whose elements are those of an earlier one, each with the name of the first of them."""
    first: dict[tuple[object, ...], str] = {}
    aliases = {}
    for key, value in state.items():
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.numel() == 0:
            continue
        where = (value.device, value.untyped_storage().data_ptr(), value.storage_offset())
        primary = first.setdefault((*where, value.dtype, value.shape, value.stride()), key)
        if primary != key:
            aliases[key] = primary
    return aliases


def _tensors_of(state: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    for key, value in state.items():
        if not isinstance(value, torch.Tensor):
            raise ConversionError(f"{key}: is a {type(value).__name__}; only tensors can be stored")
        if hasattr(value, "to_local"):  # a DTensor
            raise ConversionError(
                f"{key}: each rank holds a part of it, as with FSDP; save it by torch.distributed.checkpoint, whose "
                "folder can be the base of a campaign"
            )
        yield key, value


def _inner(model: torch.nn.Module | Mapping[str, torch.nn.Module]) -> torch.nn.Module:
    """The module inside wrappers that change names; of several, one that holds them all."""
    if isinstance(model, Mapping):
        return torch.nn.ModuleDict({name: _inner(one) for name, one in model.items()})
    wrappers = (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)
    inside = model.module if isinstance(model, wrappers) else getattr(model, "_orig_mod", None)
    return _inner(inside) if isinstance(inside, torch.nn.Module) else model


def _clean(key: str) -> str:
    """The name that a tensor has where torch.compile did not wrap a part of the model."""
    return key.replace("_orig_mod.", "")


def several_averages(ema: Any) -> dict[str, Any]:
    """Averages of weights by name; a dict of tensors is one of them."""
    if isinstance(ema, Mapping) and all(isinstance(value, torch.Tensor) for value in ema.values()):
        return {"": ema} if ema else {}
    return several(ema)


def _ema_json(name: str, ema: Any, states: dict[str, torch.Tensor]) -> Any:
    def put(where: str, tensor: torch.Tensor) -> str:
        path = f"ema/{name}{where}" if name else f"ema{where}"
        states[path] = tensor
        return path

    state = ema if isinstance(ema, Mapping) else _inner(ema).state_dict() if _is_module(ema) else ema.state_dict()
    return to_json(dict(state), put, "")


def _is_module(value: Any) -> bool:
    return isinstance(value, torch.nn.Module)


def _name_of(names: Mapping[int, str], parameter: torch.Tensor) -> str:
    name = names.get(id(parameter))
    if name is None:
        raise ConversionError("the optimizer holds a parameter that the model does not have")
    return name


def _optimizers_json(
    optimizers: Mapping[str, torch.optim.Optimizer], model: torch.nn.Module, states: dict[str, torch.Tensor]
) -> dict[str, Any]:
    """The groups, and the state that is not one tensor a slot; puts the tensors into `states`."""
    names = {id(parameter): _clean(key) for key, parameter in model.named_parameters()}
    groups: list[dict[str, Any]] = []
    other: dict[str, dict[str, Any]] = {}
    owner: dict[str, str] = {}
    for which, optimizer in optimizers.items():
        for group in optimizer.param_groups:
            members = [_name_of(names, parameter) for parameter in group["params"]]
            twice = next((one for one in members if owner.setdefault(one, which) != which), None)
            if twice is not None:
                raise ConversionError(f"{twice}: is a parameter of the optimizers {owner[twice]} and {which}")
            belongs = {"optimizer": which} if which else {}
            groups.append(_group_json(group) | belongs | {"params": members})
        for parameter, state in optimizer.state.items():
            _put_slots(_name_of(names, parameter), state, states, other)
    return {"param_groups": groups, "optimizer_state": other}


def _put_slots(
    key: str, state: Mapping[str, Any], states: dict[str, torch.Tensor], other: dict[str, dict[str, Any]]
) -> None:
    """Stores the optimizer's state of one parameter."""

    def put(where: str, tensor: torch.Tensor) -> str:
        states[f"optimizer/{where}/{key}"] = tensor
        return where

    for slot, value in state.items():
        if isinstance(value, torch.Tensor):
            states[f"optimizer/{slot}/{key}"] = value
        elif isinstance(value, (bool, int, float)):
            # A float of Python has 64 bits.
            dtype = torch.float64 if isinstance(value, float) else None
            states[f"optimizer/{slot}/{key}"] = torch.as_tensor(value, dtype=dtype)
            other.setdefault(key, {})[slot] = _NUMBER
        elif value is not None:  # SGD without momentum has an empty slot
            other.setdefault(key, {})[slot] = to_json(value, put, slot)


def _group_json(group: Mapping[str, Any]) -> dict[str, Any]:
    """The hyperparameters of a group; a pair, such as betas, is a list."""
    plain = {}
    for key, value in group.items():
        if key == "params":
            continue
        pair = isinstance(value, (tuple, list)) and all(isinstance(one, (int, float, type(None))) for one in value)
        plain[key] = list(value) if pair else to_json(value, put_inline, f"the optimizer's {key}")
    return plain


def _is_optimizer(value: Any) -> bool:
    return isinstance(value, Mapping) and "state" in value and "param_groups" in value


def _parts_of(
    content: Mapping[str, Any], source: str
) -> tuple[Mapping[str, Any], Mapping[str, Any] | None, dict[str, float], list[str]]:
    if content and all(isinstance(value, torch.Tensor) for value in content.values()):
        return content, None, {}, []
    model = next((content[key] for key in _MODELS if isinstance(content.get(key), Mapping)), None)
    if model is None:
        raise ConversionError(
            f"{source}: no state_dict under {', '.join(_MODELS)}; there are {', '.join(map(str, content))}"
        )
    optimizer, progress, left_out = None, {}, []
    for key, value in content.items():
        if value is model:
            continue
        if key in _OPTIMIZERS and _is_optimizer(value):
            optimizer = value
        elif key == "optimizer_states" and isinstance(value, list) and len(value) == 1 and _is_optimizer(value[0]):
            optimizer = value[0]  # of Lightning, with one optimizer
        elif isinstance(value, (bool, int, float)):
            progress[key] = value
        else:
            left_out.append(f"{key}: a {type(value).__name__}")
    return model, optimizer, progress, left_out


def _named_groups(optimizer: Mapping[str, Any], model: Mapping[str, Any], source: str) -> list[dict[str, Any]]:
    """The optimizer's groups with names instead of numbers: parameters in the order of the state_dict."""
    aliases = _aliases_of(model)  # an optimizer has each parameter once
    names = [key for key in model if key.rpartition(".")[2] not in _BUFFERS and key not in aliases]
    numbers = [number for group in optimizer["param_groups"] for number in group["params"]]
    fits = numbers == list(range(len(names))) and all(
        value.dim() == 0 or value.shape == model[names[number]].shape
        for number, state in optimizer["state"].items()
        for value in state.values()
        if isinstance(value, torch.Tensor) and number < len(names)
    )
    if not fits:
        raise ConversionError(
            f"{source}: the optimizer numbers {len(numbers)} parameters, and the model has {len(names)}, or others: "
            "save with bitrift.torch.save in your program, which knows their names"
        )
    groups = []
    for group in optimizer["param_groups"]:
        groups.append(_group_json(group) | {"params": [names[number] for number in group["params"]]})
    return groups


def _load_model(file: h5py.File, model: torch.nn.Module) -> None:
    tensors = {key: read_tensor(value) for key, value in file["model"].items()}
    state = {_clean(key): value for key, value in model.state_dict().items()}
    aliases = _aliases_of(state)
    present = {aliases.get(key, key): value for key, value in tensors.items()}
    for key in (*aliases, *aliases.values()):
        if aliases.get(key, key) in present:
            tensors.setdefault(key, present[aliases.get(key, key)])
    own = {_clean(key): key for key in model.state_dict()}
    model.load_state_dict({own.get(key, key): value for key, value in tensors.items()})


def _load_optimizers(file: h5py.File, model: torch.nn.Module, optimizers: Mapping[str, torch.optim.Optimizer]) -> None:
    stored = json.loads(file.attrs.get("param_groups", "[]"))
    names = {_clean(key): parameter for key, parameter in model.named_parameters()}
    for which, optimizer in optimizers.items():
        here = [len(group["params"]) for group in optimizer.param_groups]
        there = [group for group in stored if group.get("optimizer", "") == which]
        if [len(group["params"]) for group in there] != here:
            title = f"an optimizer '{which}'" if which else "an optimizer"
            raise ConversionError(
                f"{file.filename}: holds {title} with {[len(one['params']) for one in there]} parameters in its "
                f"groups, but the program's has {here}"
            )
    owner = {
        id(parameter): optimizer
        for optimizer in optimizers.values()
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    for optimizer in optimizers.values():
        optimizer.state.clear()
    _load_slots(file, names, owner)
    for which, optimizer in optimizers.items():
        mine = [group for group in stored if group.get("optimizer", "") == which]
        for group, saved in zip(optimizer.param_groups, mine, strict=True):
            saved.pop("optimizer", None)
            group["params"] = [names[key] for key in saved.pop("params")]
            group.update(
                {
                    key: tuple(value) if isinstance(value, list) else from_json(value, get_inline)
                    for key, value in saved.items()
                }
            )


def _load_slots(
    file: h5py.File, names: Mapping[str, torch.nn.Parameter], owner: Mapping[int, torch.optim.Optimizer]
) -> None:
    other = json.loads(file.attrs.get("optimizer_state", "{}"))

    def read(key: str, slot: str) -> torch.Tensor:
        tensor = read_tensor(file[f"optimizer/{slot}/{key}"])
        # Step counters are numbers, which optimizers keep on the CPU.
        return tensor.to(names[key].device) if tensor.dim() else tensor

    parts = {
        key: {slot: from_json(value, functools.partial(read, key)) for slot, value in slots.items() if value != _NUMBER}
        for key, slots in other.items()
        if key in names
    }
    for slot, tensors in file.get("optimizer", {}).items():
        for key in tensors:
            if key not in names:
                raise ConversionError(f"{file.filename}: optimizer/{slot}/{key}: the model has no parameter {key}")
            optimizer = owner.get(id(names[key]))
            if optimizer is None:
                continue
            as_stored = other.get(key, {})
            if slot in as_stored and as_stored[slot] == _NUMBER:
                optimizer.state[names[key]][slot] = read(key, slot).item()
            elif slot.partition(".")[0].partition("/")[0] not in as_stored:
                optimizer.state[names[key]][slot] = read(key, slot)
    for key, slots in parts.items():
        optimizer = owner.get(id(names[key]))
        if optimizer is not None:
            optimizer.state[names[key]].update(slots)


def _load_kept(file: h5py.File, kind: str, wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    if set(wanted) != set(stored):
        if not wanted:
            warnings.warn(f"{file.filename}: holds the state of {kind}, which load_into() was not given", stacklevel=4)
            return
        found = f"holds that of {', '.join(map(repr, sorted(stored)))}" if stored else "holds none"
        raise ConversionError(f"{file.filename}: {kind}: {found}; give save() the same {kind}")
    for name, one in wanted.items():
        if kind == "ema":
            _load_ema(one, from_json(stored[name], lambda path: read_tensor(file[path])))
        elif kind == "random":
            set_random_states(from_json(stored[name], get_inline))
        else:
            restore(one, from_json(stored[name], get_inline))


def _load_ema(ema: Any, state: dict[str, Any]) -> None:
    if isinstance(ema, Mapping):
        if set(ema) != set(state):
            raise ConversionError("ema: the file holds averages of other tensors")
        with torch.no_grad():
            for key, tensor in ema.items():
                tensor.copy_(state[key])
    elif _is_module(ema):
        _inner(ema).load_state_dict(state)
    else:
        ema.load_state_dict(state)
