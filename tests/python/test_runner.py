"""`bitrift.runner`: runs of a script are equal bit for bit, whatever its process did before."""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bitrift
import bitrift.runner
import bitrift.torch
import h5py
import numpy as np
import pytest
import torch
from bitrift.runner.serving import Request, Script, Trainer
from bitrift.runner.state import Snapshot, digest
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "own-trainer"


class Study:
    """A small training with everything that a process could keep: dropout, BatchNorm, Adam, a scheduler, an order."""

    def __init__(self, place: Path, **changes: Any) -> None:
        torch.manual_seed(3)
        x = torch.randn(48, 6)
        data = TensorDataset(x, (x.sum(1) > 0).long())
        layers = [torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 2)]
        self.model = torch.nn.Sequential(*layers)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.5)
        self.loader = DataLoader(data, batch_size=16, shuffle=True)
        self.data, self.order = data, list[float]()
        self.base = place / "base.h5"
        for _ in self.train_epoch():
            pass
        bitrift.torch.save(self.base, self.model, self.optimizer, epoch=1)
        parts = [self.model, self.optimizer, self.schedule]
        script: dict[str, Any] = {"train_epoch": self.train_epoch, "evaluate": self.evaluate, "state": lambda: parts}
        script["load"] = lambda path: bitrift.torch.load_into(path, self.model, self.optimizer)
        self.trainer = Trainer(Script(**(script | changes)))

    def train_epoch(self) -> Iterator[float]:
        self.model.train()
        for x, y in self.loader:
            self.order.append(x.sum().item())
            loss = torch.nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            yield loss.item()
            self.optimizer.zero_grad()  # so late that a run that ends before it leaves gradients behind
        self.schedule.step()

    def evaluate(self) -> tuple[float, float]:
        self.model.eval()
        with torch.no_grad():
            logits = self.model(self.data.tensors[0])
        right = (logits.argmax(1) == self.data.tensors[1]).float().mean()
        return torch.nn.functional.cross_entropy(logits, self.data.tensors[1]).item(), right.item()

    def run(self, file: Path | None = None, epochs: int = 1, seed: int = 0) -> dict[str, Any]:
        result = self.trainer.run(Request(str(file or self.base), epochs, seed))
        result.pop("seconds")
        return result


def altered(base: Path, tensor: str, value: float) -> Path:
    """A copy in which every element of a tensor has this value."""
    copy = base.with_name(tensor.replace("/", "-") + ".h5")
    copy.write_bytes(base.read_bytes())
    with h5py.File(copy, "r+") as file:
        file[tensor][...] = np.full(file[tensor].shape, value)
    return copy


def test_runs_are_equal_whatever_ran_before(tmp_path: Path) -> None:
    study = Study(tmp_path)
    first = study.run(epochs=2)
    assert first["status"] == "done" and first["steps"] == 6 and first["nonfinite_state"] is False
    assert [one["epoch"] for one in first["replicas"][0]] == [2, 3]
    assert study.run(epochs=2) == first
    other = study.run(epochs=2, seed=9)
    assert other["final_digest"] != first["final_digest"]
    nan = study.run(altered(study.base, "model/0.weight", np.nan))
    assert nan["status"] == "nonfinite" and nan["nonfinite_step"] == 1 and nan["nonfinite_state"] is True
    huge = study.run(altered(study.base, "optimizer/exp_avg/0.weight", 1e30), epochs=0)
    assert huge["status"] == "done" and [one["step"] for one in huge["replicas"][0]] == [0]
    assert study.run(epochs=2) == first and study.run(epochs=2, seed=9) == other


