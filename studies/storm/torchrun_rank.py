#!/usr/bin/env python3
"""A DistributedDataParallel training that torchrun restarts, for storm.py.

torchrun --standalone --nproc-per-node 4 --max-restarts 1000 torchrun_rank.py SPEC FOLDER STEPS EVERY PATIENCE

Saves a checkpoint every EVERY steps and after the last one, and continues from it after a restart. A collective call
that takes longer than PATIENCE seconds ends its worker, so that a rank that hangs is noticed. FOLDER gets `begun` with
the first step and `seconds`: from there to the end.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import torch.distributed as dist
from torch_elastic import ElasticTraining


def main() -> None:
    folder, steps, every = Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    training = ElasticTraining(Path(sys.argv[1]), folder, timeout=float(sys.argv[5]))
    begun = folder / "begun"
    if training.rank == 0 and not begun.exists():
        begun.write_text(repr(time.monotonic()))
    for step in range(training.first, steps + 1):
        training.backward(step)
        training.update()
        if step % every == 0 or step == steps:
            training.save(step)
    if training.rank == 0:
        (folder / "seconds").write_text(repr(time.monotonic() - float(begun.read_text())))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
