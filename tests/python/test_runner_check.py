"""`python -m bitrift.runner --check`: each trap of a script is named, with its cure."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bitrift.audit import Zygote

SCRIPT = """
import copy
import bitrift.runner, bitrift.torch, torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
x = torch.randn(96, 8)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
loader = DataLoader(TensorDataset(x, y), 16, shuffle=True)
used = model
count = 0
said = []
def train_epoch():
    for a, b in loader:
        loss = cross_entropy(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
def evaluate():
    with torch.no_grad():
        logits = used(x)
    return cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()
bitrift.runner.serve(model=model, optimizer=optimizer, train_epoch=train_epoch, evaluate=evaluate)
for _ in range(3):
    train_epoch()
bitrift.torch.save("base.h5", model, optimizer, epoch=3)
"""
STEP = "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n"
RETURN = "cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()"
ACCUMULATED = """        global count
        loss.backward()
        count += 1
        if count % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
LOOP = f"""def train_epoch():
    for a, b in loader:
        loss = cross_entropy(model(a), b)
{STEP}"""
# A replay buffer is such an array.
ARRAY = """import numpy
seen = numpy.zeros(4, "f4")
def train_epoch():
    for a, b in loader:
        seen[0] += 1
        loss = cross_entropy(model(a), b) * float(seen[0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
FIRST_USE = "    if not said:\n        said.append(int(torch.randint(9, ())))\n"
BY_HAND = """        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for one in model.parameters():
                one -= 0.1 * one.grad
"""
OWN_LOAD = """def load(path):
    bitrift.torch.load_into(path, model, optimizer)
bitrift.runner.serve(load=load, state=lambda: model, train_epoch=lambda epoch: train_epoch(), """
GENERATOR = "16, shuffle=True, generator=torch.Generator().manual_seed(1))"
# By name: what is replaced by what, and words of the finding and of its cure.
TRAPS: dict[str, tuple[str, str, str, str]] = {
    "swapped metrics": (
        RETURN,
        ", ".join(reversed(RETURN.split(", (", 1))).replace("logits.argmax", "(logits.argmax", 1),
        "the metrics are better when all weights are 0",
        "(test_loss, test_accuracy) in this order",
    ),
    "error rate": (
        "(logits.argmax(1) == y)",
        "(logits.argmax(1) != y)",
        "the accuracy is higher when all weights are 0",
        "not the error rate",
    ),
    "percent": ("mean().item()", "mean().item() * 100", "test_accuracy is 9", "divide it by 100"),
    "a generator": ("16, shuffle=True)", GENERATOR, "differ: ", "pass loader.generator, or the loader that has it"),
    "no shuffling": ("16, shuffle=True)", "16)", "the batches come in the same order", "shuffle the training data"),
    "a counter": (STEP, ACCUMULATED, "one takes 1 steps, the other 2", "the first run changed count"),
    "an array": (LOOP, ARRAY, "differ: ", "the first run changed seen, which"),
    "a first use": (LOOP, LOOP.replace("    for", f"{FIRST_USE}    for"), "differ: ", "only the first run"),
    "no optimizer": (STEP, BY_HAND, "took no step of a torch.optim.Optimizer", "let it return {'steps': N}"),
    "no epoch": (
        "bitrift.runner.serve(model=model, optimizer=optimizer, train_epoch=train_epoch, ",
        OWN_LOAD,
        "load() returns none: every run begins with epoch 0",
        "return it from load()",
    ),
    "a fixed seed": (
        LOOP,
        LOOP.replace("    for", "    torch.manual_seed(1)\n    for"),
        "the batches come in the same order",
        "set no fixed seed there",
    ),
    "another model": (
        "used = model",
        "used = copy.deepcopy(model)",
        "the metrics do not change when all weights are 0",
        "use the model that load() fills",
    ),
    "an operator": (
        "        loss = cross",
        "        a = a.clone().put_(torch.tensor([0]), torch.ones(1))\n        loss = cross",
        "an operator has no deterministic version",
        "replace the operator",
    ),
    "workers": (
        "16, shuffle=True)",
        "16, shuffle=True, num_workers=1, persistent_workers=True)",
        "loader has persistent workers",
        "persistent_workers=False",
    ),
    "output": (
        "def evaluate():\n",
        "def evaluate():\n    said.append('line' * 20000)\n    print(said)\n",
        "the output grows",
        "do not print",
    ),
}


Checked = Callable[[str], tuple[int, str]]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of the script as it is."""
    place = tmp_path_factory.mktemp("base")
    (place / "train.py").write_text(SCRIPT)
    subprocess.run([sys.executable, "train.py"], cwd=place, check=True)
    return place / "base.h5"


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    one = Zygote()
    yield one
    one.close()


@pytest.fixture
def check(base: Path, zygote: Zygote, tmp_path: Path) -> Checked:
    """Checks a script in a fork that need not import PyTorch: the exit code, and what was printed."""

    def run(text: str) -> tuple[int, str]:
        script, log = tmp_path / "train.py", tmp_path / "log"
        script.write_text(text)
        code = zygote.start([str(script), "--checkpoint", str(base), "--check"], 1, log)
        return code, log.read_text()

    return run


def test_a_right_script_has_no_finding(check: Checked) -> None:
    code, printed = check(SCRIPT)
    assert code == 0 and "nothing found that would stop or spoil a campaign" in printed, printed


def with_state(state: str) -> str:
    """The script with load() and state() of its own; the latter returns `state`."""
    load = "load=lambda path: bitrift.torch.load_into(path, model, optimizer)"
    old = "serve(model=model, optimizer=optimizer, "
    assert SCRIPT.count(old) == 1
    return SCRIPT.replace(old, f"serve({load}, state=lambda: {state}, ")


# The check sets all weights to 0, whether state() returns a module, its state_dict() or copies.
@pytest.mark.parametrize(
    "state",
    [
        "[model, optimizer]",
        "{'net': model.state_dict(), 'opt': optimizer.state_dict()}",
        "{name: value.clone() for name, value in model.state_dict().items()}",
    ],
)
def test_a_state_may_hold_models_their_tensors_or_copies(check: Checked, state: str) -> None:
    code, printed = check(with_state(state))
    assert code == 0, printed


AVERAGE = """
class Average:
    def __init__(self):
        self.kept = [one.detach().clone() for one in model.parameters()]
    def state_dict(self):
        return {"decay": 0.9, "kept": self.kept}
    def update(self):
        for kept, one in zip(self.kept, model.parameters()):
            kept.lerp_(one.detach(), 0.1)
average = Average()
def load(path):
    bitrift.torch.load_into(path, model, optimizer)
    for kept, one in zip(average.kept, model.parameters()):
        kept.copy_(one.detach())
"""


@pytest.mark.parametrize("kept", ["average", "average.kept"])
def test_an_average_of_the_weights_is_evaluated(check: Checked, kept: str) -> None:
    """It is not a module, and counts nevertheless as what the metrics depend on."""
    old = "load=lambda path: bitrift.torch.load_into(path, model, optimizer)"
    script = with_state(f"[model, optimizer, {kept}]").replace(old, "load=load")
    script = script.replace("count = 0\n", AVERAGE, 1).replace(STEP, f"{STEP}        average.update()\n")
    names = "dict(zip([name for name, _ in model.named_parameters()], average.kept))"
    script = script.replace("logits = used(x)", f"logits = torch.func.functional_call(model, {names}, (x,))")
    code, printed = check(script)
    assert code == 0, printed


def test_a_state_of_tensors_is_that_of_the_model_that_is_evaluated(check: Checked) -> None:
    script = with_state("model.state_dict()").replace("used = model", "used = copy.deepcopy(model)")
    code, printed = check(script)
    assert code == 1 and "the metrics do not change when all weights are 0" in printed, printed


@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_is_named_with_its_cure(name: str, check: Checked) -> None:
    old, new, said, cure = TRAPS[name]
    assert SCRIPT.count(old) == 1
    code, printed = check(SCRIPT.replace(old, new))
    assert code == 1 and said in printed and cure in printed, printed
    lines = printed.splitlines()
    assert len(lines) == 2 and lines[1].startswith("  "), lines


def test_a_script_that_refuses_its_file(check: Checked) -> None:
    code, printed = check(SCRIPT.replace("nn.Linear(16, 2)", "nn.Linear(16, 3)"))
    assert code == 1 and printed.startswith("load() refuses the checkpoint: "), printed
