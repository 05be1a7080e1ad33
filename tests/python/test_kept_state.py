"""What save() keeps beside the model: every optimizer and scheduler of PyTorch resumes as if it had never stopped."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import bitrift
import bitrift.torch
import h5py
import numpy as np
import pytest
import torch
from bitrift.kept_state import from_json, get_inline, put_inline, to_json
from torch.optim import lr_scheduler

Optimizer = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Optimizer] = {
    "Adadelta": lambda parameters: torch.optim.Adadelta(parameters),
    "Adafactor": lambda parameters: torch.optim.Adafactor(parameters, lr=0.01),
    "Adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.01),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, amsgrad=True),
    "Adamax": lambda parameters: torch.optim.Adamax(parameters, lr=0.01),
    "ASGD": lambda parameters: torch.optim.ASGD(parameters, lr=0.01),
    "LBFGS": lambda parameters: torch.optim.LBFGS(parameters, lr=0.1, max_iter=3, history_size=4),
    "NAdam": lambda parameters: torch.optim.NAdam(parameters, lr=0.01),
    "RAdam": lambda parameters: torch.optim.RAdam(parameters, lr=0.01),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.01, momentum=0.9, centered=True),
    "Rprop": lambda parameters: torch.optim.Rprop(parameters, lr=0.01),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "SGD with momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, nesterov=True),
    "Adam with a tensor as rate": lambda parameters: torch.optim.Adam(parameters, lr=torch.tensor(0.01)),
}
Scheduler = Callable[[torch.optim.Optimizer], Any]
SCHEDULERS: dict[str, Scheduler] = {
    "ChainedScheduler": lambda optimizer: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ExponentialLR(optimizer, 0.9), lr_scheduler.StepLR(optimizer, 3, 0.5)]
    ),
    "ConstantLR": lambda optimizer: lr_scheduler.ConstantLR(optimizer, 0.5, 8),
    "CosineAnnealingLR": lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 10),
    "CosineAnnealingWarmRestarts": lambda optimizer: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3, 2),
    "CyclicLR": lambda optimizer: lr_scheduler.CyclicLR(optimizer, 1e-3, 1e-1, 4, cycle_momentum=False),
    "ExponentialLR": lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.9),
    "LambdaLR": lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 - epoch / 20),
    "LinearLR": lambda optimizer: lr_scheduler.LinearLR(optimizer, 0.1, 1.0, 10),
    "MultiStepLR": lambda optimizer: lr_scheduler.MultiStepLR(optimizer, [2, 4, 4, 7], 0.3),
    "MultiplicativeLR": lambda optimizer: lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.95),
    "OneCycleLR": lambda optimizer: lr_scheduler.OneCycleLR(
        optimizer, 1e-2, total_steps=20, cycle_momentum=not {"betas", "momentum"}.isdisjoint(optimizer.defaults)
    ),
    "PolynomialLR": lambda optimizer: lr_scheduler.PolynomialLR(optimizer, 12, 2.0),
    "ReduceLROnPlateau": lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, cooldown=1),
    "SequentialLR": lambda optimizer: lr_scheduler.SequentialLR(
        optimizer,
        [lr_scheduler.LinearLR(optimizer, 0.1, 1.0, 4), lr_scheduler.CosineAnnealingLR(optimizer, 8)],
        milestones=[4],
    ),
    "StepLR": lambda optimizer: lr_scheduler.StepLR(optimizer, 2, 0.5),
}
STEPS, MORE = 6, 5


class Training:
    """A small training with dropout that draws from the default generator."""

    def __init__(self, seed: int, optimizer: Optimizer, scheduler: Scheduler | None = None) -> None:
        torch.manual_seed(seed)
        layers = [torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 2)]
        self.model = torch.nn.Sequential(*layers)
        self.optimizer = optimizer(self.model.parameters())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.scheduler = scheduler(self.optimizer) if scheduler else None

    def train(self, steps: int) -> list[tuple[float, float]]:
        """The loss of each step and the rate at which it was taken."""
        taken = []
        for _ in range(steps):
            x = torch.randn(16, 6)
            rate = float(self.optimizer.param_groups[0]["lr"])

            def closure(x: torch.Tensor = x) -> float:
                self.optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(self.model(x), (x.sum(1) > 0).long())
                loss.backward()
                return loss.item()

            loss = float(self.optimizer.step(closure))
            if isinstance(self.scheduler, lr_scheduler.ReduceLROnPlateau):
                self.scheduler.step(loss)
            elif self.scheduler:
                self.scheduler.step()
            taken.append((loss, rate))
        return taken


def assert_resumes(tmp_path: Path, optimizer: Optimizer, scheduler: Scheduler | None) -> None:
    one = Training(1, optimizer, scheduler)
    one.train(STEPS)
    bitrift.torch.save(tmp_path / "c.h5", one.model, one.optimizer, scheduler=one.scheduler, random=True)
    expected = one.train(MORE)
    other = Training(2, optimizer, scheduler)
    bitrift.torch.load_into(tmp_path / "c.h5", other.model, other.optimizer, scheduler=other.scheduler, random=True)
    assert other.train(MORE) == expected
    for key, value in one.model.state_dict().items():
        assert torch.equal(value, other.model.state_dict()[key]), key


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_resumes(tmp_path: Path, name: str) -> None:
    assert_resumes(tmp_path, OPTIMIZERS[name], None)


# Each scheduler and each optimizer is tried without these pairs, too.
PAIRED = [pytest.param(one, marks=pytest.mark.thorough) for one in ("AdamW", "RMSprop", "Adafactor", "LBFGS")]


@pytest.mark.parametrize("optimizer", ["Adam", "SGD with momentum", *PAIRED])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_every_scheduler_resumes(tmp_path: Path, name: str, optimizer: str) -> None:
    assert_resumes(tmp_path, OPTIMIZERS[optimizer], SCHEDULERS[name])


def test_the_table_has_every_optimizer_and_scheduler_of_pytorch() -> None:
    known = {name.split(" ")[0] for name in OPTIMIZERS}
    # SparseAdam takes sparse gradients only; Muon takes matrices only.
    there = {name for name, one in vars(torch.optim).items() if isinstance(one, type) and name not in ("Optimizer",)}
    assert there - known <= {"SparseAdam", "Muon"}
    kinds = {
        name
        for name, one in vars(lr_scheduler).items()
        if isinstance(one, type) and issubclass(one, lr_scheduler.LRScheduler) and not name.startswith("_")
    }
    assert kinds - set(SCHEDULERS) == {"LRScheduler"}


class Average:
    """An average of weights as people write it, without a class of PyTorch."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.shadow = {key: value.detach().clone() for key, value in model.state_dict().items()}
        self.updates = 3

    def state_dict(self) -> dict[str, Any]:
        return {"shadow": self.shadow, "updates": self.updates, "decay": (0.9, None)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.shadow, self.updates = state["shadow"], state["updates"]
        assert state["decay"] == (0.9, None)


def two(seed: int) -> dict[str, Any]:
    """Two models with an optimizer each, and everything else that a training may keep."""
    torch.manual_seed(seed)
    models = {"generator": torch.nn.Linear(3, 4), "critic": torch.nn.Linear(4, 1)}
    optimizers = {name: torch.optim.Adam(model.parameters(), lr=0.01 * seed) for name, model in models.items()}
    schedulers = [lr_scheduler.StepLR(one, 2) for one in optimizers.values()]
    for name, model in models.items():
        model(torch.randn(2, model.in_features)).sum().backward()
        optimizers[name].step()
    generator = torch.Generator().manual_seed(seed)
    generator.get_state()
    data = torch.utils.data.TensorDataset(torch.arange(8))
    return {
        "model": models,
        "optimizer": optimizers,
        "scheduler": schedulers,
        "ema": {"plain": {"w": torch.full((2,), float(seed))}, "averaged": Average(models["critic"])},
        "scaler": torch.amp.GradScaler("cpu", init_scale=2.0**seed),
        "sampler": torch.utils.data.DataLoader(data, batch_size=2, shuffle=True, generator=generator),
    }


def test_everything_that_a_training_keeps_has_a_place(tmp_path: Path) -> None:
    one, other = two(1), two(2)
    one["scheduler"][1].step()
    one["scaler"].scale(torch.ones(()))  # which makes its state
    one["scaler"].update(8.0)
    random.seed(5)
    np.random.seed(6)  # noqa: NPY002 (the generator that is stored)
    bitrift.torch.save(tmp_path / "c.h5", **one, random=True, epoch=4)
    expected = [[int(x) for (batch,) in one["sampler"] for x in batch], random.random(), np.random.rand()]  # noqa: NPY002
    assert bitrift.torch.load_into(tmp_path / "c.h5", **other, random=True) == {"epoch": 4}
    found = [[int(x) for (batch,) in other["sampler"] for x in batch], random.random(), np.random.rand()]  # noqa: NPY002
    assert found == expected
    for name in ("generator", "critic"):
        assert torch.equal(one["model"][name].weight, other["model"][name].weight)
        mine, others = one["optimizer"][name].state_dict(), other["optimizer"][name].state_dict()
        assert mine["param_groups"] == others["param_groups"]
        assert torch.equal(mine["state"][0]["exp_avg"], others["state"][0]["exp_avg"])
    assert [each.last_epoch for each in other["scheduler"]] == [0, 1]
    assert other["ema"]["plain"]["w"].tolist() == [1.0, 1.0] and other["ema"]["averaged"].updates == 3
    assert torch.equal(other["ema"]["averaged"].shadow["weight"], one["ema"]["averaged"].shadow["weight"])
    assert other["scaler"].get_scale() == 8.0
    with h5py.File(tmp_path / "c.h5") as file:
        assert file["ema/plain/w"][()].tolist() == [1.0, 1.0]
        assert file["model/generator.weight"].shape == (4, 3)
    assert bitrift.list_tensors(tmp_path / "c.h5")


def test_a_part_that_is_forgotten_is_named(tmp_path: Path) -> None:
    one, other = two(1), two(2)
    bitrift.torch.save(tmp_path / "c.h5", **one)
    with pytest.warns(UserWarning, match="holds the state of scheduler, which load_into"):
        bitrift.torch.load_into(tmp_path / "c.h5", **(other | {"scheduler": None}))
    bitrift.torch.save(tmp_path / "d.h5", **(one | {"scaler": None}))
    with pytest.raises(bitrift.torch.ConversionError, match="scaler: holds none; give save"):
        bitrift.torch.load_into(tmp_path / "d.h5", **other)
    shared = one["model"]["critic"].parameters()
    with pytest.raises(bitrift.torch.ConversionError, match=r"critic\.weight: is a parameter of the optimizers"):
        bitrift.torch.save(
            tmp_path / "e.h5", one["model"], [one["optimizer"]["critic"], torch.optim.SGD(shared, lr=1.0)]
        )
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(8)), shuffle=True)
    with pytest.raises(bitrift.torch.ConversionError, match=r"DataLoader has no state to store.*random=True"):
        bitrift.torch.save(tmp_path / "e.h5", one["model"], sampler=loader)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.h5", "d.h5"]