def test_state_that_the_loader_forgets_is_that_of_a_fresh_process(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    fresh = Study(tmp_path, load=lambda path: None)
    study = Study(tmp_path / "other", load=lambda path: None, state=list)  # and what it forgets to name
    expected = [fresh.run(seed=seed) for seed in (1, 2)]
    assert expected[0] != expected[1] and [fresh.run(seed=seed) for seed in (1, 2)] == expected
    again = [study.run(seed=seed) for seed in (1, 2)]
    assert [one["replicas"] for one in again] == [one["replicas"] for one in expected]
    assert [study.run(seed=seed) for seed in (1, 2)] == again


def unreached(study: Study, *tensors: str, **changes: Any) -> list[str] | None:
    """Which of these tensors made no difference to the loaded state when all of them were altered."""
    file = study.base
    for tensor in tensors:
        file = altered(file, tensor, 7.25)
    study.trainer.run(Request(str(file), 0, 0, base=str(study.base), **changes))
    return study.trainer.unreached(list(tensors))


def test_tensor_that_does_not_change_the_loaded_state_is_noticed(tmp_path: Path) -> None:
    study = Study(tmp_path)
    assert unreached(study, "model/0.weight") == unreached(study, "optimizer/exp_avg/0.bias") == []
    assert unreached(study, "progress/epoch") == []  # the number of completed epochs decides about the order
    assert unreached(study) == [] and unreached(study, golden=True) is None
    study.trainer.run(Request(str(study.base), 0))
    assert study.trainer.unreached(["model/0.weight"]) is None


def test_tensor_with_its_own_name_in_the_state_must_differ_itself(tmp_path: Path) -> None:
    def load(path: str) -> None:
        part.model.load_state_dict(model_of(path, "0.bias"))

    part = Study(tmp_path)
    part.trainer = Trainer(Script(load, part.train_epoch, part.evaluate, lambda: {"model": part.model}))
    assert unreached(part, "model/0.bias") == ["model/0.bias"] and unreached(part, "model/0.weight") == []
    assert unreached(part, "model/0.weight", "model/0.bias") == ["model/0.bias"]
    assert unreached(part, "optimizer/exp_avg/0.weight") == ["optimizer/exp_avg/0.weight"]


def model_of(path: str, *zeros: str) -> dict[str, torch.Tensor]:
    """The model's tensors in a file; those with these names are zeros, whatever the file says."""
    with h5py.File(path) as file:
        tensors = {name: torch.as_tensor(value[()]) for name, value in file["model"].items()}
    return {name: torch.zeros_like(value) if name in zeros else value for name, value in tensors.items()}


def test_state_may_have_other_names_types_and_shapes_than_the_file(tmp_path: Path) -> None:
    fused = {"all": torch.zeros(2, 48, dtype=torch.bfloat16)}

    def load(path: str) -> None:
        tensors = model_of(path)
        study.model.load_state_dict(tensors)
        fused["all"][0].copy_(tensors["0.weight"].T.flatten())

    study = Study(tmp_path, load=load, state=lambda: fused)
    assert unreached(study, "model/0.weight") == [] and unreached(study, "model/0.bias") == ["model/0.bias"]


def test_file_that_cannot_be_loaded_is_rejected(tmp_path: Path) -> None:
    study = Study(tmp_path)
    first = study.run()
    (tmp_path / "damaged.h5").write_bytes(study.base.read_bytes()[:2000])
    refused = study.run(tmp_path / "damaged.h5")
    assert refused["status"] == "rejected" and refused["detail"].startswith("OSError: "), refused
    assert study.run() == first


def test_order_follows_from_the_seed_even_with_a_generator_of_its_own(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(77)
    study = Study(tmp_path, shuffle=(generator,))
    study.loader = DataLoader(study.data, batch_size=16, shuffle=True, generator=generator)

    def order(seed: int) -> list[float]:
        study.order.clear()
        study.run(seed=seed)
        return list(study.order)

    assert order(1) == order(1) and order(1) != order(2)
    sampler: DistributedSampler[Any] = DistributedSampler(study.data, num_replicas=2, rank=0)
    plain = DataLoader(study.data, batch_size=16, sampler=sampler)
    (tmp_path / "sampler").mkdir()
    study = Study(tmp_path / "sampler", shuffle=(plain,))
    study.loader = plain
    assert order(1) == order(1) and order(1) != order(2)
    # As Accelerate shards the batches of a loader.
    random_order = torch.utils.data.RandomSampler(study.data, generator=torch.Generator().manual_seed(5))
    batches = torch.utils.data.BatchSampler(random_order, 16, drop_last=False)
    wrapped = DataLoader(study.data, batch_sampler=Wrapped(batches))
    (tmp_path / "wrapped").mkdir()
    study = Study(tmp_path / "wrapped", shuffle=(wrapped,))
    study.loader = wrapped
    assert order(1) == order(1) and order(1) != order(2)


class Wrapped:
    """A sampler of batches that wraps another one."""

    def __init__(self, batch_sampler: torch.utils.data.BatchSampler) -> None:
        self.batch_sampler = batch_sampler

    def __iter__(self) -> Iterator[list[int]]:
        yield from self.batch_sampler

    def __len__(self) -> int:
        return len(self.batch_sampler)


def test_without_a_generator_steps_are_those_of_the_optimizer(tmp_path: Path) -> None:
    study = Study(tmp_path)

    def train_epoch(epoch: int) -> dict[str, float]:
        assert epoch == 1  # one is completed in the base
        losses = list(study.train_epoch())
        return {"train_loss": sum(losses) / len(losses), "train_accuracy": 0.5}

    plain = Study(tmp_path, train_epoch=train_epoch, evaluate=lambda: {"test_loss": 1, "test_accuracy": 0.5})
    study = plain
    result = plain.run()
    assert result["steps"] == 3 and result["replicas"][0][0]["train_accuracy"] == 0.5
    idle = Study(tmp_path, train_epoch=lambda: None)
    with pytest.raises(ValueError, match=r"took no step of a torch\.optim\.Optimizer"):
        idle.trainer.run(Request(str(idle.base), 1, 0, True))
    assert Study(tmp_path, train_epoch=lambda: {"steps": 5}).run()["steps"] == 5


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ({"test_accuracy": 1}, "returned no test_loss"),
        ((), "returned no test_loss"),
        ({"loss": 1, "test_loss": 1, "test_accuracy": 1}, "returned loss"),
    ],
)
def test_metrics_that_are_missing_or_unknown_are_named(tmp_path: Path, found: Any, says: str) -> None:
    with pytest.raises(ValueError) as refusal:
        Study(tmp_path, evaluate=lambda: found).run()
    assert says in str(refusal.value)


