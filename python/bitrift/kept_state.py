"""What a training keeps beside model and optimizer, as JSON and tensors: schedulers, scalers, samplers, random states.

A state is what state_dict() returns, or the like: dicts, lists, tuples, numbers, texts and tensors, as deep as they go.
JSON has fewer types, so the others are objects with one key: {"tuple": [...]}, {"dict": [[key, value], ...]}. The
caller decides where its tensors go: {"tensor": whatever put() returned}.
"""

from __future__ import annotations

import random
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from bitrift.errors import BadInput

Put = Callable[[str, torch.Tensor], Any]
Get = Callable[[Any], torch.Tensor]

_PLAIN = (bool, int, float, str, type(None))
_PAIRS: dict[str, type] = {"dict": dict, "Counter": Counter, "OrderedDict": OrderedDict}
_LISTS: dict[str, Callable[[list[Any]], Any]] = {"tuple": tuple, "set": set}


class ConversionError(BadInput):
    """A file or a state that has no place in a checkpoint, on one line."""


def to_json(value: Any, put: Put, name: str) -> Any:
    """A state as JSON. put(name, tensor) stores a tensor and returns JSON for it.

    Raises ConversionError for a value of another type; the message begins with the name.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, torch.Tensor):
        return {"tensor": put(name, value)}
    if isinstance(value, (np.generic, np.ndarray)):
        stored = put(name, torch.from_numpy(np.asarray(value).copy()))
        return {"scalar" if isinstance(value, np.generic) else "array": stored}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, Mapping):
        kind = next((key for key, one in _PAIRS.items() if type(value) is one), "dict")
        if kind == "dict" and all(isinstance(key, str) for key in value) and not _looks_tagged(value):
            return {key: to_json(one, put, f"{name}/{_part(key)}") for key, one in value.items()}
        pairs = [[to_json(key, put, name), to_json(one, put, f"{name}/{_part(key)}")] for key, one in value.items()]
        return {kind: pairs}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [to_json(one, put, f"{name}.{index}") for index, one in enumerate(value)]
        return items if isinstance(value, list) else {"tuple" if isinstance(value, tuple) else "set": items}
    raise ConversionError(f"{name}: is a {type(value).__name__}; only numbers, texts and tensors can be stored")


def from_json(value: Any, get: Get) -> Any:
    """The state that to_json() was given; get() returns the tensor of what put() returned."""
    if isinstance(value, list):
        return [from_json(one, get) for one in value]
    if not isinstance(value, dict):
        return value
    if not _looks_tagged(value):
        return {key: from_json(one, get) for key, one in value.items()}
    (kind, content), *_ = value.items()
    if kind == "tensor":
        return get(content)
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind in ("array", "scalar"):
        array = get(content).numpy()
        return array if kind == "array" else array[()]
    if kind in _PAIRS:
        # A Counter counts the items of anything but a dict.
        return _PAIRS[kind]({from_json(key, get): from_json(one, get) for key, one in content})
    return _LISTS[kind](from_json(content, get))


def put_inline(_: str, tensor: torch.Tensor) -> Any:
    """Stores a small tensor in the JSON itself."""
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": [*tensor.shape],
        "hex": flat.numpy().tobytes().hex(),
    }


def get_inline(stored: Any) -> torch.Tensor:
    """The tensor that put_inline() stored."""
    content = torch.frombuffer(bytearray.fromhex(stored["hex"]), dtype=torch.uint8) if stored["hex"] else torch.empty(0)
    return content.view(getattr(torch, stored["dtype"])).reshape(stored["shape"])


def _looks_tagged(value: Mapping[Any, Any]) -> bool:
    tags = {*_PAIRS, *_LISTS, "tensor", "bytes", "array", "scalar"}
    return len(value) == 1 and next(iter(value)) in tags


def _part(key: object) -> str:
    """A key as a part of a name; "/" would begin another one."""
    return str(key).replace("/", "|")


def several(value: Any) -> dict[str, Any]:
    """One object, a sequence or a mapping of them, by name: that of a single one is ""."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return {str(key): one for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, torch.nn.Module)):
        return {str(index): one for index, one in enumerate(value)}
    return {"": value}


def state_of(value: Any) -> Any:
    """The state of a scheduler, scaler, sampler, loader or generator. Raises ConversionError where it has none."""
    if isinstance(value, torch.Generator):
        return {"generator": value.get_state()}
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return value.state_dict()
    parts = {key: state_of(part) for key, part in _parts_of(value).items()}
    if isinstance(getattr(value, "epoch", None), int):
        parts["epoch"] = value.epoch  # as DistributedSampler keeps it
    if not parts:
        raise ConversionError(
            f"a {type(value).__name__} has no state to store: give it a generator of its own, or store the default "
            "generators with random=True"
        )
    return parts


def restore(value: Any, state: Any) -> None:
    """Gives an object the state that state_of() returned."""
    if isinstance(value, torch.Generator):
        value.set_state(state["generator"])
    elif hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        value.load_state_dict(state)
    else:
        for key, part in _parts_of(value).items():
            if key in state:
                restore(part, state[key])
        if "epoch" in state:
            value.epoch = state["epoch"]


def _parts_of(value: Any) -> dict[str, Any]:
    """What orders the batches in a DataLoader or a sampler and has a state."""
    parts = {}
    for key in ("generator", "sampler", "batch_sampler"):
        part = getattr(value, key, None)
        ordinary = isinstance(part, torch.utils.data.Sampler) and not _parts_of(part) and not hasattr(part, "epoch")
        if part is not None and not ordinary:
            parts[key] = part
    return parts


def random_states() -> dict[str, Any]:
    """The states of the default generators of Python, NumPy and PyTorch, on all devices."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 (scripts draw from this generator)
        "torch": torch.get_rng_state(),
        "cuda": cuda,
    }


def set_random_states(states: Mapping[str, Any]) -> None:
    """Sets what random_states() returned."""
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])  # noqa: NPY002
    torch.set_rng_state(states["torch"])
    if states["cuda"]:
        torch.cuda.set_rng_state_all(states["cuda"])
