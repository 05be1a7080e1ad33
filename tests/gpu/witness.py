"""Walks a LeNet's steps with torch on a card, from a checkpoint and a trace, and asks for the same loss bits.

python tests/gpu/witness.py BITRIFT_TRAIN FOLDER [cpu|cuda]; exit code 0 when every step and the losses of the test set
have the same bits.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import numpy as np
import torch

program, folder = Path(sys.argv[1]), Path(sys.argv[2])
device = sys.argv[3] if len(sys.argv) > 3 else "cuda"
os.environ["BITRIFT_BIN_DIR"] = str(program.resolve().parent)
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e" / "witness"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e" / "train"))

from train_support import read_idx, read_trace, run, tensors, write_spec  # noqa: E402
from witness_models import make_model  # noqa: E402

STEPS = 20
TEST_ROWS = 256  # samples of one batch of an evaluation


def batch_of(images: np.ndarray, labels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    x = (torch.from_numpy(images).to(torch.float32) / 255).unsqueeze(1).to(device)
    return x, torch.from_numpy(labels.astype("int64")).to(device)


def test_losses(model: torch.nn.Module) -> dict[str, float]:
    images, labels = read_idx("t10k-images-idx3-ubyte"), read_idx("t10k-labels-idx1-ubyte")
    total = capped = 0.0
    model.eval()
    with torch.no_grad():
        for first in range(0, len(labels), TEST_ROWS):
            rows = slice(first, first + TEST_ROWS)
            x, y = batch_of(images[rows].copy(), labels[rows])
            logits = model(x)
            total += torch.nn.functional.cross_entropy(logits, y, reduction="sum").item()
            each = torch.nn.functional.cross_entropy(logits, y, reduction="none").double()
            capped += each.clamp(max=math.log(10)).sum().item()
    return {"test_loss": total / len(labels), "test_capped_loss": capped / len(labels)}


def main() -> int:
    torch.set_num_threads(1)  # as the spec has it: on a CPU the bits of a convolution may depend on it
    torch.use_deterministic_algorithms(True)
    optimizer = {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.0005}
    spec = write_spec(folder / "lenet.json", {"name": "lenet"}, optimizer)
    start, trace = folder / "lenet.h5", folder / "lenet.jsonl"
    run("train", spec, "-o", start, "--steps", 0, "--device", device)
    run("resume", start, "--steps", STEPS, "--trace", trace, "--device", device)
    model = make_model({"name": "lenet"}, [1, 8, 8], 10)
    saved = tensors(start)
    state = {name.removeprefix("model/"): torch.from_numpy(saved[name]) for name in saved if name.startswith("model/")}
    model.load_state_dict(state)
    model.to(device).train()
    settings = {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.0005, "foreach": False}
    sgd = torch.optim.SGD(model.parameters(), **settings)
    name = torch.cuda.get_device_name() if device == "cuda" else device
    print(f"{name}, PyTorch {torch.__version__}")
    images, labels = read_idx("train-images-idx3-ubyte"), read_idx("train-labels-idx1-ubyte")
    wrong = 0
    _, steps, evaluations = read_trace(trace)
    for number, step in enumerate(steps):
        rows = step["indices"]
        x, y = batch_of(images[rows], labels[rows])
        sgd.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        sgd.step()
        same = loss.item() == float.fromhex(step["loss"])
        wrong += not same
        print(f"step {number}: {loss.item().hex()} here, {step['loss']} there")
    for name, value in test_losses(model).items():
        wrong += value != evaluations[-1][name]
        print(f"{name}: {value.hex()} here, {evaluations[-1][name].hex()} there")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