@pytest.mark.parametrize("found", [0.5, (0.5,), torch.tensor(0.5), {"test_loss": 0.5}])
def test_accuracy_may_be_absent(tmp_path: Path, found: Any) -> None:
    (evaluation,) = Study(tmp_path, evaluate=lambda: found).run()["replicas"][0]
    assert evaluation["test_loss"] == 0.5 and "test_accuracy" not in evaluation


def test_metrics_must_be_the_same_every_time(tmp_path: Path) -> None:
    answers = iter([(0.5, 0.5), 0.5])
    study = Study(tmp_path, evaluate=lambda: next(answers))
    study.run()
    with pytest.raises(ValueError, match="returned test_loss, and test_accuracy, test_loss before"):
        study.run()


def test_digest_covers_values_names_and_types_and_knows_what_is_not_finite() -> None:
    ones = torch.ones(3)
    seen = {digest({"a": ones})[0], digest({"b": ones})[0], digest({"a": ones.double()})[0], digest({"a": -ones})[0]}
    assert len(seen | {digest([ones, 1.0])[0], digest([ones, 2.0])[0]}) == 6
    large = torch.full((2,), 1e300, dtype=torch.float64)
    assert digest({"a": large})[1] and digest(torch.tensor([True]))[1]
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD([torch.nn.Parameter(ones)], lr=0.1))
    assert plateau.state_dict()["best"] == float("inf") and digest([plateau])[1]
    for bad in (torch.tensor(float("nan")), torch.tensor([1, float("inf")], dtype=torch.bfloat16), np.array([np.nan])):
        assert not digest([bad])[1]


