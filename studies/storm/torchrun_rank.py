#!/usr/bin/env python3
"""A DistributedDataParallel training that torchrun restarts, for storm.py.

torchrun --standalone --nproc-per-node 4 --max-restarts 1000 torchrun_rank.py SPEC FOLDER STEPS EVERY PATIENCE

Saves a checkpoint every EVERY steps and after the last one, and continues from it after a restart. A collective call
that takes longer than PATIENCE seconds ends its worker, so that a rank that hangs is noticed. FOLDER gets `begun` with
the first step and `seconds`: from there to the end.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import torch
import torch.distributed as dist
from torch import nn
from torch_steps import make_optimizer, models, read_data


def main() -> None:
    spec, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    steps, every, patience = int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=patience))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    inputs, targets, classes = read_data(spec["data"], 0)
    model: nn.Module = models.make_model(spec["model"], list(inputs.shape[1:]), classes).train()
    model = nn.parallel.DistributedDataParallel(model)
    optimizer = make_optimizer(model, spec["optimizer"], None)
    order = torch.randperm(len(inputs))
    rows = spec["batch_size"] // ranks
    saved, begun = folder / "saved.pt", folder / "begun"
    first = 1
    if saved.exists():
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1
    if rank == 0 and not begun.exists():
        begun.write_text(repr(time.monotonic()))
    for step in range(first, steps + 1):
        begin = (step - 1) * spec["batch_size"] % (len(order) - spec["batch_size"]) + rank * rows
        batch = order[begin : begin + rows]
        optimizer.zero_grad()
        models.loss_of(model(inputs[batch]), targets[batch]).backward()
        optimizer.step()
        if (step % every == 0 or step == steps) and rank == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, f"{saved}.new")
            os.replace(f"{saved}.new", saved)
    if rank == 0:
        (folder / "seconds").write_text(repr(time.monotonic() - float(begun.read_text())))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
