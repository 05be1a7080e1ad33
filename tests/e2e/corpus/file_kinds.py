"""Kinds of checkpoints, each written by the library whose format it is, and read back by it."""

from __future__ import annotations

import argparse
import collections
import io
import json
import os
import pathlib
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import ml_dtypes
import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from set_files import KINDS as SETS
from torch import nn

Arrays = dict[str, np.ndarray]


class Kind(NamedTuple):
    """`save` writes a file or folder called `name`; `read` gives values by the paths that bitrift lists.

    target: what is altered, "*" for everything. unread: whether bitrift lists tensors that `read` does not give.
    refused: a part of the message, for a file that bitrift does not read.
    """

    save: Callable[[Path], object]
    read: Callable[[Path], Arrays] = lambda path: {}
    name: str = "c.pt"
    target: str = "**"
    unread: bool = False
    refused: str = ""


def numbers(value: torch.Tensor) -> np.ndarray:
    """The bytes of the elements, one after the other."""
    plain = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return plain.view(torch.uint8).numpy().copy()


def flat(value: object, path: str = "") -> Arrays:
    """The tensors of nested containers, objects included, by keys, numbers and attributes joined with '/'."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_quantized or value.is_meta or value.is_nested:
            return {}
        if value.is_complex():
            return {f"{path}:real": numbers(value.real), f"{path}:imag": numbers(value.imag)}
        return {path: numbers(value)}
    if isinstance(value, nn.Module):
        return flat({key.replace(".", "/"): one for key, one in value.state_dict().items()}, path)
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list | tuple | collections.deque):
        items = enumerate(value)
    elif isinstance(value, argparse.Namespace):
        items = vars(value).items()
    found: Arrays = {}
    for key, one in items:
        found |= flat(one, f"{path}/{key}" if path else str(key))
    return found


def read_torch(path: Path) -> Arrays:
    return flat(torch.load(path, weights_only=False))


def network() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(72, 10))


def stepped(make: Callable[[Any], torch.optim.Optimizer]) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = network()
    optimizer = make(model.parameters())

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = model(torch.randn(4, 3, 5, 5)).square().mean()
        value.backward()
        return value

    optimizer.step(loss)
    return model, optimizer


def training(make: Callable[[Any], torch.optim.Optimizer], **more: object) -> dict[str, object]:
    model, optimizer = stepped(make)
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3} | more


def scheduled(make: Callable[[torch.optim.Optimizer], Any]) -> dict[str, object]:
    model, optimizer = stepped(torch.optim.Adam)
    schedule = make(optimizer)
    schedule.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": schedule.state_dict()}


def of(make: Callable[[], object], **options: Any) -> Callable[[Path], object]:
    return lambda path: torch.save(make(), path, **options)


def beside(make: Callable[[], object]) -> Kind:
    """A tensor next to an object; only the tensor is altered."""
    return Kind(of(lambda: {"w": torch.randn(20, 5), "other": make()}), read_torch, target="w", unread=True)


def tied() -> dict[str, torch.Tensor]:
    weight = torch.randn(30, 8)
    return {"embedding.weight": weight, "head.weight": weight, "rest": torch.randn(4)}


def views() -> dict[str, torch.Tensor]:
    return {"turned": torch.randn(12, 10).t(), "part": torch.randn(12, 10)[3:9, 2:7], "steps": torch.randn(90)[::3]}


class Attributed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Buffer(torch.randn(9))
        self.weight = nn.Parameter(torch.randn(5, 5))
        self.weight.tag = "decay"


def state_in(dtype: torch.dtype) -> Callable[[], dict[str, torch.Tensor]]:
    return lambda: {"w": torch.randn(40, 6).to(dtype), "b": torch.randn(6)}


def integers(dtype: torch.dtype) -> Callable[[], dict[str, torch.Tensor]]:
    return lambda: {"n": torch.arange(60).to(dtype), "b": torch.randn(6)}


def random_states() -> dict[str, object]:
    return {
        "torch": torch.get_rng_state(),
        "numpy": np.random.default_rng(1).bit_generator.state,
        "legacy": np.random.RandomState(1).get_state(),
        "python": random.Random(1).getstate(),
    }


def without_sums(path: Path) -> None:
    kept = torch.utils.serialization.config.save.compute_crc32
    torch.utils.serialization.config.save.compute_crc32 = False
    try:
        torch.save(state_in(torch.float32)(), path)
    finally:
        torch.utils.serialization.config.save.compute_crc32 = kept


def scripted(path: Path) -> None:
    torch.jit.save(torch.jit.script(nn.Linear(6, 4)), path)


def quantized() -> torch.Tensor:
    return torch.quantize_per_tensor(torch.randn(20), 0.1, 0, torch.qint8)


# What is saved without a zip archive, as before PyTorch 1.6, and its targets.
OLD: list[tuple[str, Callable[[], object], str]] = [
    ("optimizer and schedule", lambda: training(torch.optim.Adam), "**"),
    ("whole module", network, "**"),
    ("views", views, "**"),
    ("shared storage", lambda: {"a": (one := torch.randn(8, 5))[:3], "b": one[3:].t()}, "**"),
    ("bfloat16", lambda: network().bfloat16().state_dict(), "**"),
    ("complex", lambda: {"w": torch.randn(20, dtype=torch.complex64), "i": torch.arange(9)}, "**"),
    ("list", lambda: [torch.randn(7, 3), torch.zeros(0, 2)], "0"),
    (
        "quantized",
        lambda: {"w": torch.randn(9), "q": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)},
        "w",
    ),
]


def zipped(path: Path, method: int = zipfile.ZIP_STORED) -> None:
    """Files of torch.save in a zip archive: stored, as Stable-Baselines3 saves them, or deflated, as TabNet does."""
    state = training(torch.optim.Adam)
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("data", json.dumps({"policy_class": "MlpPolicy"}))
        for name, key in (("policy.pth", "model"), ("policy.optimizer.pth", "optimizer"), ("more/policy.pth", "model")):
            held = io.BytesIO()
            torch.save(state[key], held)
            archive.writestr(name, held.getvalue())


def read_zipped(path: Path) -> Arrays:
    found: Arrays = {}
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        for name in archive.namelist():
            if name.endswith(".pth"):
                found |= flat(torch.load(io.BytesIO(archive.read(name))), name.removesuffix(".pth"))
    return found


TORCH: dict[str, Kind] = {
    "state_dict": Kind(of(lambda: network().state_dict()), read_torch),
    "dict of a training": Kind(of(lambda: training(torch.optim.Adam)), read_torch),
    "SGD with momentum": Kind(of(lambda: training(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9))), read_torch),
    "LBFGS": Kind(of(lambda: training(torch.optim.LBFGS)), read_torch),
    "Adafactor": Kind(of(lambda: training(torch.optim.Adafactor)), read_torch),
    "MultiStepLR": Kind(of(lambda: scheduled(lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [2, 4]))), read_torch),
    "OneCycleLR": Kind(
        of(lambda: scheduled(lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=9))), read_torch
    ),
    "SequentialLR": Kind(
        of(
            lambda: scheduled(
                lambda o: torch.optim.lr_scheduler.SequentialLR(
                    o,
                    [torch.optim.lr_scheduler.ConstantLR(o), torch.optim.lr_scheduler.CosineAnnealingLR(o, 9)],
                    [2],
                )
            )
        ),
        read_torch,
    ),
    "loss scaler": Kind(
        of(lambda: training(torch.optim.Adam, scaler=torch.amp.GradScaler("cpu").state_dict())), read_torch
    ),
    "averaged model": Kind(
        of(lambda: {"ema": torch.optim.swa_utils.AveragedModel(network()).state_dict()}), read_torch
    ),
    "names of DistributedDataParallel": Kind(
        of(lambda: {f"module.{key}": value for key, value in network().state_dict().items()}), read_torch
    ),
    "arguments of argparse": Kind(
        of(lambda: training(torch.optim.Adam, args=argparse.Namespace(lr=0.1, out=pathlib.PurePosixPath("x")))),
        read_torch,
    ),
    "random states": Kind(of(lambda: {"w": torch.randn(9, 9), "rng": random_states()}), read_torch, target="w"),
    "whole module": Kind(of(network), read_torch),
    "module with buffers and tags": Kind(of(Attributed), read_torch),
    "module with weight norm": Kind(
        of(lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 4)).state_dict()), read_torch
    ),
    "bfloat16": Kind(of(state_in(torch.bfloat16)), read_torch),
    "float16": Kind(of(state_in(torch.float16)), read_torch),
    "float64": Kind(of(state_in(torch.float64)), read_torch),
    "float8_e4m3fn": Kind(of(state_in(torch.float8_e4m3fn)), read_torch),
    "float8_e5m2": Kind(of(state_in(torch.float8_e5m2)), read_torch),
    "float8_e4m3fnuz": Kind(of(state_in(torch.float8_e4m3fnuz)), read_torch),
    "float8_e5m2fnuz": Kind(of(state_in(torch.float8_e5m2fnuz)), read_torch),
    "two numbers in a byte": beside(lambda: torch.arange(6, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)),
    "complex64": Kind(of(lambda: {"w": torch.randn(20, dtype=torch.complex64)}), read_torch),
    "complex128": Kind(of(lambda: {"w": torch.randn(20, dtype=torch.complex128)}), read_torch),
    "int8": Kind(of(integers(torch.int8)), read_torch),
    "uint16": Kind(of(integers(torch.uint16)), read_torch),
    "uint64": Kind(of(integers(torch.uint64)), read_torch),
    "bool": Kind(of(lambda: {"mask": torch.randn(50) > 0, "b": torch.randn(6)}), read_torch),
    "tied weights": Kind(of(tied), read_torch, target="rest"),
    "views": Kind(of(views), read_torch),
    "scalars and empty tensors": Kind(
        of(lambda: {"step": torch.tensor(3.0), "none": torch.empty(0, 3), "w": torch.randn(9)}), read_torch
    ),
    "conjugate view": beside(lambda: torch.randn(4, dtype=torch.complex64).conj()),
    "negative view": beside(lambda: torch.randn(4, dtype=torch.complex64).conj().imag),
    "sparse": beside(lambda: torch.eye(4).to_sparse()),
    "sparse rows": beside(lambda: torch.eye(4).to_sparse_csr()),
    "quantized": beside(quantized),
    "nested": beside(lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])),
    "meta": beside(lambda: torch.ones(4, device="meta")),
    "counter": beside(lambda: collections.Counter("abca")),
    "complex number": beside(lambda: 1 + 2j),
    "default dict": beside(lambda: collections.defaultdict(list, a=[torch.ones(3)])),
    "deque": beside(lambda: collections.deque([torch.ones(3), 1], maxlen=4)),
    "array of numpy": beside(lambda: np.arange(5.0)),
    "number of numpy": beside(lambda: np.float32(0.5)),
    "pickle protocol 4": Kind(of(lambda: training(torch.optim.Adam), pickle_protocol=4), read_torch),
    "pickle protocol 5": Kind(of(lambda: training(torch.optim.Adam), pickle_protocol=5), read_torch),
    "without sums": Kind(without_sums, read_torch),
    "in a zip archive": Kind(zipped, read_zipped, "c.zip"),
    "in a compressed zip archive": Kind(lambda path: zipped(path, zipfile.ZIP_DEFLATED), read_zipped, "c.zip"),
    "TorchScript": Kind(scripted, lambda path: flat(torch.jit.load(path)), unread=True),
    **{
        f"before PyTorch 1.6, {name}": Kind(of(make, _use_new_zipfile_serialization=False), read_torch, target=target)
        for name, make, target in OLD
    },
    "pickle protocol 0": Kind(
        of(lambda: network().state_dict(), pickle_protocol=0),
        refused="is a pickle of protocol 0, from which PyTorch itself loads no tensors",
    ),
}


# --- NumPy ---


def plain(value: np.ndarray) -> np.ndarray:
    """The bytes of the elements in row-major order, little-endian."""
    values = np.ascontiguousarray(value).reshape(-1)
    if values.dtype.byteorder == ">":
        values = values.astype(values.dtype.newbyteorder("<"))
    return values.view(np.uint8).copy()


def read_npz(path: Path) -> Arrays:
    with np.load(path, allow_pickle=True) as held:
        found = {name: held[name] for name in held.files}
    return {name: plain(value) for name, value in found.items() if value.dtype.kind in "fiub"}


def npz(save: Callable[..., None], arrays: Callable[[np.random.Generator], dict[str, Any]], **options: Any) -> Kind:
    return Kind(lambda path: save(path, **arrays(np.random.default_rng(1))), read_npz, "c.npz", **options)


def floats(draw: np.random.Generator) -> dict[str, np.ndarray]:
    return {"w": draw.standard_normal((20, 8), dtype="f4"), "b": draw.standard_normal(9)}


def with_objects(draw: np.random.Generator) -> dict[str, Any]:
    return floats(draw) | {"names": np.array(["a", {"b": 1}], dtype=object), "words": np.array(["ab", "c"])}


NUMPY: dict[str, Kind] = {
    "npz": npz(np.savez, floats),
    "npz, compressed": npz(np.savez_compressed, floats),
    "npz, Fortran order": npz(np.savez, lambda draw: {"w": np.asfortranarray(floats(draw)["w"])}),
    "npz, big-endian": npz(
        np.savez, lambda draw: {"w": floats(draw)["w"].astype(">f4"), "n": np.arange(9, dtype=">i2")}
    ),
    "npz, integers and truth values": npz(
        np.savez, lambda draw: {"n": np.arange(50, dtype="i8"), "t": np.ones(9, "?")}
    ),
    "npz, half precision": npz(np.savez, lambda draw: {"w": floats(draw)["w"].astype("f2")}),
    "npz, objects and text beside": npz(np.savez, with_objects, target="w", unread=True),
    "npz, zero dimensions": npz(np.savez, lambda draw: {"step": np.float32(3), "w": floats(draw)["w"]}),
}


# --- safetensors ---


def read_safetensors(path: Path) -> Arrays:
    return flat(safetensors.torch.load_file(path))


def tensors(make: Callable[[], dict[str, torch.Tensor]], **options: Any) -> Kind:
    return Kind(lambda path: safetensors.torch.save_file(make(), path, **options), read_safetensors, "c.safetensors")


def other_metadata(path: Path) -> None:
    held = {"w": np.arange(20, dtype="f4")}
    safetensors.numpy.save_file(held, path, metadata={"format": "np", "note": 'é \\ " {}'})


SAFETENSORS: dict[str, Kind] = {
    "safetensors": tensors(lambda: dict(network().state_dict()), metadata={"format": "pt"}),
    "safetensors, bfloat16": tensors(state_in(torch.bfloat16)),
    "safetensors, float8": tensors(state_in(torch.float8_e4m3fn)),
    "safetensors, float8 with one zero": tensors(state_in(torch.float8_e5m2fnuz)),
    "safetensors, integers": tensors(integers(torch.int16)),
    "safetensors, truth values": tensors(lambda: {"t": torch.randn(30) > 0, "w": torch.randn(5)}),
    "safetensors, scalars and empty tensors": tensors(
        lambda: {"s": torch.tensor(1.0), "none": torch.empty(2, 0), "w": torch.randn(5)}
    ),
    "safetensors of numpy": Kind(other_metadata, read_safetensors, "c.safetensors"),
}


# --- HDF5 ---


def read_hdf5(path: Path) -> Arrays:
    found: Arrays = {}
    with h5py.File(path) as file:

        def visit(name: str, item: object) -> None:
            if isinstance(item, h5py.Dataset) and item.shape is not None and item.dtype.kind in "fiu":
                found[name] = plain(np.asarray(item[()]))

        file.visititems(visit)
    return found


def hdf5(fill: Callable[[h5py.File], object], libver: str = "earliest", **options: Any) -> Kind:
    def save(path: Path) -> None:
        with h5py.File(path, "w", libver=libver) as file:
            fill(file)

    return Kind(save, read_hdf5, "c.h5", **options)


def datasets(**options: Any) -> Callable[[h5py.File], None]:
    def fill(file: h5py.File) -> None:
        for name, value in floats(np.random.default_rng(2)).items():
            file.create_dataset(f"model/{name}", data=value, **options)

    return fill


def compound(file: h5py.File) -> None:
    pairs = np.zeros(6, np.dtype([("w", "<f4", (2,)), ("n", "<i2")]))
    pairs["w"], pairs["n"] = np.arange(12).reshape(6, 2), np.arange(6)
    file["pairs"] = pairs
    file["w"] = np.arange(9.0)


def keras_2(path: Path) -> None:
    """As Keras 2 writes model.save_weights("c.h5"): names of layers and weights are attributes."""
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [b"conv2d", b"dense"]
        file.attrs["backend"], file.attrs["keras_version"] = b"tensorflow", b"2.13.1"
        for layer, shapes in {"conv2d": ((3, 3, 1, 4), (4,)), "dense": ((16, 10), (10,))}.items():
            group = file.create_group(layer)
            group.attrs["weight_names"] = [f"{layer}/{name}:0".encode() for name in ("kernel", "bias")]
            for name, shape in zip(("kernel", "bias"), shapes, strict=True):
                group[f"{layer}/{name}:0"] = np.random.default_rng(3).standard_normal(shape, dtype="f4")


def of_bitrift(path: Path) -> None:
    import bitrift.torch

    model, optimizer = stepped(torch.optim.Adam)
    bitrift.torch.save(path, model, optimizer, epoch=3)


def opaque(file: h5py.File) -> None:
    file["w"] = np.arange(9.0)
    file["b"] = np.arange(8).astype(ml_dtypes.bfloat16).view("V2")


HDF5: dict[str, Kind] = {
    "HDF5": hdf5(datasets()),
    "HDF5, newest structures": hdf5(datasets(), "latest"),
    "HDF5, chunks": hdf5(datasets(chunks=True)),
    "HDF5, gzip and shuffle": hdf5(datasets(chunks=True, compression="gzip", shuffle=True)),
    "HDF5, lzf": hdf5(datasets(chunks=True, compression="lzf")),
    "HDF5, Fletcher-32": hdf5(datasets(chunks=True, fletcher32=True)),
    "HDF5, big-endian": hdf5(lambda file: file.create_dataset("w", data=np.arange(9, dtype=">f4"))),
    "HDF5, compound": hdf5(compound, target="w", unread=True),
    "HDF5, opaque numbers": hdf5(opaque, target="w", unread=True),
    "HDF5, growing": hdf5(lambda file: file.create_dataset("w", data=np.arange(30.0), maxshape=(None,), chunks=(7,))),
    "HDF5 of Keras 2": Kind(keras_2, read_hdf5, "c.h5"),
    "HDF5 of bitrift": Kind(of_bitrift, read_hdf5, "c.h5", target="model/**", unread=True),
}


# --- Keras 3 ---


def keras_model() -> Any:
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    keras.utils.set_random_seed(4)
    layers = keras.layers
    model = keras.Sequential([keras.Input((6, 6, 1)), layers.Conv2D(4, 3), layers.BatchNormalization()])
    model.add(layers.Flatten())
    model.add(layers.Dense(5))
    model.compile(optimizer=keras.optimizers.Adam(), loss="mse")
    draw = np.random.default_rng(5)
    model.fit(draw.random((8, 6, 6, 1)), draw.random((8, 5)), verbose=0)
    return model


def read_keras_weights(path: Path) -> Arrays:
    """By Keras: the values of a model of the same kind, in the order of its variables; here by their file names."""
    model = keras_model()
    model.load_weights(path)
    return read_hdf5(path)


KERAS: dict[str, Kind] = {
    "weights of Keras 3": Kind(
        lambda path: keras_model().save_weights(path), read_keras_weights, "c.weights.h5", unread=True
    ),
}


# --- several files ---


def in_bytes(read: Callable[[Path], Arrays]) -> Callable[[Path], Arrays]:
    return lambda path: {name: plain(value) for name, value in read(path).items()}


FOLDERS = {name: Kind(one.save, in_bytes(one.read), "checkpoint") for name, one in SETS.items()}


def index_without_shard(path: Path) -> None:
    path.mkdir()
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": "model-1.safetensors"}}))


# --- what is refused ---


def text(content: str | bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content)


REFUSED: dict[str, Kind] = {
    "npy": Kind(lambda path: np.save(path, np.arange(9.0)), name="c.npy", refused="npy"),
    "GGUF": Kind(text(b"GGUF\3\0\0\0" + bytes(60)), name="c.gguf", refused="GGUF"),
    "pointer of Git LFS": Kind(
        text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"), refused="Git LFS"
    ),
    "web page": Kind(text("<!DOCTYPE html><html></html>"), refused="is a web page"),
    "JSON": Kind(text('{"a": 1}'), name="c.json", refused="JSON"),
    "gzip": Kind(text(b"\x1f\x8b\x08" + bytes(40)), name="c.h5.gz", refused="is a compressed file; unpack it first"),
    "NetCDF-3": Kind(text(b"CDF\1" + bytes(40)), name="c.nc", refused="NetCDF"),
    "empty file": Kind(text(b""), refused="empty"),
    "index whose shard is missing": Kind(index_without_shard, name="c", refused="is missing"),
}

KINDS = TORCH | NUMPY | SAFETENSORS | HDF5 | KERAS | FOLDERS | REFUSED
