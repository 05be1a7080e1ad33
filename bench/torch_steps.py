#!/usr/bin/env python3
"""Steps of plain PyTorch, timed: the other side of step.py and data_parallel.py.

python bench/torch_steps.py SPEC WARM STEPS [--foreach] [--rank R --ranks N --meeting FILE]

Takes model, batch size and optimizer from a training spec of bitrift-train, on one thread. The data lie in memory as
the model takes them, so a batch costs one index_select for each of inputs and targets. With several ranks it is
DistributedDataParallel over gloo, and every rank takes its part of the batch. Prints seconds as JSON.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e" / "witness"))
models = importlib.import_module("witness_models")

FOLDERS = {"digits": ROOT / "data" / "digits", "fashion-mnist": Path("/usr/share/datasets/fashion-mnist")}


def read_idx(path: Path) -> np.ndarray:
    raw = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(raw, ">u4", raw[3], 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def read_data(data: dict[str, Any], context: int) -> tuple[Tensor, Tensor, int]:
    """Inputs, targets, classes of the training set; context: tokens of a sample of text."""
    if data["name"] == "jargon":
        text = np.frombuffer(gzip.decompress((ROOT / "data" / "jargon" / "jargon.txt.gz").read_bytes()), np.uint8)
        count = (len(text) - 1) // context
        tokens = torch.from_numpy(text[: count * context + 1].astype(np.int64))
        return tokens[:-1].view(count, context).clone(), tokens[1:].view(count, context).clone(), 256
    folder = FOLDERS[data["name"]]
    images = torch.from_numpy(read_idx(folder / "train-images-idx3-ubyte.gz").copy())
    labels = torch.from_numpy(read_idx(folder / "train-labels-idx1-ubyte.gz").astype(np.int64))
    return images.unsqueeze(1).float() / 255, labels, 10


def make_optimizer(model: nn.Module, spec: dict[str, Any], foreach: bool | None) -> torch.optim.Optimizer:
    if spec["name"] == "sgd":
        return torch.optim.SGD(
            model.parameters(), lr=spec["learning_rate"], momentum=spec.get("momentum", 0),
            weight_decay=spec.get("weight_decay", 0), foreach=foreach,
        )  # fmt: skip
    return torch.optim.AdamW(
        model.parameters(), lr=spec["learning_rate"], weight_decay=spec.get("weight_decay", 0.01), foreach=foreach
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("spec", type=Path)
    parser.add_argument("warm", type=int)
    parser.add_argument("steps", type=int)
    parser.add_argument(
        "--foreach", action="store_true", help="the optimizer's multi-tensor form; not the default on a CPU"
    )
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--meeting", help="file by which the ranks find each other")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    spec = json.loads(options.spec.read_text())
    inputs, targets, classes = read_data(spec["data"], spec["model"].get("context", 0))
    model: nn.Module = models.make_model(spec["model"], list(inputs.shape[1:]), classes).train()
    if options.ranks > 1:
        dist.init_process_group(
            "gloo", init_method=f"file://{options.meeting}", rank=options.rank, world_size=options.ranks
        )
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = make_optimizer(model, spec["optimizer"], True if options.foreach else None)
    rows = spec["batch_size"] // options.ranks
    per_epoch = len(inputs) // spec["batch_size"]
    order = torch.randperm(len(inputs))

    def step(number: int) -> float:
        first = (number % per_epoch) * spec["batch_size"] + options.rank * rows
        batch = order[first : first + rows]
        optimizer.zero_grad()
        loss = models.loss_of(model(inputs[batch]), targets[batch])
        loss.backward()
        optimizer.step()
        return loss.item()

    for number in range(options.warm):
        step(number)
    if options.ranks > 1:
        dist.barrier()
    wall, processor = time.perf_counter(), time.process_time()
    for number in range(options.warm, options.warm + options.steps):
        step(number)
    print(json.dumps({"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}))
    if options.ranks > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
