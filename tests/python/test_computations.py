"""Campaigns that strike numbers in a user's own script: their population, and each of their rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bitrift
import bitrift.torch
import pytest
import torch
from bitrift.runner.computations import computations
from bitrift.runner.serving import Script, Trainer, seed_all
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

# Three micro-batches a step, of which the epoch's last step has two. One layer is used twice, one changes its input in
# place, two return what another returned, one is used in two places of different sizes, and one parameter is frozen.
SCRIPT = """
import bitrift.runner, bitrift.torch
import torch
from torch.nn.functional import cross_entropy

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.relu, self.shared = torch.nn.Linear(6, 8), torch.nn.ReLU(inplace=True), torch.nn.Linear(8, 8)
        self.flat, self.nothing, self.last = torch.nn.Flatten(), torch.nn.Identity(), torch.nn.Linear(8, 3)
        self.anywhere = torch.nn.Tanh()

    def forward(self, x):
        x = self.relu(self.first(x))
        x = self.shared(self.anywhere(self.shared(x)))
        return self.anywhere(self.last(self.nothing(self.flat(x.view(-1, 2, 4)))))

torch.manual_seed(3)
model = Net()
model.last.bias.requires_grad_(False)
optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1, momentum=0.9)
x = torch.randn(44, 6, generator=torch.Generator().manual_seed(1))
y = (x.sum(1) > 0).long() + (x[:, 0] > 1)

def train():
    order = torch.randperm(44)
    for first in range(0, 44, 12):
        optimizer.zero_grad()
        for part in order[first : first + 12].split(4):
            loss = cross_entropy(model(x[part]), y[part])
            loss.backward()
        optimizer.step()
    return loss.item()

def evaluate():  # keeps gradients
    return cross_entropy(model(x), y).item()
"""
SERVES = """
bitrift.runner.serve(model=model, optimizer=optimizer, train_epoch=train, evaluate=evaluate)
for _ in range(20):
    train()
bitrift.torch.save("base.h5", model, optimizer, epoch=20)
"""
STEPS = 4
PASSES = {"first": 3, "relu": 3, "shared": 6, "last": 3}
"""Forward passes of each layer in a full step."""
EPOCHS = 2
SPEC: dict[str, Any] = {
    "name": "script",
    "seed": 5,
    "base": {"checkpoint": "base.h5"},
    "resume": {"epochs": EPOCHS},
    "runner": {"python": "train.py"},
    "arms": [{"name": "serial", "parallel": {"kind": "serial"}}],
    "strata": {"compute": {"fields": ["sign", "exponent_msb"], "lasting": 2, "every": 3}},
    "trials_per_stratum": 5,
    "controls": {"held_out": 4, "jitter": 4, "envelope": 20},
}


def bitrift_program() -> str:
    return str(Path(os.environ["BITRIFT_BIN_DIR"]) / "bitrift")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("script")
    (place / "train.py").write_text(SCRIPT + SERVES)
    subprocess.run([sys.executable, "train.py"], cwd=place, check=True, timeout=120)
    (place / "spec.json").write_text(json.dumps(SPEC))
    command = [bitrift_program(), "campaign", "run", "spec.json", "-o", "out", "--workers", "2"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return place


STORED = {"compute": {"fields": ["exponent_msb", "mantissa"], "sites": ["parameter", "update"], "paired": True}}


@pytest.fixture(scope="module")
def stored(folder: Path) -> Path:
    """A campaign over the same script that strikes parameters, too."""
    (folder / "stored.json").write_text(json.dumps(SPEC | {"strata": STORED}))
    command = [bitrift_program(), "campaign", "run", "stored.json", "-o", "stored"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    return folder / "stored"


def rows_of(folder: Path, out: str = "out") -> list[dict[str, Any]]:
    lines = (folder / out / "trials.jsonl").read_text().splitlines()
    rows = [json.loads(line).get("row", {}) for line in lines]
    return [row for row in rows if row.get("kind") == "trial"]


def known_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "out" / "campaign.json").read_text())["spec"]["strata"]["compute"]["computations"]


class Loop:
    """The script's own objects, for hooks of plain PyTorch."""

    def __init__(self) -> None:
        names: dict[str, Any] = {}
        exec(SCRIPT, names)
        self.model, self.optimizer = names["model"], names["optimizer"]
        self.train: Callable[[], float] = names["train"]
        self.evaluate: Callable[[], float] = names["evaluate"]


