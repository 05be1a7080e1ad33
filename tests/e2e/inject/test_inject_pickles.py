"""Pickles with lazy views and with any Python objects, judged by torch.load. Nothing in them is executed."""

from __future__ import annotations

import argparse
import collections
import os
import pathlib
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import archive_files as archives
import numpy as np
import pytest
import torch
from inject_support import refused, run, run_json

W = torch.tensor([1.0, 2.5, -3.7, 0.0])
SET = ("--fraction", 1, "--what", "set", "--value")


def roles(path: Path) -> dict[str, str]:
    return {tensor["path"]: tensor["role"] for tensor in run_json("ls", path)["tensors"]}


def lazy_views() -> dict[str, torch.Tensor]:
    """Tensors with the bits that PyTorch resolves when it reads them."""
    numbers = torch.tensor([1 + 2j, -3 + 0.5j, 4 - 1j])
    return {
        "neg": torch.imag(torch.tensor([1 + 2j, -3 + 4j, 0.5 - 6j]).conj()),
        "conj": numbers.conj(),
        "both": torch._neg_view(torch.tensor([7 - 2j]).conj()),
        "half": torch._neg_view(torch.tensor([[1.5, -2.5], [0.0, 3.0]], dtype=torch.float16).t()),
        "plain": torch.tensor([5.0, -6.0]),
    }


def values(held: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """As bitrift names them, and as PyTorch shows them."""
    found = {}
    for name, tensor in held.items():
        seen = tensor.resolve_conj().resolve_neg()
        parts = {":real": seen.real, ":imag": seen.imag} if seen.is_complex() else {"": seen}
        found |= {name + part: one.resolve_neg().contiguous().numpy() for part, one in parts.items()}
    return dict(sorted(found.items()))


@pytest.fixture
def lazy(tmp_path: Path) -> Path:
    file = tmp_path / "lazy.pt"
    torch.save(lazy_views(), file)
    return file


def faults_of(document: dict) -> dict[tuple[str, int], tuple[int, int]]:
    return {
        (fault["tensor"], fault["element"]): (int(fault["old"], 16), int(fault["new"], 16))
        for fault in document["faults"]
        if fault["old"] != fault["new"]
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ("--what", "set", "--value", 3, "--fraction", 1),
        ("--what", "scale", "--factor", -2, "--count", 9),
        ("--what", "max", "--count", 9),
        ("--what", "nan", "--count", 9),
        ("--what", "inf", "--count", 9),
        ("--what", "zero", "--count", 9),
        ("--what", "random", "--count", 9),
        ("--what", "stuck-at-1", "--bits", "sign", "--count", 9),
        ("--what", "set", "--value", 3, "--keep-sign", "--count", 9),
        ("--bits", "sign", "--count", 9),
        ("--count", 40),
        ("--plane", "storage", "--count", 40),
    ],
)
def test_faults_in_lazy_views_are_what_pytorch_sees(lazy: Path, tmp_path: Path, arguments: tuple[object, ...]) -> None:
    out, again = tmp_path / "o.pt", tmp_path / "again.pt"
    document = run_json("inject", lazy, "-o", out, *arguments, "--seed", 3, "--manifest", tmp_path / "m.json")
    before, after = (values(torch.load(one, weights_only=True)) for one in (lazy, out))
    assert archives.changed(before, after) == faults_of(document)
    for fault in document["faults"]:
        old, new = before[fault["tensor"]].reshape(-1), after[fault["tensor"]].reshape(-1)
        for array, key in ((old, "old_value"), (new, "new_value")):
            np.testing.assert_equal(float(array[fault["element"]]), float(np.float32(fault[key])))
        if arguments[:2] == ("--what", "set"):
            assert abs(new[fault["element"]]) == 3
        if arguments[1] == "scale":
            assert new[fault["element"]] == -2 * old[fault["element"]]
    run("inject", lazy, "-o", again, "--replay", tmp_path / "m.json")
    assert again.read_bytes() == out.read_bytes()


