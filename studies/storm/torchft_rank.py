#!/usr/bin/env python3
"""One rank of a data-parallel training under torchft, for storm.py.

TORCHFT_LIGHTHOUSE=ADDRESS studies/storm/torchft_rank.py SPEC FOLDER STEPS PATIENCE RANK RANKS

A rank that is started again gets its state from another one. One that is missing takes its samples of a step with it.
PATIENCE: seconds that torchft waits for a collective call. FOLDER gets `begun` with the first step, and for each rank
`seconds-RANK`: from there to its end, and the samples that were lost while it lived.
"""

from __future__ import annotations

import datetime
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import torch
import torch.distributed as dist
import torchft  # type: ignore[import-not-found]
from torch import nn
from torch_steps import make_optimizer, models, read_data


def main() -> None:
    spec, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    steps, patience = int(sys.argv[3]), datetime.timedelta(seconds=float(sys.argv[4]))
    rank, ranks = int(sys.argv[5]), int(sys.argv[6])
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    inputs, targets, classes = read_data(spec["data"], 0)
    bare: nn.Module = models.make_model(spec["model"], list(inputs.shape[1:]), classes).train()
    plain = make_optimizer(bare, spec["optimizer"], None)

    def load(state: dict[str, Any]) -> None:
        bare.load_state_dict(state["model"])
        plain.load_state_dict(state["optimizer"])

    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(timeout=patience),
        load_state_dict=load,
        state_dict=lambda: {"model": bare.state_dict(), "optimizer": plain.state_dict()},
        min_replica_size=1,
        timeout=patience,
        quorum_timeout=datetime.timedelta(seconds=30),
        replica_id=f"rank{rank}",
        hostname="localhost",
        store_addr="localhost",
        store_port=store.port,
        rank=0,
        world_size=1,
    )
    model = torchft.DistributedDataParallel(manager, bare)
    optimizer = torchft.Optimizer(manager, plain)
    order = torch.randperm(len(inputs))
    rows = spec["batch_size"] // ranks
    begun, lost = folder / "begun", 0
    while manager.current_step() < steps:
        begin = manager.current_step() * spec["batch_size"] % (len(order) - spec["batch_size"]) + rank * rows
        batch = order[begin : begin + rows]
        optimizer.zero_grad()
        models.loss_of(model(inputs[batch]), targets[batch]).backward()
        optimizer.step()
        lost += (ranks - manager.num_participants()) * rows
        if not begun.exists():
            begun.write_text(repr(time.monotonic()))
    (folder / f"seconds-{rank}").write_text(json.dumps([time.monotonic() - float(begun.read_text()), lost]))
    manager.shutdown(wait=False)


if __name__ == "__main__":
    main()