def test_the_population_is_what_plain_hooks_count(folder: Path) -> None:
    loop = Loop()
    outputs: dict[tuple[str, int], list[int]] = {}  # by layer and step
    step = [1]
    for name in PASSES:

        def count(module: Any, inputs: Any, output: torch.Tensor, name: str = name) -> None:
            outputs.setdefault((name, step[0]), []).append(output.numel())

        loop.model.get_submodule(name).register_forward_hook(count)
    loop.optimizer.register_step_post_hook(lambda *_: step.__setitem__(0, step[0] + 1))
    loop.train()
    full = range(1, STEPS)
    assert [len(outputs["first", number]) for number in range(1, STEPS + 1)] == [3, 3, 3, 2]
    layers = sum(sum(outputs[name, number]) for name in PASSES for number in full)
    parameters = sum(one.numel() for one in loop.model.parameters() if one.requires_grad) * len(full)
    sizes = {row["id"]["stratum"].partition(".")[0]: row["stratum_bits"] for row in rows_of(folder)}
    assert sizes == {
        "activation": layers * EPOCHS,
        "gradient": layers * EPOCHS,
        "weight_gradient": parameters * EPOCHS,
        "update": parameters * EPOCHS,
    }
    known = known_of(folder)
    assert (known["steps_per_epoch"], known["short_steps"]) == (STEPS, 1)
    assert {one["name"]: one["passes"] for one in known["layers"]} == PASSES


class Struck(Loop):
    """The loop with hooks that flip the bit of one fault."""

    def __init__(self, fault: dict[str, Any]) -> None:
        super().__init__()
        self.fault, self.step, self.calls, self.times = fault, 1, 0, 0
        site, tensor = fault["site"], fault["tensor"]
        self.training = False
        if site in ("activation", "gradient"):
            self.model.get_submodule(tensor).register_forward_hook(self.output)
        else:
            self.value = self.model.get_parameter(tensor)
        if site == "weight_gradient":
            self.value.register_post_accumulate_grad_hook(self.accumulated)
        if site == "parameter":
            self.model.register_forward_pre_hook(self.enter)
        self.optimizer.register_step_pre_hook(self.keep)
        self.optimizer.register_step_post_hook(self.took)

    def due(self) -> bool:
        # Steps 4 and 8 are short; their tensors have the sizes of the others.
        turn, rest = divmod(self.step - self.fault["step"], self.fault.get("every", 1))
        return turn in range(self.fault.get("lasting", 1)) and rest == 0

    def flipped(self, values: torch.Tensor) -> torch.Tensor:
        array = values.detach().numpy().copy()
        array.reshape(-1).view("uint32")[self.fault["element"]] ^= 1 << self.fault["bit"]
        self.times += 1
        return torch.from_numpy(array)

    def output(self, module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor | None:
        if not self.training:
            return None
        self.calls += 1
        if not self.due() or self.calls != self.fault["micro_batch"] + 1:
            return None
        if self.fault["site"] == "gradient":
            output.register_hook(self.flipped)
            return None
        return Replaced.apply(output, self.flipped)

    def enter(self, *_: Any) -> None:
        if self.training and self.due() and self.times == 0:
            self.value.data.copy_(self.flipped(self.value))

    def accumulated(self, parameter: torch.Tensor) -> None:
        self.calls += 1
        if self.due() and self.calls == 1 and parameter.grad is not None:
            parameter.grad.copy_(self.flipped(parameter.grad))

    def keep(self, *_: Any) -> None:
        if self.fault["site"] == "update":
            self.before = self.value.detach().clone()

    def took(self, *_: Any) -> None:
        if self.fault["site"] == "update" and self.due():
            place = self.fault["element"]
            added = self.flipped(self.value.detach() - self.before).reshape(-1)
            self.value.data.view(-1)[place] = self.before.view(-1)[place] + added[place]
        self.step += 1
        self.calls = 0


class Replaced(torch.autograd.Function):
    """Other values, and the same gradient."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, other: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        return other(values)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return gradients[0], None


def test_each_row_is_what_plain_hooks_give(folder: Path) -> None:
    rows = rows_of(folder)
    assert len(rows) == 8 * SPEC["trials_per_stratum"]
    check_rows(folder, rows)


def test_a_parameter_and_its_update_are_struck_at_the_same_place(folder: Path, stored: Path) -> None:
    rows = rows_of(folder, stored.name)
    assert len(rows) == 4 * SPEC["trials_per_stratum"]
    check_rows(folder, rows)
    places: dict[str, dict[tuple[str, int], dict[str, Any]]] = {"parameter": {}, "update": {}}
    for row in rows:
        site, field = row["id"]["stratum"].split(".")
        places[site][field, row["id"]["draw"]] = row["faults"][0]["compute"] | {"site": ""}
    assert len(places["update"]) == 2 * SPEC["trials_per_stratum"] and places["parameter"] == places["update"]


def check_rows(folder: Path, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        (fault,) = (one["compute"] for one in row["faults"])
        (altered,) = row["result"]["altered_values"]
        assert row["landed"] and altered["compute"] == fault and fault["step"] not in (STEPS, 2 * STEPS)
        loop = Struck({"micro_batch": 0} | fault)
        bitrift.torch.load_into(folder / "base.h5", loop.model, loop.optimizer)
        found = []
        for epoch in range(20, 20 + EPOCHS):
            seed_all("epoch", 0, epoch)
            loop.training = True
            loop.train()
            loop.training = False
            found.append(loop.evaluate())
            if found[-1] != found[-1]:
                break
        told = [float(one["test_loss"]) for one in row["result"]["replicas"][0]]
        assert repr(told) == repr(found), fault
        assert altered["times"] == loop.times, fault


def script_of(train: Callable[[], Any], model: torch.nn.Module, optimizer: Any = None) -> Trainer:
    return Trainer(
        Script(
            train_epoch=train,
            evaluate=lambda: 0.0,
            state=lambda: {"model": model, "optimizer": optimizer},
            load=lambda path: None,
        )
    )


def lengths(*rows: int) -> Trainer:
    """A script whose steps have batches of these sizes."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for count in rows:
            F.cross_entropy(model(torch.ones(count, 4)), torch.zeros(count).long()).backward()
            optimizer.step()

    return script_of(train, model, optimizer)


def test_batches_of_different_sizes_are_refused_unless_they_are_the_last() -> None:
    assert computations(lengths(8, 8, 8), "")["layers"] == [{"name": "0", "elements": 16, "dtype": "float32"}]
    assert computations(lengths(8, 8, 3), "")["short_steps"] == 1
    with pytest.raises(ValueError, match="step 2 of an epoch computes other tensors than step 1: layer 0 has 14 elem"):
        computations(lengths(8, 7, 8), "")
    with pytest.raises(ValueError, match="pad sequences to one length"):
        computations(lengths(8, 7, 7), "")


def test_optimizers_of_one_model_that_take_turns_are_refused() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Linear(2, 2))
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in model]

    def train() -> None:
        for _ in range(2):
            model[1](model[0](torch.ones(3, 4)).detach()).sum().backward()
            optimizers[1].step()
            model(torch.ones(3, 4)).sum().backward()
            optimizers[0].step()

    says = "layer 0 has 6 elements of float32, and 6 elements of float32 without a gradient before.*one model step"
    with pytest.raises(ValueError, match=says):
        computations(script_of(train, model, optimizers), "")


