"""Tensors that are one in a program, such as tied weights, are one in its checkpoint; h5py and PyTorch read it."""

from __future__ import annotations

from pathlib import Path

import bitrift
import bitrift.torch
import h5py
import numpy as np
import pytest
import torch


class Tied(torch.nn.Module):
    """The head comes first in path order, the embedding in the order of the state_dict."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.wte = torch.nn.Embedding(11, 4)
        self.norm = torch.nn.LayerNorm(4)
        self.head = torch.nn.Linear(4, 11, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.wte(tokens)))


def train(model: Tied, optimizer: torch.optim.Optimizer, steps: int) -> list[float]:
    tokens = torch.arange(9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(tokens), tokens + 1)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def trained(seed: int = 1) -> tuple[Tied, torch.optim.Optimizer]:
    model = Tied(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    train(model, optimizer, 2)
    return model, optimizer


def test_save_writes_tied_weights_once_under_the_first_name_of_the_state_dict(tmp_path: Path) -> None:
    model, optimizer = trained()
    bitrift.torch.save(tmp_path / "c.h5", model, optimizer, epoch=1)
    with h5py.File(tmp_path / "c.h5") as file:
        addresses = {name: h5py.h5o.get_info(value.id).addr for name, value in file["model"].items()}
        assert list(addresses) == list(model.state_dict())
        assert addresses["wte.weight"] == addresses["head.weight"] != addresses["norm.weight"]
        assert np.array_equal(file["model/head.weight"], model.wte.weight.detach())
        assert sorted(file["optimizer/exp_avg"]) == ["norm.bias", "norm.weight", "wte.weight"]
    found = {tensor.path: tensor for tensor in bitrift.list_tensors(tmp_path / "c.h5")}
    assert {path: tensor.alias_of for path, tensor in found.items() if tensor.alias_of} == {
        "model/head.weight": "model/wte.weight"
    }
    assert found["model/head.weight"].role == found["model/wte.weight"].role == "weight"
    expected = train(model, optimizer, 3)
    other, resumed = trained(2)
    assert bitrift.torch.load_into(tmp_path / "c.h5", other, resumed) == {"epoch": 1}
    assert train(other, resumed, 3) == expected


def test_fault_under_either_name_alters_the_one_weight(tmp_path: Path) -> None:
    model, optimizer = trained()
    bitrift.torch.save(tmp_path / "c.h5", model, optimizer)
    for name in ("model/wte.weight", "model/head.weight"):
        bitrift.inject(tmp_path / "c.h5", tmp_path / "hurt.h5", tensor=name, element=(3, 1), bits=30)
        other, resumed = trained(2)
        bitrift.torch.load_into(tmp_path / "hurt.h5", other, resumed)
        assert torch.nonzero(other.wte.weight != model.wte.weight).tolist() == [[3, 1]]
    manifest = bitrift.plan(tmp_path / "c.h5", roles=["weight"], bits="30", count=44, seed=1)
    assert {fault["tensor"] for fault in manifest["faults"]} == {"model/wte.weight"}


def test_load_into_takes_files_in_which_the_weight_is_several_tensors_or_has_one_name(tmp_path: Path) -> None:
    model, optimizer = trained()
    bitrift.torch.save(tmp_path / "c.h5", model, optimizer)
    for drop in ("head.weight", "wte.weight", ""):
        with h5py.File(tmp_path / "c.h5") as one, h5py.File(tmp_path / "other.h5", "w") as other:
            for name, value in one["model"].items():
                if name != drop:
                    other[f"model/{name}"] = value[()]
        again = Tied(5)
        bitrift.torch.load_into(tmp_path / "other.h5", again)
        assert torch.equal(again.wte.weight, model.wte.weight)
    with h5py.File(tmp_path / "other.h5", "r+") as other:
        other["model/wte.weight"][0] = 9
        other["model/head.weight"][0] = 7
    bitrift.torch.load_into(tmp_path / "other.h5", again)
    assert torch.equal(again.wte.weight[0], torch.full((4,), 7.0))  # the last counts, as in load_state_dict


def test_from_pt_keeps_tensors_over_one_storage_and_their_optimizer(tmp_path: Path) -> None:
    model, optimizer = trained()
    content = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 2}
    torch.save(content, tmp_path / "c.pt")
    assert bitrift.torch.from_pt(tmp_path / "c.pt", tmp_path / "from.h5") == []
    bitrift.torch.save(tmp_path / "saved.h5", model, optimizer, epoch=2)
    assert bitrift.diff(tmp_path / "from.h5", tmp_path / "saved.h5") == []
    aliases = [tensor.path for tensor in bitrift.list_tensors(tmp_path / "from.h5") if tensor.alias_of]
    assert aliases == ["model/head.weight"]


@pytest.mark.parametrize("part", [lambda x: x[:2], lambda x: x.T, lambda x: x.view(2, 8)])
def test_other_views_of_a_storage_are_tensors_of_their_own(tmp_path: Path, part: object) -> None:
    whole = torch.arange(16.0).view(4, 4)
    model = torch.nn.Module()
    model.register_buffer("a", whole)
    model.register_buffer("b", part(whole))  # type: ignore[operator]
    model.register_buffer("c", torch.zeros(0))
    model.register_buffer("d", torch.zeros(0))
    bitrift.torch.save(tmp_path / "c.h5", model)
    assert not any(tensor.alias_of for tensor in bitrift.list_tensors(tmp_path / "c.h5"))
    with h5py.File(tmp_path / "c.h5") as file:
        assert np.array_equal(file["model/b"], model.state_dict()["b"])
