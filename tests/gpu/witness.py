"""Walks a LeNet's steps with torch on a card, from a checkpoint and a trace, and asks for the same loss bits.

python tests/gpu/witness.py BITRIFT_TRAIN FOLDER [cpu|cuda]; exit code 0 when every step has the same bits.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

program, folder = Path(sys.argv[1]), Path(sys.argv[2])
device = sys.argv[3] if len(sys.argv) > 3 else "cuda"
os.environ["BITRIFT_BIN_DIR"] = str(program.resolve().parent)
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from train_support import read_idx, read_trace, run, tensors, write_spec  # noqa: E402
from witness_models import make_model  # noqa: E402

STEPS = 20


def main() -> int:
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
    for number, step in enumerate(read_trace(trace)[1]):
        rows = step["indices"]
        x = (torch.from_numpy(images[rows]).to(torch.float32) / 255).unsqueeze(1).to(device)
        y = torch.from_numpy(labels[rows].astype("int64")).to(device)
        sgd.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        sgd.step()
        same = loss.item() == float.fromhex(step["loss"])
        wrong += not same
        print(f"step {number}: {loss.item().hex()} here, {step['loss']} there")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
