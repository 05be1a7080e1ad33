"""Roles in files of Keras against the names of its variables: what a file cannot tell is unknown, never wrong."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path

import h5py
import keras_files
import numpy as np
import pytest
from inject_support import run_json
from keras_files import keras, layers, optimizers

# How Keras makes arrays of PyTorch's tensors.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

model_of = functools.cache(lambda name: keras_files.MODELS[name]())


def listed(path: Path) -> dict[str, str]:
    return {tensor["path"]: tensor["role"] for tensor in run_json("ls", path)["tensors"]}


def compare(path: Path, expected: dict[str, str]) -> Counter[str]:
    """No role may be a wrong one. Counts those that bitrift tells, and those that it could."""
    roles = listed(path)
    assert roles.keys() == expected.keys()
    wrong = {name: (roles[name], role) for name, role in expected.items() if roles[name] not in (role, "unknown")}
    assert not wrong
    return Counter(role for role in roles.values() if role != "unknown")


# Every optimizer with the model whose shapes tell least; with the other models they take turns.
PAIRS = [
    pytest.param(model, optimizer, marks=[pytest.mark.thorough] * (model != "square" and i % 4 != j))
    for i, optimizer in enumerate(keras_files.OPTIMIZERS)
    for j, model in enumerate(keras_files.MODELS)
]


@pytest.mark.parametrize(("model", "optimizer"), PAIRS)
def test_no_variable_of_an_optimizer_has_a_wrong_role(model: str, optimizer: str, tmp_path: Path) -> None:
    for make in keras_files.OPTIMIZERS[optimizer]:
        for options in keras_files.options_of_any_optimizer():
            if optimizer == "MultiOptimizer" and options:
                continue  # its optimizers have their own
            of = model_of(model)
            of.compile(make(**options), "mse")
            of.optimizer.build(of.trainable_variables)
            compare(tmp_path / "m.weights.h5", keras_files.save_marked(of, tmp_path / "m.weights.h5"))


def test_roles_that_the_file_can_tell_are_told(tmp_path: Path) -> None:
    of, path = model_of("mlp"), tmp_path / "m.weights.h5"
    trained = len(of.trainable_variables)

    def slots(optimizer: optimizers.Optimizer) -> Counter[str]:
        of.compile(optimizer, "mse")
        of.optimizer.build(of.trainable_variables)
        expected = keras_files.save_marked(of, path)
        found = compare(path, expected)
        return Counter({role: found[role] for role in ("momentum", "exp_avg", "exp_avg_sq") if found[role]})

    moments = {"exp_avg": trained, "exp_avg_sq": trained}
    both = {"use_ema": True, "gradient_accumulation_steps": 2}
    for make in (optimizers.Adam, optimizers.AdamW, optimizers.Nadam, optimizers.Lamb):
        assert slots(make()) == slots(make(use_ema=True)) == slots(make(**both)) == moments
    assert slots(optimizers.Adam(amsgrad=True)) == moments
    assert slots(optimizers.Adamax()) == {"exp_avg": trained}
    assert slots(optimizers.RMSprop()) == {"exp_avg_sq": trained}
    # A momentum looks like an average or a sum of gradients, unless there are all three.
    assert slots(optimizers.SGD(momentum=0.9)) == {}
    assert slots(optimizers.SGD(momentum=0.9, use_ema=True)) == {}
    assert slots(optimizers.SGD(momentum=0.9, **both)) == {"momentum": trained}


def subclassed() -> keras.Model:
    """Attributes that are called like other layers."""

    class Odd(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.normalization = layers.LayerNormalization()
            self.embedding = layers.Dense(4)
            self.dense = layers.BatchNormalization()
            self.conv2d = layers.GroupNormalization(2)
            self.blocks = [layers.Dense(3, name="embedding"), layers.LayerNormalization(name="dense")]

        def call(self, x: object) -> object:
            x = self.conv2d(self.dense(self.embedding(self.normalization(x))))
            for block in self.blocks:
                x = block(x)
            return x

    model = Odd()
    model(np.zeros((1, 8), "f4"))
    return model


def unusual() -> keras.Model:
    """Layers with variables of their own kinds."""
    start = keras.Input((6, 8))
    x = layers.BatchNormalization(renorm=True)(layers.Conv1D(4, 2)(start))
    x = layers.BatchNormalization(center=False, scale=False)(layers.SeparableConv1D(4, 2, use_bias=False)(x))
    x = layers.BatchNormalization(renorm=True, center=False)(layers.DepthwiseConv1D(2)(x))
    x = layers.TimeDistributed(layers.Dense(4))(layers.SpectralNormalization(layers.Dense(3))(x))
    x = layers.GroupQueryAttention(2, 4, 2)(x, x)
    x = layers.AdditiveAttention()([x, x])
    x = layers.EinsumDense("abc,cd->abd", (x.shape[1], 6), bias_axes="bd")(x)
    return keras.Model(start, layers.GaussianDropout(0.1)(layers.SimpleRNN(2, use_bias=False)(x)))


def test_no_variable_of_a_layer_has_a_wrong_role(tmp_path: Path) -> None:
    path = tmp_path / "m.weights.h5"
    found = compare(path, keras_files.save_marked(subclassed(), path))
    assert found == {"weight": 2, "bias": 2, "norm": 2}
    found = compare(path, keras_files.save_marked(unusual(), path))
    assert found["running_stat"] == 5 + 2 + 5 and found["norm"] == 2 + 1


def quantized(mode: str) -> keras.Model:
    first = layers.Dense(8, name="first") if mode == "float8" else layers.Embedding(9, 8)
    dense = [layers.Dense(4), layers.Dense(2, use_bias=False)]
    einsum = layers.EinsumDense("abc,cde->abde", (5, 2, 4), bias_axes="de")
    shape = (5, 3) if mode == "float8" else (5,)
    model = keras.Sequential([keras.Input(shape), first, einsum, layers.Flatten(), *dense])
    model.quantize(mode)
    return model


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`:UserWarning")
@pytest.mark.parametrize("mode", ["int8", "int4", "float8"])
def test_scales_of_quantized_layers_are_no_bias(mode: str, tmp_path: Path) -> None:
    path = tmp_path / "q.weights.h5"
    found = compare(path, keras_files.save_marked(quantized(mode), path))
    assert found == {"weight": 4, "bias": 3 if mode == "float8" else 2}


@pytest.mark.parametrize("name", keras_files.MODELS)
def test_a_whole_model_in_one_hdf5_file_has_names(name: str, tmp_path: Path) -> None:
    of, path = model_of(name), tmp_path / "m.h5"
    for make in (optimizers.SGD, optimizers.RMSprop):
        of.compile(make(momentum=0.9, use_ema=True, gradient_accumulation_steps=2), "mse")
        of.optimizer.build(of.trainable_variables)
        expected = keras_files.save_marked(of, path, lambda path: of.save(path))
        found = compare(path, expected)
        assert found["momentum"] == len(of.trainable_variables)


def _layers_with_slashes(path: Path) -> None:
    """As Keras 2.1.6 writes them (keras issue 12195), with one name that begins like another."""
    names = ["conv1/conv", "conv1", "fc1000"]
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [name.encode() for name in names]
        file.attrs["keras_version"] = b"2.1.6"
        for seed, (layer, weight) in enumerate(
            [("conv1/conv", "conv1/conv/kernel:0"), ("conv1", "conv/kernel:0"), ("fc1000", "fc1000/kernel:0")]
        ):
            group = file.require_group(layer)
            group.attrs["weight_names"] = [weight.encode()]
            group[weight] = np.full((2, 2), seed, "f4")
        file["optimizer_weights/Adam/m/conv1/conv/kernel:0"] = np.ones((2, 2), "f4")


def test_layers_may_have_slashes_in_their_names(tmp_path: Path) -> None:
    path = tmp_path / "slash.h5"
    _layers_with_slashes(path)
    found = run_json("ls", path)
    assert [layer["name"] for layer in found["layers"]["list"]] == ["conv1/conv", "conv1", "fc1000"]
    assert {tensor["path"]: tensor["layer"] for tensor in found["tensors"]} == {
        "conv1/conv/conv1/conv/kernel:0": "conv1/conv",
        "conv1/conv/kernel:0": "conv1",  # listed in weight_names of conv1
        "fc1000/fc1000/kernel:0": "fc1000",
        "optimizer_weights/Adam/m/conv1/conv/kernel:0": "conv1/conv",
    }
    out = tmp_path / "out.h5"
    run_json("inject", path, "-o", out, "--layer", "first", "--role", "weight", "--bits", "sign")
    with h5py.File(path) as before, h5py.File(out) as after:
        changed = [
            name
            for name in ("conv1/conv/conv1/conv/kernel:0", "conv1/conv/kernel:0", "fc1000/fc1000/kernel:0")
            if before[name][()].tobytes() != after[name][()].tobytes()
        ]
    assert changed == ["conv1/conv/conv1/conv/kernel:0"]