def test_wrappers_change_no_name(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    parallel = torch.nn.DataParallel(model)
    bitrift.torch.save(tmp_path / "c.h5", parallel, torch.optim.SGD(parallel.parameters(), lr=0.1, momentum=0.9))
    with h5py.File(tmp_path / "c.h5") as file:
        assert sorted(file["model"]) == ["0.bias", "0.weight", "1.bias", "1.weight"]
    first: Any = torch.compile(torch.nn.Linear(2, 2), backend="eager")
    compiled = torch.nn.Sequential(first, torch.nn.Linear(2, 2))
    assert "0._orig_mod.weight" in compiled.state_dict()
    optimizer = torch.optim.SGD(compiled.parameters(), lr=9.0, momentum=0.9)
    whole: Any = torch.compile(compiled, backend="eager")
    bitrift.torch.load_into(tmp_path / "c.h5", whole, optimizer)
    assert torch.equal(compiled.state_dict()["0._orig_mod.weight"], model.state_dict()["0.weight"])
    assert optimizer.param_groups[0]["lr"] == 0.1


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 2.5, None, True, "x"], "b": (1, (2, float("inf")))},
        {1: "number", ("pair", 2): {3}},
        {"tuple": 1},
        {"tensor": "not a tensor"},
        {"dict": [["a", 1]]},
        [],
        {},
    ],
    ids=str,
)
def test_states_survive_json(value: Any) -> None:
    import json

    stored = json.loads(json.dumps(to_json(value, put_inline, "x")))
    assert from_json(stored, get_inline) == value


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.int64, torch.bool, torch.float64])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_small_tensors_survive_json(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    value = torch.ones(shape, dtype=dtype)
    found = from_json(to_json([value], put_inline, "x"), get_inline)[0]
    assert found.dtype == dtype and torch.equal(found, value)


def test_what_has_no_place_is_refused_by_its_place() -> None:
    with pytest.raises(bitrift.torch.ConversionError, match=r"scheduler/a\.1: is a object"):
        to_json({"a": [1, object()]}, put_inline, "scheduler")
