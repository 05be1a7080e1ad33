"""Which tensors a script does not load, found by loads of altered files alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import bitrift.torch
import h5py
import pytest
import torch
from bitrift.runner.serving import Script, Trainer
from bitrift.runner.unread import Loads, candidates, codes_of, unread_tensors, unused_weights

LAYERS = 30
WEIGHTS = [f"{i}.weight" for i in range(LAYERS)]
BIASES = [f"{i}.bias" for i in range(LAYERS)]
State = dict[str, torch.Tensor]


def model() -> torch.nn.ModuleList:
    torch.manual_seed(1)
    return torch.nn.ModuleList(torch.nn.Linear(2, 1) for _ in range(LAYERS))


@pytest.fixture
def base(tmp_path: Path) -> Path:
    bitrift.torch.save(tmp_path / "base.h5", model(), epoch=3, loss=0.5)
    with h5py.File(tmp_path / "base.h5", "r+") as file:
        file["note"] = "not a number"
        file.create_dataset("mask", data=[True, False])
    return tmp_path / "base.h5"


def search(base: Path, copy: Callable[[State, State], Any]) -> tuple[list[str], int]:
    """What a script does not load that copies tensors from the file into its state, and how often it had to load."""
    state: State = {name: torch.full(value.shape, 0.5) for name, value in model().state_dict().items()}
    state["all"] = torch.zeros(2 * LAYERS)
    count = 0

    def load(path: str) -> Any:
        nonlocal count
        count += 1
        with h5py.File(path) as file:
            return copy({name: torch.from_numpy(value[()]) for name, value in file["model"].items()}, state)

    trainer = Trainer(Script(load, lambda: None, lambda: (0.0, 0.0), lambda: state))
    found = unread_tensors(Loads(trainer, base, base.with_name("copy.h5")), candidates(base))
    return found, count


OTHERS = ["mask", "progress/epoch", "progress/loss"]


def in_file(names: list[str]) -> list[str]:
    return sorted([f"model/{name}" for name in names] + OTHERS)


def test_candidates_are_the_numbers_of_a_file(base: Path) -> None:
    assert candidates(base) == in_file(WEIGHTS + BIASES)


def test_few_loads_show_that_each_tensor_is_read(base: Path) -> None:
    def copy(file: State, state: State) -> None:
        for name, value in file.items():
            state[name].copy_(value)

    found, loads = search(base, copy)
    assert found == sorted(OTHERS) and loads <= 1 + 8 + 1


def test_names_types_and_shapes_of_the_state_may_be_others(base: Path) -> None:
    def copy(file: State, state: State) -> dict[str, float]:
        state["all"].copy_(torch.cat([file[name].bfloat16().T.flatten() for name in WEIGHTS]))  # one part of many
        state["0.bias"].copy_(file["7.bias"])
        return {"epoch": 1}

    found, loads = search(base, copy)
    assert found == in_file([name for name in BIASES if name != "7.bias"])
    assert loads < 1 + 8 + 2 * (LAYERS + 10) * 2


def test_tensor_that_another_overwrites_is_not_read(base: Path) -> None:
    def copy(file: State, state: State) -> None:
        for name in ("3.weight", "4.weight", "5.weight"):
            state["0.weight"].copy_(file[name])

    assert search(base, copy)[0] == in_file([name for name in WEIGHTS + BIASES if name != "5.weight"])


def test_file_that_is_refused_was_read(base: Path) -> None:
    def copy(file: State, state: State) -> None:
        if not torch.equal(file["3.weight"], model().state_dict()["3.weight"]):
            raise ValueError("what is this?")
        state["0.weight"].copy_(file["9.weight"])

    read = ("3.weight", "9.weight")
    assert search(base, copy)[0] == in_file([name for name in WEIGHTS + BIASES if name not in read])


@pytest.mark.parametrize("count", [1, 2, 3, 100, 450])
def test_codes_are_different_sets_of_one_size(count: int) -> None:
    codes = codes_of(count)
    assert len(set(codes)) == count and len({len(code) for code in codes}) == 1 and len(codes[0]) > 0
    assert not any(set(one) < set(other) for one, other in combinations(codes[:50], 2))
    assert max(number for code in codes for number in code) < {1: 2, 2: 2, 3: 3, 100: 9, 450: 11}[count]


def unused(base: Path, used: range, strict: bool = False) -> list[str]:
    """The weights at both ends on which an evaluation of these layers does not depend. strict: whether it raises what
    altered weights lead to.
    """
    layers = model()
    state = {"model": layers}

    def load(path: str) -> Any:
        return bitrift.torch.load_into(path, layers)

    def evaluate() -> tuple[float, float]:
        total = sum(layers[i](torch.ones(2)).item() for i in used)
        if strict and total != expected:
            raise ValueError("scale must be positive")
        return total, 0.0

    expected = sum(layers[i](torch.ones(2)).item() for i in used)
    trainer = Trainer(Script(load, lambda: None, evaluate, lambda: state))
    return unused_weights(Loads(trainer, base, base.with_name("copy.h5")), [[f"model/{name}" for name in WEIGHTS]])


def test_weights_at_the_ends_that_no_evaluation_uses_are_found(base: Path) -> None:
    assert unused(base, range(LAYERS)) == []
    for strict in (False, True):
        assert unused(base, range(2, 27), strict) == sorted(f"model/{i}.weight" for i in (0, 1, 27, 28, 29))
    assert unused(base, range(16, 17)) == sorted(f"model/{i}.weight" for i in (*range(16), *range(17, 30)))


@pytest.mark.parametrize("evaluated", ["model", "ema", "none"])
def test_weights_of_a_model_that_is_not_evaluated_are_unused(tmp_path: Path, evaluated: str) -> None:
    """Such as that of a script that evaluates averages of its weights."""
    base, layers = tmp_path / "base.h5", model()
    ema = torch.optim.swa_utils.AveragedModel(layers)
    bitrift.torch.save(base, layers, ema=ema)
    with h5py.File(base) as file:
        folders = [
            [f"{top}/{name}" for name in sorted(file[top]) if name.endswith("weight")] for top in ("model", "ema")
        ]

    def evaluate() -> tuple[float, float]:
        if evaluated == "none":
            return 0.0, 0.0
        of = layers if evaluated == "model" else ema.module
        return sum(layer(torch.ones(2)).item() for layer in list(of.children())[1:]), 0.0

    script = Script(
        lambda path: bitrift.torch.load_into(path, layers, ema=ema), lambda: None, evaluate, lambda: [layers, ema]
    )
    found = unused_weights(Loads(Trainer(script), base, tmp_path / "copy.h5"), folders)
    first = {"model": ["model/0.weight"], "ema": ["ema/module.0.weight", *folders[0]], "none": []}
    assert found == sorted(first[evaluated])


def test_no_weight_is_called_unused_where_none_near_the_end_is_used(base: Path) -> None:
    assert unused(base, range(0)) == []
    assert unused(base, range(20, 22)) == sorted(f"model/{i}.weight" for i in range(22, 30))