class Rivals:
    """A generator, and a critic that is trained several times for each of its steps."""

    def __init__(self, times: int) -> None:
        torch.manual_seed(1)
        self.times = times
        self.generator, self.critic = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)
        self.models = {"generator": self.generator, "critic": self.critic}
        self.optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in self.models.values()]
        self.state = {"models": self.models, "optimizers": self.optimizers}

    def trainer(self, state: Any) -> Trainer:
        return Trainer(
            Script(train_epoch=self.train, evaluate=lambda: 0.0, state=lambda: state, load=lambda path: None)
        )

    def train(self) -> None:
        for _ in range(4):
            for _ in range(self.times):
                self.optimizers[1].zero_grad()
                fake = self.generator(torch.ones(5, 2)).detach()
                (self.critic(torch.zeros(5, 3)).mean() - self.critic(fake).mean()).backward()
                self.optimizers[1].step()
            self.optimizers[0].zero_grad()
            self.critic(self.generator(torch.ones(5, 2))).mean().backward()
            self.optimizers[0].step()


@pytest.mark.parametrize("times", [1, 3])
def test_a_step_of_rivals_is_a_turn_of_each(times: int) -> None:
    rivals = Rivals(times)
    trainer = rivals.trainer(rivals.state)
    found = computations(trainer, "")
    assert found["steps_per_epoch"] == 4 and "short_steps" not in found
    assert found["layers"] == [
        {"name": "models.generator", "elements": 15, "dtype": "float32", "passes": times + 1, "differentiable": False},
        {"name": "models.critic", "elements": 5, "dtype": "float32", "passes": 2 * times + 1},
    ]
    assert [one["elements"] for one in found["parameters"]] == [6, 3, 3, 1]
    assert not any("trained" in one for one in found["parameters"])


