#!/usr/bin/env python3
"""A DistributedDataParallel training of which one rank is killed, for rank_failure.py to run under torchrun.

torchrun --standalone --nproc-per-node 2 --max-restarts 3 bench/torch_elastic.py SPEC FOLDER STEP EVERY

Saves a checkpoint every EVERY steps. Rank 1 kills itself in STEP, between backward and update, the first time that it
gets there. FOLDER gets `died` and, once STEP is done, `redone`: seconds of the machine's monotonic clock.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch_steps import make_optimizer, models, read_data


def main() -> None:
    spec, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    last, every = int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    inputs, targets, classes = read_data(spec["data"], 0)
    model: nn.Module = models.make_model(spec["model"], list(inputs.shape[1:]), classes).train()
    model = nn.parallel.DistributedDataParallel(model)
    optimizer = make_optimizer(model, spec["optimizer"], None)
    order = torch.randperm(len(inputs))
    rows = spec["batch_size"] // ranks
    saved, died = folder / "saved.pt", folder / "died"
    first = 1
    if saved.exists():
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1
    # The survivor goes on until it misses the other.
    for step in range(first, last + 1 if first > 1 else last + 1000):
        begin = (step - 1) * spec["batch_size"] % (len(order) - spec["batch_size"]) + rank * rows
        batch = order[begin : begin + rows]
        optimizer.zero_grad()
        models.loss_of(model(inputs[batch]), targets[batch]).backward()
        if step == last and rank == 1 and not died.exists():
            died.write_text(repr(time.monotonic()))
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.step()
        if step % every == 0 and rank == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, f"{saved}.new")
            os.replace(f"{saved}.new", saved)
    if rank == 0:
        (folder / "redone").write_text(repr(time.monotonic()))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
