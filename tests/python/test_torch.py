"""`bitrift.torch`: an own PyTorch program's checkpoints as HDF5, read back by h5py and altered by bitrift."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bitrift
import bitrift.torch
import h5py
import numpy as np
import pytest
import torch


def two_groups(model: torch.nn.Module) -> list[dict[str, Any]]:
    parameters = list(model.parameters())
    return [{"params": parameters[:2]}, {"params": parameters[2:], "lr": 0.5}]


Optimizers = dict[str, Callable[[torch.nn.Module], torch.optim.Optimizer]]
OPTIMIZERS: Optimizers = {
    "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
    "adam": lambda model: torch.optim.Adam(model.parameters(), lr=0.01, amsgrad=True),
    "adamw": lambda model: torch.optim.AdamW(two_groups(model), lr=0.01),
}


def make_model(seed: int) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    layers = [torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 10)]
    return torch.nn.Sequential(*layers)


def parameter_of(model: torch.nn.Module, name: str) -> torch.nn.Parameter:
    return dict(model.named_parameters())[name]


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> list[float]:
    losses = []
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        images = torch.randn(8, 1, 8, 8, generator=generator)
        labels = torch.randint(0, 10, (8,), generator=generator)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_resumes_bit_for_bit(tmp_path: Path, name: str) -> None:
    model = make_model(1)
    optimizer = OPTIMIZERS[name](model)
    train(model, optimizer, range(3))
    bitrift.torch.save(tmp_path / "c.h5", model, optimizer, epoch=2, loss=0.25)
    expected = train(model, optimizer, range(3, 8))
    other = make_model(2)
    resumed = OPTIMIZERS[name](other)
    for group in resumed.param_groups:
        group["lr"] = 9.0
    assert bitrift.torch.load_into(tmp_path / "c.h5", other, resumed) == {"epoch": 2, "loss": 0.25}
    assert train(other, resumed, range(3, 8)) == expected
    for key, value in model.state_dict().items():
        assert torch.equal(value, other.state_dict()[key]), key


def test_bitrift_knows_the_roles_and_a_flip_reaches_the_program(tmp_path: Path) -> None:
    model = make_model(1)
    optimizer = OPTIMIZERS["adam"](model)
    train(model, optimizer, range(2))
    bitrift.torch.save(tmp_path / "c.h5", model, optimizer, epoch=2)
    roles = {tensor.path: tensor.role for tensor in bitrift.list_tensors(tmp_path / "c.h5")}
    assert roles["model/0.weight"] == "weight" and roles["model/3.bias"] == "bias"
    assert roles["model/1.weight"] == "norm" and roles["model/1.running_var"] == "running_stat"
    assert roles["optimizer/exp_avg/3.weight"] == "exp_avg" and roles["progress/epoch"] == "progress"
    manifest = bitrift.inject(
        tmp_path / "c.h5", tmp_path / "hurt.h5", tensors=["optimizer/exp_avg_sq/3.weight"], bits="30", seed=4
    )
    element = manifest["faults"][0]["element"]
    other = make_model(2)
    resumed = OPTIMIZERS["adam"](other)
    bitrift.torch.load_into(tmp_path / "hurt.h5", other, resumed)
    before = optimizer.state[parameter_of(model, "3.weight")]["exp_avg_sq"].flatten()
    after = resumed.state[parameter_of(other, "3.weight")]["exp_avg_sq"].flatten()
    assert torch.nonzero(before != after).flatten().tolist() == [element]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_precisions_keep_their_bits(tmp_path: Path, dtype: torch.dtype) -> None:
    model = make_model(3).to(dtype)
    bitrift.torch.save(tmp_path / "c.h5", model)
    with h5py.File(tmp_path / "c.h5") as file:
        values = file["model/3.weight"][()]
    assert np.array_equal(values.astype(np.float64), parameter_of(model, "3.weight").detach().double().numpy())
    found = {tensor.path: tensor.dtype for tensor in bitrift.list_tensors(tmp_path / "c.h5")}
    assert found["model/3.weight"] == str(dtype).removeprefix("torch.")
    other = make_model(4).to(dtype)
    assert bitrift.torch.load_into(tmp_path / "c.h5", other) == {}
    assert all(torch.equal(value, other.state_dict()[key]) for key, value in model.state_dict().items())


def test_a_failed_save_keeps_the_old_file(tmp_path: Path) -> None:
    model = make_model(1)
    bitrift.torch.save(tmp_path / "c.h5", model, epoch=1)
    before = (tmp_path / "c.h5").read_bytes()
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "c.h5").stat().st_mode & 0o777 == 0o666 & ~umask
    model.register_buffer("odd", torch.zeros(2, dtype=torch.float8_e4m3fn))
    with pytest.raises(bitrift.torch.ConversionError, match=r"odd: torch\.float8_e4m3fn has no HDF5 type"):
        bitrift.torch.save(tmp_path / "c.h5", model, epoch=2)
    assert (tmp_path / "c.h5").read_bytes() == before
    assert os.listdir(tmp_path) == ["c.h5"]


def test_an_optimizer_without_state_is_stored(tmp_path: Path) -> None:
    model = make_model(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer, range(1))
    for parameter in model.parameters():
        optimizer.state[parameter]["momentum_buffer"] = None  # as some versions of PyTorch leave it
    bitrift.torch.save(tmp_path / "c.h5", model, optimizer)
    other = make_model(2)
    bitrift.torch.load_into(tmp_path / "c.h5", other, torch.optim.SGD(other.parameters(), lr=9.0))
    assert all(torch.equal(value, other.state_dict()[key]) for key, value in model.state_dict().items())


def test_an_optimizer_of_other_parameters_is_refused(tmp_path: Path) -> None:
    model = make_model(1)
    with pytest.raises(bitrift.torch.ConversionError, match="a parameter that the model does not have"):
        bitrift.torch.save(tmp_path / "c.h5", make_model(1), OPTIMIZERS["sgd"](model))
    bitrift.torch.save(tmp_path / "c.h5", model)
    with pytest.raises(bitrift.torch.ConversionError, match="parameters in its groups"):
        bitrift.torch.load_into(tmp_path / "c.h5", model, OPTIMIZERS["sgd"](model))


def convert(source: Path, output: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bitrift", "from-pt", str(source), "-o", str(output)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_a_pt_file_becomes_what_save_writes(tmp_path: Path, name: str) -> None:
    model = make_model(1)
    optimizer = OPTIMIZERS[name](model)
    train(model, optimizer, range(3))
    content = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "note": "kept elsewhere"}
    torch.save(content, tmp_path / "c.pt")
    done = convert(tmp_path / "c.pt", tmp_path / "from.h5")
    assert done.returncode == 0, done.stderr
    assert "left out: note: a str" in done.stderr
    bitrift.torch.save(tmp_path / "saved.h5", model, optimizer, epoch=3)
    assert bitrift.diff(tmp_path / "from.h5", tmp_path / "saved.h5") == []
    other = make_model(2)
    resumed = OPTIMIZERS[name](other)
    assert bitrift.torch.load_into(tmp_path / "from.h5", other, resumed) == {"epoch": 3}
    assert train(other, resumed, range(3, 5)) == train(model, optimizer, range(3, 5))


def test_the_only_optimizer_of_lightning_is_kept(tmp_path: Path) -> None:
    model = make_model(1)
    optimizer = OPTIMIZERS["adam"](model)
    train(model, optimizer, range(3))
    states = [optimizer.state_dict()]
    content = {"epoch": 1, "global_step": 3, "state_dict": model.state_dict(), "loops": {}, "optimizer_states": states}
    torch.save(content, tmp_path / "c.ckpt")
    assert bitrift.torch.from_pt(tmp_path / "c.ckpt", tmp_path / "from.h5") == ["loops: a dict"]
    bitrift.torch.save(tmp_path / "saved.h5", model, optimizer, epoch=1, global_step=3)
    assert bitrift.diff(tmp_path / "from.h5", tmp_path / "saved.h5") == []
    torch.save(content | {"optimizer_states": states * 2}, tmp_path / "two.ckpt")
    assert "optimizer_states: a list" in bitrift.torch.from_pt(tmp_path / "two.ckpt", tmp_path / "two.h5")


def test_a_pt_file_is_listed_as_it_is(tmp_path: Path) -> None:
    state = make_model(1).state_dict()
    torch.save(state, tmp_path / "c.pt")
    listed = {tensor.path: tensor.shape for tensor in bitrift.list_tensors(tmp_path / "c.pt")}
    assert listed == {name: tuple(tensor.shape) for name, tensor in state.items()}


class Harmful:
    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("touch executed",)


def test_a_pickle_with_code_is_refused_and_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"model": make_model(1).state_dict(), "extra": Harmful()}, "c.pt")
    done = convert(Path("c.pt"), Path("c.h5"))
    assert done.returncode == 2 and "weights_only" in done.stderr and len(done.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == ["c.pt"]


@pytest.mark.parametrize("content", ["text", {"weights": [1, 2]}, {"model": {"a": 3}}])
def test_files_without_a_model_are_refused(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "c.pt")
    done = convert(tmp_path / "c.pt", tmp_path / "c.h5")
    assert done.returncode == 2 and done.stderr.startswith("bitrift: error: "), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "c.h5").exists()


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    done = convert(tmp_path / "missing.pt", tmp_path / "c.h5")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