def test_a_lazy_view_equals_its_values(lazy: Path, tmp_path: Path) -> None:
    resolved, out, manifest = tmp_path / "resolved.pt", tmp_path / "o.pt", tmp_path / "m.json"
    torch.save({name: tensor.resolve_conj().resolve_neg() for name, tensor in lazy_views().items()}, resolved)
    assert run("diff", lazy, resolved).stdout == "no tensor differs\n"
    assert {tensor["path"] for tensor in run_json("ls", lazy)["tensors"] if tensor.get("negated")} == {
        "neg",
        "conj:imag",
        "both:real",
        "half",
    }
    run("inject", lazy, "-o", tmp_path / "first", "--count", 20, "--seed", 1, "--manifest", manifest)
    run("inject", resolved, "-o", out, "--replay", manifest, "--by-name")
    assert run("diff", tmp_path / "first", out).stdout == "no tensor differs\n"
    (one,) = run_json("diff", lazy, _flipped(lazy, tmp_path), code=1)["differences"]
    assert (one["path"], one["first_old"], one["first_new"]) == ("neg", "0xc0000000", "0x40000000")


def _flipped(lazy: Path, tmp_path: Path) -> Path:
    out = tmp_path / "flipped.pt"
    run("inject", lazy, "-o", out, "--tensor", "neg", "--element", 0, "--bits", "sign")
    return out


def test_negated_integers_are_not_altered(tmp_path: Path) -> None:
    file = tmp_path / "i.pt"
    torch.save({"i": torch._neg_view(torch.tensor([3, 4])), "w": W}, file)
    refused("inject", file, "--dry-run", "--tensor", "i", says="stored negated")
    refused("inject", file, "--dry-run", "--tensor", "i", "--as", "i=uint64", says="bytes")
    run("inject", file, "-o", tmp_path / "o", "--tensor", "w", *SET, 3)


class Harmful:
    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("touch executed",)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self) -> None:
        self.a, self.b = torch.ones(3), 1


class Elements(list):  # type: ignore[type-arg]
    pass


class Circle:
    def __init__(self) -> None:
        self.me, self.weight = self, torch.ones(2)


def _tagged() -> torch.Tensor:
    tensor = torch.randn(3)
    tensor.tag = "x"
    return tensor


def _tagged_parameter() -> torch.nn.Parameter:
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.note = {"mask": torch.zeros(3)}
    return parameter


def _schedule() -> dict[str, object]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], 0.1)
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, [30, 60]).state_dict()


def _network() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Sequential(torch.nn.Linear(2, 2))
    )


# What stands beside the tensor w, and the tensors in it.
BYSTANDERS: dict[str, tuple[Callable[[], object], set[str]]] = {
    "counter": (_schedule, set()),
    "complex": (lambda: 1 + 2j, set()),
    "attribute": (_tagged, {"other"}),
    "parameter": (_tagged_parameter, {"other", "other/note/mask"}),
    "scalar": (lambda: np.float64(1e-3), set()),
    "array": (lambda: np.arange(4.0), set()),
    "namespace": (lambda: argparse.Namespace(a=1, t=torch.ones(1)), {"other/t"}),
    "path": (lambda: pathlib.PurePosixPath("x"), set()),
    "deque": (lambda: collections.deque([torch.ones(2), 2]), {"other/0"}),
    "bounded deque": (lambda: collections.deque([1], maxlen=3), set()),
    "defaultdict": (lambda: collections.defaultdict(list, a=[torch.ones(2)]), {"other/a/0"}),
    "random": (np.random.RandomState(0).get_state, set()),
    "generators": (lambda: [random.getstate(), np.random.default_rng(1), torch.get_rng_state()], {"other/2"}),
    "module": (lambda: torch.nn.Linear(2, 2), {"other/weight", "other/bias"}),
    "sparse": (lambda: torch.eye(3).to_sparse(), {"other/1/0", "other/1/1"}),
    "sparse rows": (lambda: torch.eye(3).to_sparse_csr(), {"other/1/0", "other/1/1", "other/1/2"}),
    "quantized": (lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), set()),
    "meta": (lambda: torch.ones(3, device="meta"), set()),
    "slots": (Slotted, {"other/a"}),
    "subclass": (lambda: Elements([torch.ones(2)]), {"other/0"}),
    "circle": (Circle, {"other/weight"}),
    "class": (lambda: collections.OrderedDict, set()),
    "sets": (lambda: [{1, 2}, frozenset([3]), bytearray(b"x"), b"y", range(3), slice(1), 2**90, Ellipsis], set()),
    "harmful": (Harmful, set()),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning")
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated:UserWarning")
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("name", BYSTANDERS)
def test_other_objects_are_not_called(
    tmp_path: Path, name: str, protocol: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file, out = tmp_path / "by.pt", tmp_path / "o.pt"
    make, held = BYSTANDERS[name]
    torch.save({"w": torch.ones(2), "other": make()}, file, pickle_protocol=protocol)
    listed = {path.partition(":")[0] for path in roles(file)}
    assert listed == {"w"} | held
    run("inject", file, "-o", out, "--tensor", "w", *SET, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["by.pt", "o.pt"]  # nothing was executed
    if name != "harmful":
        assert torch.load(out, weights_only=False)["w"].tolist() == [3, 3]
    before, after = zipfile.ZipFile(file), zipfile.ZipFile(out)
    altered = [one for one in before.namelist() if before.read(one) != after.read(one)]
    assert len(altered) == 1 and after.testzip() is None


def test_a_pickled_module_has_the_names_of_its_state_dict(tmp_path: Path) -> None:
    file, out = tmp_path / "module.pt", tmp_path / "o.pt"
    network = _network()
    torch.save(network, file)
    state = {name.replace(".", "/"): value for name, value in network.state_dict().items()}
    found = run_json("ls", file)
    assert {tensor["path"]: tuple(tensor["shape"]) for tensor in found["tensors"]} == {
        name: tuple(value.shape) for name, value in state.items()
    }
    assert [layer["name"] for layer in found["layers"]["list"]] == ["0", "1", "2/0"]
    assert roles(file)["1/weight"] == "norm" and roles(file)["2/0/weight"] == "weight"
    run("inject", file, "-o", out, "--layer", "last", "--role", "bias", *SET, 3)
    loaded = torch.load(out, weights_only=False).state_dict()
    changed = [name for name, value in network.state_dict().items() if not torch.equal(value, loaded[name])]
    assert changed == ["2.0.bias"] and set(loaded["2.0.bias"].tolist()) == {3}


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5])
def test_every_protocol_that_torch_writes_is_read(tmp_path: Path, protocol: int) -> None:
    file, out = tmp_path / "p.pt", tmp_path / "o.pt"
    other = [2**40, -(2**80), 1.5, True, None, "ö", b"\xff", (1, 2, 3, 4), {"k": {1}}]
    torch.save({"w": torch.ones(2), "other": other}, file, pickle_protocol=protocol)
    run("inject", file, "-o", out, "--tensor", "w", *SET, 3)
    loaded = torch.load(out, weights_only=False)
    assert loaded["w"].tolist() == [3, 3] and loaded["other"] == other


