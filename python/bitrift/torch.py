"""Checkpoints of your own PyTorch programs as HDF5 files that bitrift can alter.

Tensors are named as docs/checkpoint-format.md names them, so that bitrift knows their roles: model/KEY for each entry
of the model's state_dict, optimizer/SLOT/KEY for the optimizer's state of each parameter, progress/NAME for numbers of
your own. Needs PyTorch, NumPy and h5py.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from bitrift.errors import BadInput

SCHEMA = "bitrift/torch/1"
_BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
_MODELS = ("model", "state_dict", "model_state_dict", "net", "network", "module")
_OPTIMIZERS = ("optimizer", "optimizer_state_dict", "optimizer_state", "optim")


class ConversionError(BadInput):
    """A file or a state that has no place in a checkpoint, on one line."""


def save(
    path: str | PathLike[str],
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    **progress: float,
) -> None:
    """Writes a checkpoint, over an existing file only when it is complete.

    progress: numbers that load_into() gives back, such as epoch=3. If tensors are one in the program, such as tied
    weights, the first in the order of the state_dict is written; the others become hard links to it. Raises
    ConversionError for what HDF5 cannot hold.
    """
    content = model.state_dict()
    states = {f"model/{key}": value for key, value in _tensors_of(content)}
    groups: list[dict[str, Any]] = []
    if optimizer is not None:
        names = {id(parameter): key for key, parameter in model.named_parameters()}
        for parameter, state in optimizer.state.items():
            for slot, value in state.items():
                if value is not None:  # SGD without momentum has an empty slot
                    states[f"optimizer/{slot}/{_name_of(names, parameter)}"] = torch.as_tensor(value)
        for group in optimizer.param_groups:
            _numbers_only(group)
            members = [_name_of(names, parameter) for parameter in group["params"]]
            groups.append({key: value for key, value in group.items() if key != "params"} | {"params": members})
    _write(Path(path), states, _aliases_of(content), progress, groups)


def load_into(
    path: str | PathLike[str], model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None
) -> dict[str, float]:
    """Loads a checkpoint of save() or from_pt() into a model and its optimizer; returns the progress.

    Hyperparameters of the optimizer's groups, such as the learning rate, become those of the file. Tensors that are one
    in the program, such as tied weights, may be one or several in the file, or have one of the names only; if several
    differ, the last in the order of the state_dict counts, as in load_state_dict. Raises RuntimeError
    where the names or shapes of the model's tensors differ, as load_state_dict does, and ConversionError where the
    optimizer's parameters do, or where the file has no optimizer.
    """
    with h5py.File(path, "r") as file:
        tensors = {key: _read(value) for key, value in file["model"].items()}
        aliases = _aliases_of(model.state_dict())
        present = {aliases.get(key, key): value for key, value in tensors.items()}
        for key in (*aliases, *aliases.values()):
            if aliases.get(key, key) in present:
                tensors.setdefault(key, present[aliases.get(key, key)])
        model.load_state_dict(tensors)
        if optimizer is not None:
            _load_optimizer(file, model, optimizer)
        return {key: value[()].item() for key, value in file.get("progress", {}).items()}


def from_pt(source: str | PathLike[str], output: str | PathLike[str]) -> list[str]:
    """Converts a file of torch.save() without executing code of it; returns what was left out, one line each.

    Takes a state_dict, or a dict that holds one as model, state_dict, model_state_dict, net, network or module, beside
    it the optimizer's as optimizer, optimizer_state_dict, optimizer_state or optim, and numbers. Raises ConversionError
    where the file is none of these, or the optimizer's parameters cannot be told.
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
    if optimizer is not None:
        groups = _named_groups(optimizer, model, str(source))
        names = [key for group in groups for key in group["params"]]
        for index, state in optimizer["state"].items():
            for slot, value in state.items():
                if value is not None:
                    states[f"optimizer/{slot}/{names[index]}"] = torch.as_tensor(value)
    _write(Path(output), states, _aliases_of(model), progress, groups)
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
        yield key, value


def _name_of(names: Mapping[int, str], parameter: torch.Tensor) -> str:
    name = names.get(id(parameter))
    if name is None:
        raise ConversionError("the optimizer holds a parameter that the model does not have")
    return name


