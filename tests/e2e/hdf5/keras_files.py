"""Files of Keras 3, and what each of their variables is by the name that Keras itself gives it (variable.path)."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ["KERAS_BACKEND"] = "torch"

import h5py
import keras
import numpy as np
from keras import layers, optimizers

ROLES = {
    "kernel": "weight",
    "depthwise_kernel": "weight",
    "pointwise_kernel": "weight",
    "recurrent_kernel": "weight",
    "embeddings": "weight",
    "alpha": "weight",
    "bias": "bias",
    "gamma": "norm",
    "beta": "norm",
    "moving_mean": "running_stat",
    "moving_variance": "running_stat",
    "moving_stddev": "running_stat",
    "renorm_mean": "running_stat",
    "renorm_stddev": "running_stat",
    "seed_generator_state": "rng",
}
ADAMS = ("adam", "adam_w", "adamax", "nadam", "lamb")
SLOTS = (
    {(name, "momentum"): "exp_avg" for name in ADAMS}
    | {(name, "velocity"): "exp_avg_sq" for name in ADAMS}
    | {("rm_sprop", "velocity"): "exp_avg_sq", ("rm_sprop", "momentum"): "momentum", ("sgd", "momentum"): "momentum"}
)


def role_of_variable(path: str) -> str:
    """A variable of a layer: "sequential/dense_1/kernel"."""
    parts = path.split("/")
    if parts[-1] == "scale" and "rms_normalization" in parts[-2]:
        return "norm"
    return ROLES.get(parts[-1], "unknown")


def role_of_slot(path: str) -> str:
    """A variable of an optimizer: "adam_1/sequential_dense_kernel_velocity"."""
    owner, _, name = path.rpartition("/")
    if owner and name in ("iteration", "learning_rate"):
        return {"iteration": "step", "learning_rate": "progress"}[name]
    # "adam_w_1" is the second AdamW of a process.
    stem = owner.rstrip("0123456789").rstrip("_") if owner[-1:].isdigit() else owner
    return SLOTS.get((stem, name.rpartition("_")[2]), "unknown")


def save_marked(model: keras.Model, path: Path, save: Callable[[Path], None] | None = None) -> dict[str, str]:
    """
    Gives each variable a number of its own, saves the weights, and says which variable each dataset holds: dataset to
    role, by the names of Keras.
    """
    optimizer = getattr(model, "optimizer", None)
    roles: dict[float, str] = {}
    held = [(variable, role_of_variable) for variable in model.variables]
    held += [(variable, role_of_slot) for variable in (optimizer.variables if optimizer else [])]
    held.sort(key=lambda one: np.dtype(one[0].dtype).itemsize)  # int8 has the fewest numbers
    for number, (variable, role_of) in enumerate(held, start=2):
        variable.assign(np.full(variable.shape, number, variable.dtype))
        roles[number] = role_of(variable.path)
    (save or model.save_weights)(path)
    found: dict[str, str] = {}

    def note(name: str, item: h5py.Group | h5py.Dataset) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = roles[float(np.asarray(item).ravel()[0])]

    with h5py.File(path) as file:
        file.visititems(note)
    return found


def mlp() -> keras.Model:
    """Layers of one shape follow each other; a norm has statistics."""
    wide = [layers.Dense(6, activation="relu") for _ in range(3)]
    return keras.Sequential(
        [keras.Input((6,)), *wide, layers.BatchNormalization(), layers.Dropout(0.1), layers.Dense(2)]
    )


def convnet() -> keras.Model:
    """A model in a model, a layer that is called twice, a frozen one."""
    inner = keras.Sequential([keras.Input((8, 8, 4)), layers.Conv2D(4, 3, padding="same"), layers.BatchNormalization()])
    shared = layers.Conv2D(4, 3, padding="same", use_bias=False)
    start = keras.Input((8, 8, 1))
    x = layers.Conv2D(4, 3, padding="same")(start)
    x = inner(shared(shared(x)))
    frozen = layers.DepthwiseConv2D(3)
    x = layers.SeparableConv2D(4, 3)(frozen(x))
    frozen.trainable = False
    return keras.Model(start, layers.Dense(2)(layers.GlobalAveragePooling2D()(x)))


def sequence() -> keras.Model:
    """Layers with many weights, and one whose only weight is a scalar."""
    start = keras.Input((5,))
    x = layers.Embedding(9, 4)(start)
    x = layers.Bidirectional(layers.LSTM(2, return_sequences=True))(x)
    x = layers.GRU(4, return_sequences=True, dropout=0.1)(x)
    x = layers.MultiHeadAttention(2, 3)(x, x)
    x = layers.Attention(use_scale=True)([layers.RMSNormalization()(x), layers.LayerNormalization()(x)])
    return keras.Model(start, layers.Dense(2)(layers.Flatten()(layers.PReLU()(x))))


def square() -> keras.Model:
    """All variables have one shape, so that shapes tell nothing."""
    return keras.Sequential([keras.Input((4,)), *[layers.Dense(4, use_bias=False) for _ in range(6)]])


MODELS: dict[str, Callable[[], keras.Model]] = {"mlp": mlp, "convnet": convnet, "sequence": sequence, "square": square}


def _sgd_and_adam(**options: object) -> optimizers.Optimizer:
    chosen = optimizers.OptimizerMap(optimizers.SGD(momentum=0.9), {".*kernel": optimizers.Adam(amsgrad=True)})
    return optimizers.MultiOptimizer(chosen, **options)


def _scaled(**options: object) -> optimizers.Optimizer:
    return optimizers.LossScaleOptimizer(optimizers.Adam(**options))


# Every optimizer that Keras exports (OptimizerMap is an argument of MultiOptimizer), by its own options.
OPTIMIZERS: dict[str, list[Callable[..., optimizers.Optimizer]]] = {
    "Adadelta": [optimizers.Adadelta],
    "Adafactor": [optimizers.Adafactor],
    "Adagrad": [optimizers.Adagrad],
    "Adam": [optimizers.Adam, lambda **options: optimizers.Adam(amsgrad=True, **options)],
    "AdamW": [optimizers.AdamW, lambda **options: optimizers.AdamW(amsgrad=True, **options)],
    "Adamax": [optimizers.Adamax],
    "Ftrl": [optimizers.Ftrl],
    "Lamb": [optimizers.Lamb],
    "Lion": [optimizers.Lion],
    "LossScaleOptimizer": [_scaled],
    "MultiOptimizer": [_sgd_and_adam],
    "Muon": [optimizers.Muon],
    "Nadam": [optimizers.Nadam],
    "RMSprop": [
        optimizers.RMSprop,
        lambda **options: optimizers.RMSprop(momentum=0.9, **options),
        lambda **options: optimizers.RMSprop(momentum=0.9, centered=True, **options),
        lambda **options: optimizers.RMSprop(centered=True, **options),
    ],
    "SGD": [optimizers.SGD, lambda **options: optimizers.SGD(momentum=0.9, nesterov=True, **options)],
    "ScheduleFreeAdamW": [optimizers.ScheduleFreeAdamW],
}


def options_of_any_optimizer() -> Iterator[dict[str, object]]:
    """What changes the variables of every optimizer: averages, sums of gradients, a schedule in place of a rate."""
    for average, sums, schedule in itertools.product([False, True], repeat=3):
        options: dict[str, object] = {}
        if average:
            options["use_ema"] = True
        if sums:
            options["gradient_accumulation_steps"] = 2
        if schedule:
            options["learning_rate"] = optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
        yield options
