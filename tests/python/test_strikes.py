"""Numbers that are struck while a script computes them: what it ends with is what hooks in its own loop would give."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import bitrift.torch
import pytest
import torch
from bitrift import _core
from bitrift.errors import BadInput
from bitrift.runner.__main__ import faults_of
from bitrift.runner.serving import Request, Script, Trainer
from bitrift.runner.strikes import Fault, Strikes
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[2]


def fault_of(text: str) -> Fault:
    return Fault.of(json.loads(_core.compute_fault(text)))


def numbers(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Study:
    """Three steps an epoch of two micro-batches, momentum, and clipped gradients."""

    def __init__(self, dtype: torch.dtype) -> None:
        torch.manual_seed(3)
        self.first, self.tanh, self.last = torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)
        self.model = torch.nn.Sequential(self.first, self.tanh, self.last).to(dtype)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5, momentum=0.9)
        self.x, self.y = numbers(1, 48, 6).to(dtype), torch.arange(48) % 3
        self.losses: list[float] = []

    def train_epoch(self) -> float:
        for first in range(0, 48, 16):
            self.optimizer.zero_grad()
            for part in (slice(first, first + 8), slice(first + 8, first + 16)):
                loss = F.cross_entropy(self.model(self.x[part]).float(), self.y[part])
                loss.backward()
                self.losses.append(loss.item())
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
        return self.losses[-1]

    def evaluate(self) -> float:
        with torch.no_grad():
            return F.cross_entropy(self.model(self.x).float(), self.y).item()

    def run(self, base: Path, *texts: str) -> dict[str, Any]:
        trainer = Trainer(
            Script(
                train_epoch=self.train_epoch,
                evaluate=self.evaluate,
                state=lambda: {"model": self.model, "optimizer": self.optimizer},
                load=lambda path: bitrift.torch.load_into(path, self.model, self.optimizer),
            )
        )
        self.losses.clear()
        return trainer.run(Request(str(base), 2, strikes=tuple(fault_of(text) for text in texts)))


class Expected(Study):
    """The same loop with the flip written into it. The fault strikes in step 4, and in step 6 if it lasts."""

    def __init__(self, dtype: torch.dtype, fault: Fault, base: Path) -> None:
        super().__init__(dtype)
        bitrift.torch.load_into(base, self.model, self.optimizer)
        self.fault, self.step, self.seen = fault, 0, dict[str, Any]()

    def flip(self, values: torch.Tensor) -> None:
        integer = {8: torch.int64, 4: torch.int32, 2: torch.int16}[values.element_size()]
        for place in range(self.fault.element, self.fault.element + self.fault.elements):
            flat = values.view(-1)
            old = flat[place].clone()
            width = 8 * values.element_size()
            mask = 1 << self.fault.bit
            mask = mask - (1 << width) if self.fault.bit == width - 1 else mask
            flat[place] = (old.view(integer) ^ mask).view(values.dtype) if self.fault.effect == "flip" else 0
            if not self.seen:
                texts = [f"0x{int(one.view(integer)) % (1 << width):0{width // 4}x}" for one in (old, flat[place])]
                self.seen = {"old": texts[0], "new": texts[1], "times": 0}
        self.seen["times"] += 1

    def train_epoch(self) -> float:
        fault = self.fault
        last = self.last
        for first in range(0, 48, 16):
            self.step += 1
            due = fault.strikes(self.step)
            self.optimizer.zero_grad()
            if due and fault.site == "parameter":
                self.flip(last.weight.data)
            for micro, part in enumerate((slice(first, first + 8), slice(first + 8, first + 16))):
                here = due and micro == fault.micro_batch
                hidden = self.tanh(self.first(self.x[part]))
                if here and fault.site == "activation":
                    hidden = hidden.clone()
                    self.flip(hidden.data)
                if here and fault.site == "gradient":
                    hidden.register_hook(self.gradient)
                loss = F.cross_entropy(last(hidden).float(), self.y[part])
                loss.backward()
                if here and fault.site == "weight_gradient":
                    assert last.weight.grad is not None
                    self.flip(last.weight.grad)
                self.losses.append(loss.item())
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            before = last.weight.detach().clone()
            self.optimizer.step()
            if due and fault.site == "update":
                added = last.weight.detach() - before
                self.flip(added)
                for place in range(fault.element, fault.element + fault.elements):
                    last.weight.data.view(-1)[place] = before.view(-1)[place] + added.view(-1)[place]
        return self.losses[-1]

    def gradient(self, gradient: torch.Tensor) -> torch.Tensor:
        altered = gradient.clone()
        self.flip(altered)
        return altered


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "text",
    [
        "activation:1@4:0.1.17.9",
        "gradient:1@4:0.1.16.zero+2/2*8",
        "update:2.weight@4:0.0.5.zero*4",
        "activation:1@4:0.0.17.15+2/2*3",
        "gradient:1@4:0.1.30.12",
        "weight_gradient:2.weight@4:0.0.5.13+permanent/2",
        "update:2.weight@4:0.0.7.14*2",
        "parameter:2.weight@4:0.0.7.12*2",
    ],
)
def test_a_struck_script_ends_as_its_loop_with_the_flip_in_it(tmp_path: Path, dtype: torch.dtype, text: str) -> None:
    base = tmp_path / "base.h5"
    made = Study(dtype)
    made.train_epoch()
    bitrift.torch.save(base, made.model, made.optimizer, epoch=1)
    fault = fault_of(text)
    study, expected = Study(dtype), Expected(dtype, fault, base)
    result = study.run(base, text)
    for _ in range(2):
        expected.train_epoch()
    assert study.losses == expected.losses
    ours, theirs = study.model.state_dict(), expected.model.state_dict()
    assert all(ours[name].equal(theirs[name]) for name in theirs)
    (seen,) = result["altered_values"]
    assert seen.pop("compute") == fault.row
    assert seen == {"dtype": str(dtype).removeprefix("torch."), **expected.seen}
    # Nothing of it is left for the next run.
    clean = study.run(base)
    assert "altered_values" not in clean and clean["final_digest"] != result["final_digest"]
    assert study.run(base)["final_digest"] == clean["final_digest"]


class Parts(torch.nn.Module):
    """Modules that return more than a tensor, and one that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.tuple, self.dict, self.shared = Pair(), Named(), torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, count = self.tuple(x)
        return self.shared(self.shared(self.dict(y)["hidden"])) + count