def test_snapshot_brings_back_modes_buffers_gradients_and_arrays() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    hidden = torch.zeros(1)
    model.register_buffer("hidden", hidden, persistent=False)
    array, tensor = np.arange(3.0), torch.zeros(2)
    model[1].eval()
    model[0].bias.requires_grad_(False)
    snapshot = Snapshot({"model": model, "more": [array, (tensor,)]})
    before = digest([model, array, tensor])
    model.train()
    model(torch.randn(4, 2)).sum().backward()
    model[0].bias.requires_grad_(True)
    hidden += 1
    array += 1
    tensor += 1
    snapshot.restore()
    assert digest([model, array, tensor]) == before and hidden == 0
    assert model[0].weight.grad is None and model[0].training and not model[1].training
    assert not model[0].bias.requires_grad


class Codes(torch.Tensor):
    """A tensor that is kept as codes and a scale, like a state of torchao, and cannot be cloned."""

    @staticmethod
    def __new__(cls, codes: torch.Tensor, scale: torch.Tensor) -> Codes:
        return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=scale.dtype)

    def __init__(self, codes: torch.Tensor, scale: torch.Tensor) -> None:
        self.codes, self.scale = codes, scale

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["codes", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, parts: dict[str, torch.Tensor], context: None, size: Any, stride: Any) -> Codes:
        return cls(parts["codes"], parts["scale"])

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:  # type: ignore[override]
        if function is torch.ops.aten.detach.default:
            return cls(arguments[0].codes, arguments[0].scale)
        raise NotImplementedError(function)


def test_tensors_that_are_kept_as_others_are_digested_and_restored() -> None:
    codes = Codes(torch.arange(4, dtype=torch.uint8), torch.ones(2))
    parameter = torch.nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    optimizer.state[parameter]["codes"] = Codes(torch.zeros(4, dtype=torch.uint8), torch.ones(1))
    snapshot = Snapshot({"codes": codes, "optimizer": optimizer})
    before = digest({"codes": codes, "optimizer": optimizer})
    codes.codes[3] = 9
    optimizer.state[parameter]["codes"].scale[0] = 2
    assert digest([codes])[0] != digest([Codes(torch.arange(4, dtype=torch.uint8), torch.ones(2))])[0]
    assert digest({"codes": codes, "optimizer": optimizer}) != before
    snapshot.restore()
    assert codes.codes.tolist() == [0, 1, 2, 3]
    assert digest({"codes": codes, "optimizer": optimizer}) == before and before[1]
    codes.scale[0] = float("inf")
    assert not digest([codes])[1]


def test_snapshot_brings_back_the_shape_of_a_buffer_that_loading_resized() -> None:
    """Observers of a quantization have no range at first."""
    model = torch.nn.Linear(2, 2)
    model.register_buffer("range", torch.zeros(0))
    snapshot = Snapshot(model)
    assert isinstance(model.range, torch.Tensor)
    model.range.resize_(3).fill_(7)
    snapshot.restore()
    assert model.range.shape == (0,)


class Computed:
    """Its state holds a tensor that is the result of a computation."""

    def __init__(self, refuses: bool) -> None:
        self.scale, self.refuses = torch.ones(2, requires_grad=True), refuses
        self.product = self.scale * 3

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"product": self.product}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        self.product = state["other" if self.refuses else "product"]


def test_snapshot_of_other_objects() -> None:
    kept = Computed(refuses=False)
    snapshot = Snapshot([kept])
    kept.product = torch.zeros(2)
    snapshot.restore()
    assert kept.product.tolist() == [3, 3]
    kept.product += 1
    snapshot.restore()
    assert kept.product.tolist() == [3, 3]
    with pytest.raises(TypeError, match="of Computed does not take what its state_dict"):
        Snapshot([Computed(refuses=True)]).restore()


def test_serve_returns_outside_of_a_campaign_and_wants_a_model() -> None:
    bitrift.runner.serve(model=torch.nn.Linear(1, 1), train_epoch=lambda: None, evaluate=lambda: (0, 0))
    with pytest.raises(TypeError, match="give model"):
        bitrift.runner.serve(load=lambda path: None, train_epoch=lambda: None, evaluate=lambda: (0, 0))


