"""Models of Keras 3: one .keras file, an archive with the model's weights in an HDF5 file."""

from __future__ import annotations

import functools
import importlib.util
import io
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bitrift.study import contents
from bitrift.study.contents import Contents, Extent, State

_WEIGHTS = "model.weights.h5"  # the member of the archive


def _configured() -> str:
    """The backend in the user's settings. Keras makes this file, and writes TensorFlow into it."""
    path = Path(os.environ.get("KERAS_HOME", Path.home() / ".keras")) / "keras.json"
    try:
        return str(json.loads(path.read_text())["backend"])
    except (OSError, ValueError, LookupError):
        return "tensorflow"


@functools.cache
def keras() -> Any:
    """The module, with the backend that its user chose. Where that is TensorFlow and it is missing, PyTorch."""
    if _configured() == "tensorflow" and importlib.util.find_spec("tensorflow") is None:
        os.environ.setdefault("KERAS_BACKEND", "torch")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import keras as module

    if int(module.__version__.split(".")[0]) < 3:
        raise RuntimeError(f"Keras 3 or newer is needed; this is {module.__version__}")
    return module


@functools.cache
def _holder() -> Any:
    """A class of models that hold arrays: not every backend of Keras has variables of type uint64."""

    @keras().saving.register_keras_serializable("bitrift")
    class Holder(keras().Model):  # type: ignore[misc]
        def __init__(self, layout: list[tuple[str, str, list[int]]], **options: Any) -> None:
            super().__init__(**options)
            self.layout = layout
            self.held: State = {}
            self.built = True

        def get_config(self) -> dict[str, Any]:
            return {"layout": self.layout, "name": self.name}

        def save_own_variables(self, store: Any) -> None:
            for number, value in enumerate(self.held.values()):
                store[str(number)] = value

        def load_own_variables(self, store: Any) -> None:
            if len(store.keys()) != len(self.layout):
                raise ValueError(f"{len(self.layout)} variables, and the file has {len(store.keys())}")
            for number, (name, dtype, shape) in enumerate(self.layout):
                value = np.asarray(store[str(number)])
                if value.shape != tuple(shape):  # as a variable of Keras refuses it
                    raise ValueError(f"the shape of {name} is {shape}, and the file has {value.shape}")
                self.held[name] = value.astype(dtype, copy=False)

    return Holder


def model_of(state: State) -> Any:
    """A model that holds a state, and saves and loads as layers with variables of their own do."""
    layout = [(name, value.dtype.name, list(value.shape)) for name, value in state.items()]
    model = _holder()(layout, name="checkpoint")
    model.held = state
    return model


def write_keras(state: State, path: Path) -> list[Extent]:
    """Returns where the values are in the file."""
    model_of(state).save(path)
    return list(_extents(state, path))


def read_keras(path: Path, _: State) -> Contents:
    """Loads the model with Keras' safe mode."""
    _holder()  # known to Keras from now on
    model = keras().saving.load_model(path, compile=False)
    return {name: contents.of_anything(value) for name, value in model.held.items()}


def _extents(state: State, path: Path) -> Iterator[Extent]:
    """Where the values are in a sound file. Keras does not compress the archive."""
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(_WEIGHTS)
        weights = archive.read(_WEIGHTS)
    start = contents.start_of_member(content, member)
    if content[start : start + len(weights)] != weights:
        raise ValueError(f"{_WEIGHTS} is compressed")
    with h5py.File(io.BytesIO(weights), "r") as file:
        for number, (name, value) in enumerate(state.items()):
            if value.size:
                first = start + file[f"vars/{number}"].id.get_offset()
                yield Extent("", first, first + value.nbytes, name)