def test_layers_are_in_the_order_of_the_state_dict(tmp_path: Path) -> None:
    names = ["embedder.convolution", "encoder.stages.0", "classifier.1", "auxiliary"]
    state = collections.OrderedDict((f"resnet.{name}.weight", torch.ones(2, 2)) for name in names)
    file, out = tmp_path / "first.pt", tmp_path / "o.pt"
    for content in (
        state,
        {"optimizer": {"exp_avg": dict(reversed(state.items()))}, "model": state},
    ):
        torch.save(content, file)
        found = run_json("ls", file)["layers"]
        assert found["order"] == "stated"
        assert [layer["name"] for layer in found["list"]] == [f"resnet.{name}" for name in names]
        run("inject", file, "-o", out, "--layer", "first", "--role", "weight", *SET, 3)
        loaded = torch.load(out, weights_only=True)
        loaded = loaded.get("model", loaded)
        assert [name for name in state if not torch.equal(loaded[name], state[name])] == [next(iter(state))]


def test_names_that_a_tool_has_sorted_tell_no_order(tmp_path: Path) -> None:
    model = torch.nn.ModuleDict({name: torch.nn.Linear(2, 2) for name in ("stem", "body", "classifier")})
    made, tidy = tmp_path / "made.pt", tmp_path / "tidy.pt"
    torch.save(model.state_dict(), made)
    torch.save(dict(sorted(model.state_dict().items())), tidy)
    orders = [run_json("ls", file)["layers"] for file in (made, tidy)]
    assert [order["order"] for order in orders] == ["stated", "natural"]
    for order in orders:
        assert [layer["name"] for layer in order["list"]] == ["stem", "body", "classifier"]


def test_the_weights_of_a_recurrent_module_are_named_once(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(5, 4), torch.nn.LSTM(4, 3, num_layers=2, bidirectional=True))
    whole, state = tmp_path / "whole.pt", tmp_path / "state.pt"
    torch.save(model, whole)
    torch.save(model.state_dict(), state)
    expected = {name.replace(".", "/"): role for name, role in roles(state).items()}
    assert roles(whole) == expected
    assert set(expected.values()) == {"weight", "bias"}
