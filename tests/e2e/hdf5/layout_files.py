"""Files as other programs write them: the layouts of docs/roles.md, made with h5py to the letter of their sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import h5py
import numpy as np

Shapes = Mapping[str, Sequence[int]]


def values(shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Finite float32 numbers."""
    return np.random.default_rng(seed).standard_normal(tuple(shape)).astype("<f4")


def _put(group: h5py.Group, shapes: Shapes) -> None:
    for seed, (name, shape) in enumerate(shapes.items()):
        group.create_dataset(name, data=values(shape, seed))


KERAS_LAYERS = {
    "zeta_conv": {"kernel": (3, 3, 1, 4), "bias": (4,)},
    "batch_normalization": {"gamma": (4,), "beta": (4,), "moving_mean": (4,), "moving_variance": (4,)},
    "conv2d_10": {"kernel": (3, 3, 4, 4), "bias": (4,)},
    "alpha_dense": {"kernel": (64, 2), "bias": (2,)},
}


def keras(path: Path, *, weights_only: bool = False) -> Path:
    """A model as save_model_to_hdf5 (tf.keras 2) writes it, or as save_weights does."""
    with h5py.File(path, "w") as file:
        weights = file if weights_only else file.create_group("model_weights")
        if not weights_only:
            file.attrs["keras_version"] = "2.9.0"
            file.attrs["backend"] = "tensorflow"
            file.attrs["model_config"] = "{}"
        names = ["input_1", *KERAS_LAYERS, "activation"]
        weights.attrs["layer_names"] = [name.encode() for name in names]
        weights.attrs["backend"] = b"tensorflow"
        weights.attrs["keras_version"] = b"2.9.0"
        for layer in sorted(names):
            group = weights.create_group(layer)
            shapes = {f"{layer}/{name}:0": shape for name, shape in KERAS_LAYERS.get(layer, {}).items()}
            group.attrs["weight_names"] = [name.encode() for name in shapes]
            _put(group, shapes)
        if not weights_only:
            state = file.create_group("optimizer_weights")
            state.create_dataset("Adam/iter:0", data=np.int64(7))
            _put(state, {f"Adam/{layer}/kernel/{slot}:0": (3, 3) for layer in ("zeta_conv",) for slot in "mv"})
    return path


def keras_v3(path: Path) -> Path:
    """A .weights.h5 as saving_lib's H5IOStore (Keras 3) writes it."""
    shapes = {
        "conv2d": [(3, 3, 1, 4), (4,)],
        "batch_normalization": [(4,)] * 4,
        "conv2d_1": [(3, 3, 4, 4), (4,)],
        "dense": [(64, 2), (2,)],
    }
    with h5py.File(path, "w") as file:
        trained = []
        for layer, variables in shapes.items():
            group = file.create_group(f"layers/{layer}").create_group("vars")
            group.attrs["name"] = f"my_{layer}"
            for number, shape in enumerate(variables):
                group[str(number)] = values(shape, number)
            trained += variables[:2]
        state = file.create_group("optimizer").create_group("vars")
        state.attrs["name"] = "adam"
        state["0"] = np.int64(3)
        state["1"] = np.float32(0.001)
        for number, shape in enumerate(shape for shape in trained for _ in range(2)):
            state[str(number + 2)] = values(shape, number)
    return path


def chainer(path: Path) -> Path:
    """A snapshot of a trainer, as HDF5Serializer writes it (without its compression)."""
    model = {
        "conv1/W": (4, 1, 3, 3),
        "conv1/b": (4,),
        "bn1/gamma": (4,),
        "bn1/beta": (4,),
        "bn1/avg_mean": (4,),
        "bn1/avg_var": (4,),
        "conv10/W": (4, 4, 3, 3),
        "conv2/W": (4, 4, 3, 3),
        "fc/W": (2, 64),
    }
    with h5py.File(path, "w") as file:
        _put(file.create_group("updater/model:main/predictor"), model)
        file["updater/model:main/predictor/bn1/N"] = np.int64(5)
        state = file.create_group("updater/optimizer:main")
        state["t"], state["epoch"] = np.int64(40), np.int64(2)
        for name in ("conv1/W", "fc/W"):
            state[f"predictor/{name}/t"] = np.int64(40)
            state[f"predictor/{name}/v"] = values(model[name])
        file["updater/iteration"] = np.int64(40)
        file["_snapshot_elapsed_time"] = 1.5
    return path


def caffe(path: Path) -> Path:
    """A .caffemodel.h5 as Net::ToHDF5 writes it."""
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        _put(data.create_group("conv1"), {"0": (4, 1, 3, 3), "1": (4,)})
        _put(data.create_group("bn1"), {"0": (4,), "1": (4,), "2": (1,)})
        _put(data.create_group("scale1"), {"0": (4,), "1": (4,)})
        _put(data.create_group("relu1"), {})
        _put(data.create_group("ip1"), {"0": (2, 64), "1": (2,)})
    return path


def pytorch(path: Path, prefix: str = "module.") -> Path:
    """A state_dict of DistributedDataParallel and its optimizer's, key by key."""
    model = {
        "conv1.weight": (4, 1, 3, 3),
        "bn1.weight": (4,),
        "bn1.bias": (4,),
        "bn1.running_mean": (4,),
        "layer10.conv1.weight": (4, 4, 3, 3),
        "layer2.conv1.weight": (4, 4, 3, 3),
        "fc.weight": (2, 64),
        "fc.bias": (2,),
    }
    with h5py.File(path, "w") as file:
        _put(file.create_group("model"), {prefix + name: shape for name, shape in model.items()})
        file[f"model/{prefix}bn1.num_batches_tracked"] = np.int64(9)
        _put(file.create_group("optimizer"), {"state/0/momentum_buffer": (4, 1, 3, 3)})
        file["epoch"] = np.int64(20)
    return path