def test_a_model_whose_optimizer_never_steps_is_refused() -> None:
    rivals = Rivals(1)
    other = torch.nn.Linear(2, 2)
    state = {"all": [rivals.state, other, torch.optim.SGD(other.parameters(), lr=0.1)]}
    trainer = rivals.trainer(state)
    with pytest.raises(ValueError, match="an optimizer of its state takes no step in an epoch"):
        computations(trainer, "")


def test_optimizers_that_step_together_take_one_step() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Linear(2, 2))
    optimizers = [torch.optim.SGD(model[0].parameters(), lr=0.1), torch.optim.Adam(model[1].parameters())]

    def train() -> None:
        for _ in range(3):
            for optimizer in optimizers:
                optimizer.zero_grad()
            model(torch.ones(3, 4)).sum().backward()
            for optimizer in optimizers:
                optimizer.step()

    found = computations(script_of(train, model, optimizers), "")
    assert found["steps_per_epoch"] == 3
    assert [one["name"] for one in found["parameters"]] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert all(one.get("trained", True) for one in found["parameters"])


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_checkpointing_computes_again_does_not_count(reentrant: bool) -> None:
    """Its first forward pass does, unless it runs without gradients."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(2):
            inner = checkpoint(model[1], model[0](torch.ones(3, 4)), use_reentrant=reentrant)
            model[2](inner).sum().backward()
            optimizer.step()

    layers = computations(script_of(train, model, optimizer), "")["layers"]
    sizes = [("0", 12), ("2", 6)] if reentrant else [("0", 12), ("1", 12), ("2", 6)]
    assert [(one.pop("name"), one.pop("elements")) for one in layers] == sizes
    assert layers == len(sizes) * [{"dtype": "float32"}]  # one pass each, with a gradient


def test_compiled_code_is_refused() -> None:
    """In a process of its own: this one may have compiled something before."""
    script = """
import torch
from bitrift.runner.computations import computations
from test_computations import script_of
model = torch.nn.Sequential(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
fast = torch.compile(model, backend="eager")
def train():
    fast(torch.ones(3, 4)).sum().backward()
    optimizer.step()
try:
    print(len(computations(script_of(train, model, optimizer), "")["layers"]))
except ValueError as error:
    print(error)
"""
    for environment, says in (({}, "TORCHDYNAMO_DISABLE=1"), ({"TORCHDYNAMO_DISABLE": "1"}, "1\n")):
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=Path(__file__).parent,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert says in done.stdout and ("compiled" in done.stdout) == (not environment), done


def test_steps_that_no_optimizer_takes_are_refused() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 2))
    with pytest.raises(ValueError, match="took no step of a torch"):
        computations(script_of(lambda: {"steps": 3}, model), "")


def test_what_bitrift_cannot_strike_is_left_out() -> None:
    """Tokens, sparse gradients, losses, and changes of parameters that no optimizer updates."""
    embed, spare, last = torch.nn.Embedding(5, 4, sparse=True), torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)
    loss = torch.nn.CrossEntropyLoss()
    model = torch.nn.ModuleDict({"embed": embed, "spare": spare, "last": last, "loss": loss})
    spare.bias.requires_grad_(False)
    optimizer = torch.optim.SGD([*embed.parameters(), *last.parameters()], lr=0.1)

    def train() -> None:
        for _ in range(2):
            loss(last(spare(embed(torch.arange(5)))), torch.zeros(5).long()).backward()
            with torch.no_grad():
                last(torch.ones(1, 4))
            optimizer.step()

    found = computations(script_of(train, model, optimizer), "")
    trained = {one["name"]: one.get("trained", True) for one in found["parameters"]}
    frozen = {"embed.weight": False, "spare.weight": False, "spare.bias": False}
    assert trained == frozen | {"last.weight": True, "last.bias": True}
    assert [(one["name"], one["elements"]) for one in found["layers"]] == [("embed", 20), ("spare", 20), ("last", 10)]


def test_a_script_that_cannot_be_measured_is_refused_in_one_line(folder: Path) -> None:
    (folder / "odd.py").write_text((SCRIPT + SERVES).replace("split(4)", "split(4 + first // 12)"))
    (folder / "odd.json").write_text(json.dumps(SPEC | {"runner": {"python": "odd.py"}}))
    command = [bitrift_program(), "campaign", "run", "odd.json", "-o", "odd"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2 and not (folder / "odd").exists()
    lines = [line for line in done.stderr.splitlines() if "error" in line]
    assert len(lines) == 1 and "arm 'serial': the script does not show which numbers a step computes" in lines[0]