def _numbers_only(group: Mapping[str, Any]) -> None:
    for key, value in group.items():
        plain = isinstance(value, (bool, int, float, str, type(None)))
        pair = isinstance(value, (tuple, list)) and all(isinstance(one, (int, float)) for one in value)
        if key != "params" and not plain and not pair:
            raise ConversionError(f"the optimizer's {key} is a {type(value).__name__}; only numbers can be stored")


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
        if key in _OPTIMIZERS and isinstance(value, Mapping) and "state" in value and "param_groups" in value:
            optimizer = value
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
        _numbers_only(group)
        groups.append({**group, "params": [names[number] for number in group["params"]]})
    return groups


def _load_optimizer(file: h5py.File, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    stored = json.loads(file.attrs.get("param_groups", "[]"))
    names = dict(model.named_parameters())
    here = [len(group["params"]) for group in optimizer.param_groups]
    if [len(group["params"]) for group in stored] != here:
        raise ConversionError(
            f"{file.filename}: holds an optimizer with {[len(one['params']) for one in stored]} parameters in its "
            f"groups, but the program's has {here}"
        )
    optimizer.state.clear()
    for slot, tensors in file.get("optimizer", {}).items():
        for key, value in tensors.items():
            if key not in names:
                raise ConversionError(f"{file.filename}: optimizer/{slot}/{key}: the model has no parameter {key}")
            tensor = _read(value)
            # Step counters are numbers, which optimizers keep on the CPU.
            optimizer.state[names[key]][slot] = tensor.to(names[key].device) if tensor.dim() else tensor
    for group, saved in zip(optimizer.param_groups, stored, strict=True):
        group["params"] = [names[key] for key in saved.pop("params")]
        group.update({key: tuple(value) if isinstance(value, list) else value for key, value in saved.items()})


def _bfloat16() -> Any:
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_ebias(127)
    return kind


def _write(
    path: Path,
    states: Mapping[str, torch.Tensor],
    aliases: Mapping[str, str],
    progress: Mapping[str, float],
    groups: Sequence[Mapping[str, Any]],
) -> None:
    name = path.with_name(f".{path.name}.tmp-{secrets.token_hex(3)}")
    name.open("xb").close()  # mkstemp would hide the file from everybody else
    try:
        with h5py.File(name, "w") as file:
            file.attrs["schema"] = SCHEMA
            if groups:
                file.attrs["param_groups"] = json.dumps(groups)
            file.create_group("model", track_order=True)  # the first name of a tensor is the one made first
            for key, value in states.items():
                primary = aliases.get(key.removeprefix("model/"))
                if primary is not None and key.startswith("model/"):
                    file[key] = file[f"model/{primary}"]
                else:
                    _put(file, key, value.detach().cpu())
            for key, number in progress.items():
                file[f"progress/{key}"] = np.float64(number) if isinstance(number, float) else np.int64(number)
        os.replace(name, path)
    except BaseException:
        name.unlink()
        raise


def _put(file: h5py.File, name: str, value: torch.Tensor) -> None:
    if value.dtype == torch.bfloat16:
        kind = _bfloat16()
        space = h5py.h5s.create_simple(tuple(value.shape)) if value.dim() else h5py.h5s.create(h5py.h5s.SCALAR)
        links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
        links.set_create_intermediate_group(True)
        dataset = h5py.h5d.create(file.id, name.encode(), kind, space, lcpl=links)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, value.contiguous().view(torch.int16).numpy(), kind)
        return
    try:
        file[name] = value.numpy()
    except TypeError:
        raise ConversionError(f"{name}: {value.dtype} has no HDF5 type; convert it first") from None


def _read(dataset: h5py.Dataset) -> torch.Tensor:
    kind = dataset.id.get_type()
    if isinstance(kind, h5py.h5t.TypeFloatID) and kind.get_size() == 2 and kind.get_ebias() == 127:
        raw = np.empty(dataset.shape, np.int16)
        dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, raw, kind)
        return torch.from_numpy(raw).view(torch.bfloat16)
    return torch.from_numpy(np.asarray(dataset[()]))