class Pair(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return x * 2, 1


class Named(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"mask": x > 0, "hidden": x * 3}


@pytest.mark.parametrize("text", ["activation:tuple@1:0.0.3.31", "activation:dict@1:0.0.3.31"])
def test_the_first_tensor_of_an_output_is_struck(text: str) -> None:
    torch.manual_seed(1)
    model, x = Parts(), numbers(2, 2, 4)
    clean = model(x)
    with Strikes([fault_of(text)], {"model": model}) as strikes, strikes.epoch():
        with torch.no_grad():
            assert model(x).equal(clean)  # an evaluation
        struck = model(x)
        again = model(x)  # another micro-batch
    assert again.equal(clean) and not struck.equal(clean)
    x[0, 3] *= -1
    assert struck.equal(model(x))
    assert [one["times"] for one in strikes.altered()] == [1]


def test_a_module_that_is_called_twice_counts_its_calls() -> None:
    torch.manual_seed(1)
    model, x = Parts(), numbers(2, 2, 4)
    inner = model.shared(model.dict(model.tuple(x)[0])["hidden"])
    expected = model.shared(inner).detach().clone()
    expected[0, 2] *= -1
    with Strikes([fault_of("activation:shared@1:0.1.2.31")], [model]) as strikes:
        model(x)  # an evaluation that keeps gradients
        with strikes.epoch():
            assert model(x).equal(expected + 1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_whole_numbers_are_set(dtype: torch.dtype) -> None:
    patterns = {"zero": 0.0, "nan": float("nan"), "inf": float("inf")}
    for name, number in patterns.items():
        values = torch.arange(1, 7, dtype=dtype).view(2, 3)
        found = fault_of(f"gradient:0@1:0.0.1.{name}*2/3").flip(values)
        assert values.view(-1)[[0, 2, 3, 5]].tolist() == [1, 3, 4, 6]
        for place in (1, 4):
            value = values.view(-1)[place]
            assert value == number or (value.isnan() and name == "nan")
        integers = {8: torch.int64, 4: torch.int32, 2: torch.int16}[values.element_size()]
        width = 8 * values.element_size()
        pattern = int(torch.tensor(number, dtype=dtype).view(integers)) % (1 << width)
        assert int(found["new"], 16) == pattern


def test_several_bits_of_an_update_are_flipped_in_the_same_update() -> None:
    """Taking the difference again after each flip would round it."""
    torch.manual_seed(3)
    layer = torch.nn.Linear(4, 2)
    model = torch.nn.Sequential(layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    before = layer.weight.detach().clone()
    texts = ["update:0.weight@1:0.0.5.3", "update:0.weight@1:0.0.5.22", "update:0.weight@1:0.0.6.25"]
    faults = [fault_of(text) for text in texts]
    with Strikes(faults, {"model": model, "optimizer": optimizer}) as strikes, strikes.epoch():
        model(torch.linspace(-1, 1, 12).view(3, 4)).square().sum().backward()
        gradient = layer.weight.grad
        assert gradient is not None
        optimizer.step()
    altered = strikes.altered()
    after = before - 1e-4 * gradient
    added = (after - before).view(-1)
    flat = added.view(torch.int32)
    expected = [int(flat[5]), int(flat[5]) ^ 1 << 3, int(flat[5]) ^ 1 << 3 ^ 1 << 22]
    assert [int(one["old"], 16) for one in altered] == [value % (1 << 32) for value in (*expected[:2], int(flat[6]))]
    assert int(altered[1]["new"], 16) == expected[2] % (1 << 32)
    flat[5] = expected[2]
    flat[6] ^= 1 << 25
    for place in (5, 6):
        after.view(-1)[place] = before.view(-1)[place] + added[place]
    assert torch.equal(layer.weight.detach(), after)


SITES = ("activation:0", "gradient:0", "weight_gradient:0.weight", "update:0.weight", "parameter:0.weight")


@pytest.mark.parametrize("site", SITES)
def test_each_of_several_faults_of_one_tensor_strikes_once(site: str) -> None:
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    faults = [fault_of(f"{site}@2:0.0.{place}") for place in ("5.3", "5.22", "7.zero", "0.30")]
    with Strikes(faults, {"model": model, "optimizer": optimizer}) as strikes, strikes.epoch():
        for _ in range(3):
            optimizer.zero_grad()
            for _ in range(2):  # micro-batches
                model(torch.linspace(-1, 1, 12).view(3, 4)).square().sum().backward()
            optimizer.step()
    assert [one["compute"] for one in strikes.altered()] == [fault.row for fault in faults]
    assert [one["times"] for one in strikes.altered()] == [1, 1, 1, 1]


@pytest.mark.parametrize("together", [True, False])
def test_a_fault_strikes_in_its_step_of_several_optimizers(together: bool) -> None:
    """Those that step without a forward pass between them take one step, all others one each."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    optimizers = [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in model]
    step = 2 if together else 4  # of the second optimizer's second time
    faults = [fault_of(f"{site}@{step}:0.0.1.30") for site in ("update:1.weight", "parameter:0.weight", "activation:1")]
    struck: list[int] = []
    with Strikes(faults, {"model": model, "optimizers": optimizers}) as strikes, strikes.epoch():
        for _ in range(3):
            for optimizer in optimizers:
                if optimizer is optimizers[0] or not together:
                    model(torch.linspace(-1, 1, 12).view(3, 4)).square().sum().backward()
                optimizer.step()
                struck.append(len(strikes.altered()))
        assert strikes.taken == (3 if together else 6)
    assert struck == ([0, 0, 2, 3, 3, 3] if together else [0, 0, 0, 3, 3, 3])
    assert [one["times"] for one in strikes.altered()] == [1, 1, 1]


class Wrapped(torch.optim.Optimizer):
    """An optimizer that calls another one, as those of Accelerate do: hooks see the other one."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner = inner

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        return self.inner.param_groups


@pytest.mark.parametrize("wrapped", [False, True])
def test_rivals_are_struck_once_in_a_step(wrapped: bool) -> None:
    """A step ends when both models have been updated; the second one is updated twice."""
    torch.manual_seed(3)
    one, two = torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)
    optimizers = [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in (one, two)]
    places = (
        "update:one.weight",
        "update:two.weight",
        "weight_gradient:two.bias",
        "parameter:one.bias",
        "activation:two",
    )
    faults = [fault_of(f"{place}@2:0.{2 if place.startswith('activation') else 0}.1.30") for place in places]
    struck: list[int] = []
    shown = [Wrapped(one) for one in optimizers] if wrapped else optimizers
    with Strikes(faults, {"one": one, "two": two, "optimizers": shown}) as strikes, strikes.epoch():
        for _ in range(3):
            for optimizer in (optimizers[1], optimizers[1], optimizers[0]):
                two(one(torch.linspace(-1, 1, 12).view(3, 4))).square().sum().backward()
                struck.append(len(strikes.altered()))
                optimizer.step()
        assert strikes.taken == 3
    assert struck == [0, 0, 0, 2, 3, 4, 5, 5, 5]
    assert [one["times"] for one in strikes.altered()] == [1] * 5


def test_names_say_which_of_several_models() -> None:
    one, two = (torch.nn.Sequential(torch.nn.Linear(2, 2)) for _ in range(2))
    fault = [fault_of("update:0.bias@1:0.0.0.1")]
    Strikes(fault, [one])
    Strikes(fault, {"model": one, "ema": two})
    Strikes([fault_of("update:two.0.bias@1:0.0.0.1")], {"model": {"one": one, "two": two}})
    with pytest.raises(BadInput, match=r"no parameter 0.bias; there are one.0.weight, one.0.bias, two.0.weight"):
        Strikes(fault, {"model": {"one": one, "two": two}})


SCRIPT = """
import torch
import bitrift.runner, bitrift.torch

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
model[2].bias.requires_grad_(False)
optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1)
x = torch.randn(12, 4)
y = (x.sum(1) > 0).long()

def train():
    for part in range(0, 12, 4):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x[part:part + 4]), y[part:part + 4])
        loss.backward()
        optimizer.step()
    return loss.item()

def evaluate():
    with torch.no_grad():
        return torch.nn.functional.cross_entropy(model(x), y).item()

bitrift.runner.serve(model=model, optimizer=optimizer, train_epoch=train, evaluate=evaluate)
train()
bitrift.torch.save("base.h5", model, optimizer, epoch=1)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("script")
    (folder / "train.py").write_text(SCRIPT)
    subprocess.run([sys.executable, "train.py"], cwd=folder, check=True, timeout=120)
    return folder


def call(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bitrift.runner", "train.py", "--checkpoint", "base.h5", *words]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120, env=os.environ, check=False)


def test_the_command_strikes_and_says_what_it_did_not_reach(place: Path) -> None:
    done = call(place, "--strike", "activation:0@2:0.0.5.20", "--strike", "update:2.weight@9:0.0.1.3")
    assert done.returncode == 0, done.stderr
    assert "warning: update:2.weight@9:0.0.1.3 was never reached" in done.stderr
    (seen,) = json.loads(done.stdout)["altered_values"]
    assert seen["compute"]["tensor"] == "0" and int(seen["old"], 16) ^ int(seen["new"], 16) == 1 << 20


def test_a_fault_that_does_not_fit_the_script_is_one_line(place: Path) -> None:
    for words, says in (
        (("activation:0@2:0.0.5",), "no '.' after the element; expected SITE:TENSOR@STEP"),
        (("gradient:0@2:0.0.9.32",), "gradient of 0: there is no bit 32 among 32 elements of float32"),
    ):
        done = call(place, *(one for word in words for one in ("--strike", word)))
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert done.stderr.startswith("bitrift.runner: error: --strike: ") and done.stderr.count("\n") == 1, done.stderr
        assert says in done.stderr


@pytest.mark.parametrize(
    "text, says",
    [
        ("activation:conv@1:0.0.5.1", "the script's models have no module conv; there are 0, 1, 2"),
        ("update:2.bias@1:0.0.0.1", "2.bias is not trained: it has no gradient and no update"),
        ("activation:0@1:1.0.5.1", "there is no replica 1; there are 0 to 0"),
        ("activation:0@1:0.0.99.1", "activation of 0: there is no element 99 among 32 elements of float32"),
        ("gradient:0@1:0.0.9.32", "gradient of 0: there is no bit 32 among 32 elements of float32"),
        ("gradient:0@1:0.0.9.3*33", "gradient of 0: there is no group of 33 among 32 elements of float32"),
        ("gradient:0@1:0.0.9.3*4/16", "the stride returns to an element, and flips its bit back"),
    ],
)
def test_what_a_script_does_not_compute_is_refused(text: str, says: str) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    model[2].bias.requires_grad_(False)
    with pytest.raises(BadInput) as caught, Strikes([fault_of(text)], [model]) as strikes, strikes.epoch():
        model(numbers(1, 4, 4)).sum().backward()
    assert says in str(caught.value)


def test_a_fault_that_is_given_twice_is_refused() -> None:
    with pytest.raises(BadInput, match="given twice; leave one out"):
        faults_of(["update:0.bias@1:0.0.0.1"] * 2)


@pytest.mark.parametrize("text", ["activation:0@1:0.0.99.1", "gradient:1@1:0.0.9.40", "activation:pool@1:0.0.9.3"])
def test_in_a_campaign_it_is_no_crash_of_the_training(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The driver sees that nothing was struck, and stops."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    with Strikes([fault_of(text)], [model], in_campaign=True) as strikes, strikes.epoch():
        model(numbers(1, 4, 4)).sum().backward()
    assert strikes.altered() == []
    assert "pool" in text or "there is no" in capsys.readouterr().err
