"""The independent witness: plain PyTorch in Python walks the same steps and has the same bits.

It reads the checkpoint with h5py and the batches from the trace, uses torch.nn modules and torch.optim, and shares no
code with bitrift.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from philox import derive_key, epoch_order, philox_u64
from train_support import ADAM, LENET, MLP, SGD, read_idx, read_trace, run, tensors, write_spec
from witness_models import make_model

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
DIGIT = [1, 8, 8]


def make_optimizer(model: torch.nn.Module, spec: dict, lr: float) -> torch.optim.Optimizer:
    if spec["name"] == "adam":
        return torch.optim.Adam(model.parameters(), lr=lr)
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=spec["momentum"], weight_decay=spec["weight_decay"])


def restore(model: torch.nn.Module, optimizer: torch.optim.Optimizer, saved: dict[str, np.ndarray]) -> None:
    state = {k.removeprefix("model/"): torch.from_numpy(v) for k, v in saved.items() if k.startswith("model/")}
    model.load_state_dict(state, strict=True)
    for key, parameter in model.named_parameters():
        for name, value in saved.items():
            top, _, rest = name.partition("/")
            slot, _, owner = rest.partition("/")
            if top == "optimizer" and owner == key:
                optimizer.state[parameter][slot] = torch.from_numpy(value.copy())


def same_bits(ours: np.ndarray, theirs: torch.Tensor) -> bool:
    return ours.tobytes() == theirs.detach().numpy().tobytes()


# Every pair of values.
WALKS = [
    pytest.param(
        optimizer,
        model,
        parts,
        marks=[pytest.mark.thorough] * ((i + j + k) % 2),
        id=f"{optimizer['name']}-{model['name']}-{parts}",
    )
    for i, optimizer in enumerate((SGD, ADAM))
    for j, model in enumerate((LENET, MLP))
    for k, parts in enumerate((1, 4))
]


@pytest.mark.parametrize(("optimizer", "model_spec", "micro_batches"), WALKS)
def test_python_walks_the_same_path(tmp_path: Path, optimizer: dict, model_spec: dict, micro_batches: int) -> None:
    spec = write_spec(tmp_path / "spec.json", model_spec, optimizer)
    start, end, trace = tmp_path / "start.h5", tmp_path / "end.h5", tmp_path / "trace.jsonl"
    run("train", spec, "-o", start, "--steps", 5)
    run("resume", start, "--steps", 25, "-o", end, "--trace", trace, "--micro-batches", micro_batches)
    header, steps, evaluations = read_trace(trace)
    assert len(steps) == 25 and header["seed"] == 11

    saved = tensors(start)
    model = make_model(model_spec, DIGIT, 10)
    optim = make_optimizer(model, optimizer, float(saved["progress/learning_rate"]))
    restore(model, optim, saved)
    images = torch.from_numpy(read_idx("train-images-idx3-ubyte").copy()).float().unsqueeze(1) / 255
    labels = torch.from_numpy(read_idx("train-labels-idx1-ubyte").astype(np.int64))

    for step in steps:
        losses = []
        optim.zero_grad()
        for rows in torch.tensor(step["indices"]).chunk(micro_batches):
            loss = F.cross_entropy(model(images[rows]), labels[rows])
            (loss if micro_batches == 1 else loss / micro_batches).backward()
            losses.append(loss.item())
        optim.step()
        assert float.fromhex(step["loss"]) == sum(losses) / micro_batches, f"step {step['step']}"
        assert float.fromhex(step["lr"]) == optim.param_groups[0]["lr"]

    finished = tensors(end)
    for key, value in model.state_dict().items():
        assert same_bits(finished[f"model/{key}"], value), key
    for key, parameter in model.named_parameters():
        for slot, value in optim.state[parameter].items():
            assert same_bits(finished[f"optimizer/{slot}/{key}"], value), (slot, key)
    check_test_metrics(model, evaluations[-1])


def test_data_parallel_averages_by_ascending_rank(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.json", LENET, SGD, batch_size=60)
    start, end, trace = tmp_path / "start.h5", tmp_path / "end.h5", tmp_path / "trace.jsonl"
    run("train", spec, "-o", start, "--steps", 3)
    run("resume", start, "--steps", 12, "-o", end, "--trace", trace, "--parallel", "data", "--ranks", 3)
    saved = tensors(start)
    model = make_model(LENET, DIGIT, 10)
    optim = make_optimizer(model, SGD, 0.05)
    restore(model, optim, saved)
    images = torch.from_numpy(read_idx("train-images-idx3-ubyte").copy()).float().unsqueeze(1) / 255
    labels = torch.from_numpy(read_idx("train-labels-idx1-ubyte").astype(np.int64))
    for step in read_trace(trace)[1]:
        losses, gradients = [], []
        for rows in torch.tensor(step["indices"]).chunk(3):
            optim.zero_grad()
            loss = F.cross_entropy(model(images[rows]), labels[rows])
            loss.backward()
            losses.append(loss.item())
            gradients.append([p.grad for p in model.parameters()])
        for parameter, first, second, third in zip(model.parameters(), *gradients, strict=True):
            parameter.grad = first * (1 / 3) + second * (1 / 3) + third * (1 / 3)
        optim.step()
        assert float.fromhex(step["loss"]) == sum(losses) / 3, f"step {step['step']}"
    finished = tensors(end)
    for key, value in model.state_dict().items():
        assert same_bits(finished[f"model/{key}"], value), key


def check_test_metrics(model: torch.nn.Module, evaluation: dict) -> None:
    images = torch.from_numpy(read_idx("t10k-images-idx3-ubyte").copy()).float().unsqueeze(1) / 255
    labels = torch.from_numpy(read_idx("t10k-labels-idx1-ubyte").astype(np.int64))
    model.eval()
    loss, capped, correct = 0.0, 0.0, 0
    with torch.no_grad():
        for x, y in zip(images.split(256), labels.split(256), strict=True):
            logits = model(x)
            loss += F.cross_entropy(logits, y, reduction="sum").item()
            each = F.cross_entropy(logits, y, reduction="none").double()
            capped += each.clamp(max=math.log(10)).sum().item()
            correct += int((logits.argmax(1) == y).sum())
    assert evaluation["test_loss"] == loss / len(labels)
    assert evaluation["test_capped_loss"] == capped / len(labels)
    assert evaluation["test_accuracy"] == correct / len(labels)


def test_the_order_of_samples_can_be_computed_outside(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.json", MLP, SGD, seed=987654321, batch_size=100)
    trace = tmp_path / "trace.jsonl"
    run("train", spec, "-o", tmp_path / "c.h5", "--trace", trace)
    header, steps, _ = read_trace(trace)
    assert len(steps) == 2 * 14  # 1437 samples: 14 whole batches of 100, 37 samples left out
    for number, step in enumerate(steps):
        epoch, batch = divmod(number, 14)
        order = epoch_order(header["seed"], epoch, header["samples"])
        assert step["epoch"] == epoch
        assert step["indices"] == order[100 * batch : 100 * batch + 100].tolist()


def test_initial_weights_can_be_computed_outside(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.json", LENET, SGD, seed=5)
    run("train", spec, "-o", tmp_path / "c.h5", "--steps", 0)
    saved = tensors(tmp_path / "c.h5")
    assert not any(name.startswith("optimizer/") for name in saved)
    for key, fan_in in {"conv1.weight": 25, "conv2.bias": 150, "fc1.weight": 64, "fc3.bias": 84}.items():
        value = saved[f"model/{key}"]
        index = np.arange(value.size, dtype=np.uint64)
        unit = (philox_u64(derive_key(5, f"init/{key}"), index, 0) >> np.uint64(11)) * 2.0**-53
        expected = ((2 * unit - 1) * (1 / np.sqrt(float(fan_in)))).astype(np.float32)
        assert value.tobytes() == expected.tobytes(), key
