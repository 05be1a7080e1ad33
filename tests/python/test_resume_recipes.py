"""Every recipe of the documents that saves and resumes a script, against the run that was never interrupted."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bitrift.runner
import bitrift.torch
import h5py
import pytest
import torch
from torch.optim import lr_scheduler

DOCS = Path(__file__).resolve().parents[2] / "docs"

SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "CosineAnnealingLR": lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 10),
    "StepLR": lambda optimizer: lr_scheduler.StepLR(optimizer, 2, 0.5),
    "ExponentialLR": lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.9),
    "MultiStepLR": lambda optimizer: lr_scheduler.MultiStepLR(optimizer, [2, 4], 0.1),
    "LambdaLR": lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 - epoch / 10),
    "OneCycleLR": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=20),
    "LinearLR": lambda optimizer: lr_scheduler.LinearLR(optimizer, 0.1, 1.0, 10),
}


def block_with(page: str, text: str) -> str:
    """The Python block of a page that contains a text."""
    (block,) = (one for one in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.S) if text in one)
    return block


class Training:
    """A small training with dropout and BatchNorm whose random numbers follow from the number of the epoch."""

    def __init__(self, scheduler: Callable[[torch.optim.Optimizer], Any] | None = None) -> None:
        torch.manual_seed(3)
        layers = [torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 2)]
        self.model = torch.nn.Sequential(*layers)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)
        self.scheduler: Any = scheduler(self.optimizer) if scheduler else None

    def train(self, epochs: range) -> list[tuple[float, float]]:
        """The loss of every step and the rate at which it was taken."""
        steps = []
        for epoch in epochs:
            torch.manual_seed(epoch)
            for _ in range(3):
                x = torch.randn(16, 6)
                loss = torch.nn.functional.cross_entropy(self.model(x), (x.sum(1) > 0).long())
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                steps.append((loss.item(), self.optimizer.param_groups[0]["lr"]))
            if isinstance(self.scheduler, lr_scheduler.ReduceLROnPlateau):
                self.scheduler.step(loss.item())
            elif self.scheduler:
                self.scheduler.step()
        return steps

    def names(self) -> dict[str, Any]:
        """What the recipe's names mean."""
        return {
            "bitrift": bitrift,
            "h5py": h5py,
            "model": self.model,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "train_epoch": lambda: None,
            "evaluate": lambda: (0.0, 0.0),
        }

    def assert_equals(self, other: Training) -> None:
        mine, others = self.model.state_dict(), other.model.state_dict()
        assert all(torch.equal(mine[key], others[key]) for key in mine)
        one, two = self.optimizer.state_dict(), other.optimizer.state_dict()
        assert one["param_groups"] == two["param_groups"]
        for index, slots in one["state"].items():
            assert all(torch.equal(slots[slot], two["state"][index][slot]) for slot in slots)
        if self.scheduler:
            assert self.scheduler.state_dict() == other.scheduler.state_dict()


@pytest.mark.parametrize("name", SCHEDULERS)
def test_scheduler_of_the_page_on_own_trainers_anneals_once(tmp_path: Path, name: str) -> None:
    whole = Training(SCHEDULERS[name])
    whole.train(range(6))
    bitrift.torch.save(tmp_path / "c.h5", whole.model, whole.optimizer, epoch=6)
    expected = whole.train(range(6, 9))
    assert len({rate for _, rate in expected}) > 1 or name == "MultiStepLR"
    resumed = Training(SCHEDULERS[name])
    names = resumed.names()
    exec(compile(block_with("own-trainer.md", "with h5py.File(path) as file"), "own-trainer.md", "exec"), names)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Detected call of `lr_scheduler.step", category=UserWarning)
        progress = names["load"](tmp_path / "c.h5")
    assert progress == {"epoch": 6} and names["state"]() == [resumed.model, resumed.optimizer, resumed.scheduler]
    assert resumed.train(range(6, 9)) == expected
    resumed.assert_equals(whole)


def test_scheduler_that_follows_the_training_resumes_with_its_numbers(tmp_path: Path) -> None:
    def plateau(optimizer: torch.optim.Optimizer) -> Any:
        return lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, threshold=0.3, patience=1, cooldown=1)

    numbers = ("best", "num_bad_epochs", "cooldown_counter")
    whole = Training(plateau)
    whole.train(range(6))
    own = {number: getattr(whole.scheduler, number) for number in numbers}
    bitrift.torch.save(tmp_path / "c.h5", whole.model, whole.optimizer, epoch=6, **own)
    expected = whole.train(range(6, 14))
    assert len({rate for _, rate in expected}) > 1
    resumed = Training(plateau)
    progress = bitrift.torch.load_into(tmp_path / "c.h5", resumed.model, resumed.optimizer)
    assert own["num_bad_epochs"] + own["cooldown_counter"] > 0
    for number in numbers:
        setattr(resumed.scheduler, number, progress[number])
    assert resumed.train(range(6, 14)) == expected


def test_save_and_load_into_of_the_python_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    statements = ast.parse(block_with("python.md", 'load_into("hurt.h5"')).body
    whole = Training()
    whole.train(range(20))
    saving, loading = statements[:2], [statements[0], *statements[2:]]
    exec(compile(ast.Module(saving, []), "python.md", "exec"), whole.names())
    (tmp_path / "epoch-20.h5").rename("hurt.h5")
    expected = whole.train(range(20, 22))
    resumed = Training()
    names = resumed.names()
    exec(compile(ast.Module(loading, []), "python.md", "exec"), names)
    assert names["progress"] == {"epoch": 20}
    assert resumed.train(range(20, 22)) == expected
    resumed.assert_equals(whole)


def test_everything_that_the_python_page_names_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept, saving, _, loading = ast.parse(block_with("python.md", '"ema": ema')).body

    def training() -> tuple[Training, dict[str, Any]]:
        one = Training(SCHEDULERS["CosineAnnealingLR"])
        data = torch.utils.data.TensorDataset(torch.arange(12))
        own = {
            "ema": torch.optim.swa_utils.AveragedModel(one.model),
            "scaler": torch.amp.GradScaler("cpu"),
            "loader": torch.utils.data.DataLoader(data, shuffle=True, generator=torch.Generator().manual_seed(7)),
        }
        return one, one.names() | own

    whole, names = training()
    whole.train(range(5))
    names["ema"].update_parameters(whole.model)
    list(names["loader"])
    exec(compile(ast.Module([kept, saving], []), "python.md", "exec"), names)
    expected = whole.train(range(5, 8)), [batch.item() for (batch,) in names["loader"]], torch.rand(1)
    resumed, others = training()
    exec(compile(ast.Module([kept, loading], []), "python.md", "exec"), others)
    assert others["progress"] == {"epoch": 20}
    assert (resumed.train(range(5, 8)), [batch.item() for (batch,) in others["loader"]], torch.rand(1)) == expected
    resumed.assert_equals(whole)
    assert int(others["ema"].n_averaged) == 1


def test_file_of_torch_save_converted_by_from_pt_resumes(tmp_path: Path) -> None:
    whole = Training()
    whole.train(range(4))
    content = {"model": whole.model.state_dict(), "optimizer": whole.optimizer.state_dict(), "epoch": 4}
    torch.save(content, tmp_path / "c.pt")
    assert bitrift.torch.from_pt(tmp_path / "c.pt", tmp_path / "c.h5") == []
    expected = whole.train(range(4, 6))
    resumed = Training()
    assert bitrift.torch.load_into(tmp_path / "c.h5", resumed.model, resumed.optimizer) == {"epoch": 4}
    assert resumed.train(range(4, 6)) == expected
    resumed.assert_equals(whole)