# --- the command line ---


def python(*words: object, place: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"BITRIFT_DATA_DIR": str(ROOT / "data")}
    return subprocess.run(
        [sys.executable, *map(str, words)], cwd=place, env=environment, capture_output=True, text=True, check=False
    )


def changed_lines() -> list[str]:
    before, after = ((EXAMPLE / name).read_text().splitlines() for name in ("cnn_before.py", "cnn.py"))
    lines = difflib.unified_diff(before, after, n=0, lineterm="")
    return [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]


def test_script_of_40_lines_becomes_a_campaign_by_at_most_10_lines() -> None:
    changed = changed_lines()
    assert 0 < len(changed) <= 10
    page = (ROOT / "docs" / "own-trainer.md").read_text()
    assert all(line in page for line in changed), "docs/own-trainer.md shows another diff"


@pytest.mark.parametrize("part", ["def evaluate(self)", 'better={"perplexity": "lower"},'])
def test_the_page_shows_how_the_example_names_a_metric(part: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "own-trainer.md").read_text(), re.DOTALL)
    (block,) = (one for one in blocks if part in one)
    assert block in (EXAMPLE / "language_model.py").read_text()


def test_script_trains_as_before_and_answers_a_single_run(tmp_path: Path) -> None:
    for name in ("cnn_before", "cnn"):
        done = python(EXAMPLE / f"{name}.py", place=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1].startswith("4 0.")
    words = ("-m", "bitrift.runner", EXAMPLE / "cnn.py", "--checkpoint", "digits.h5")
    result = json.loads(python(*words, place=tmp_path).stdout)
    assert result["seconds"] > 0 and result["steps"] == 23 and result["replicas"][0][0]["epoch"] == 6


def test_mistakes_are_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\nprint('own', sys.argv[1:])\ndef main(): pass\n")
    (tmp_path / "digits.h5").touch()
    run, file = ("-m", "bitrift.runner"), ("--checkpoint", "digits.h5")
    whole = (*run, "train.py", *file)
    cases = [
        ((*run, "train.py"), "give --checkpoint FILE"),
        ((*run, "none.py", *file), "none.py: no such file"),
        ((*run, "train.py", "--checkpoint", "none.h5"), "none.h5: no such file or folder"),
        ((*whole, "--", "-x"), "train.py ended without a call of bitrift.runner.serve"),
        ((*run, "train.py:other", *file), "train.py has no function other()"),
        ((*whole, "--epochs", "-1"), "--epochs must be at least 0"),
    ]
    for words, says in cases:
        done = python(*words, place=tmp_path)
        assert done.returncode == 2 and says in done.stderr and done.stdout == "", done.stderr
        assert "'-x'" not in done.stderr or "own ['-x']" in done.stderr


def test_metrics_of_a_script_stand_under_their_direction(tmp_path: Path) -> None:
    better = {"error": "lower", "right": "higher"}
    values = {"error": -0.5, "right": 31}
    study = Study(tmp_path, evaluate=lambda: values, better=better)
    evaluation = study.run()["replicas"][0][0]
    assert evaluation["lower_is_better"] == {"error": -0.5}
    assert evaluation["higher_is_better"] == {"right": 31.0}
    assert "test_loss" not in evaluation
    values["error"] = float("inf")
    assert study.run()["status"] == "nonfinite"
    values["fid"] = 3
    with pytest.raises(ValueError, match=r'returned fid; .* better=\{"fid": "lower"\}'):
        study.run()


@pytest.mark.parametrize("better", [{"test_loss": "lower"}, {"a b": "lower"}, {"bleu": "up"}])
def test_a_direction_that_cannot_be_judged_is_refused(better: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"serve\(\): better"):
        bitrift.runner.serve(model=torch.nn.Linear(1, 1), train_epoch=print, evaluate=print, better=better)
