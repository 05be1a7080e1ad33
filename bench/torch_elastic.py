#!/usr/bin/env python3
"""A DistributedDataParallel training of which one rank is killed, for rank_failure.py to run under torchrun.

torchrun --standalone --nproc-per-node 2 --max-restarts 3 bench/torch_elastic.py SPEC FOLDER STEP EVERY

Saves a checkpoint every EVERY steps. Rank 1 kills itself in STEP, between backward and update, the first time that it
gets there. FOLDER gets `died` and, once STEP is done, `redone`: seconds of the machine's monotonic clock.
"""

from __future__ import annotations

import datetime
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

GLOO_TIMEOUT = 1800.0  # seconds: PyTorch's default


class ElasticTraining:
    """A rank of a training that torchrun restarts: from the checkpoint in `folder`, if there is one."""

    def __init__(self, spec_file: Path, folder: Path, timeout: float = GLOO_TIMEOUT) -> None:
        """timeout: seconds after which a collective call ends its worker."""
        torch.set_num_threads(1)
        torch.manual_seed(1)
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=timeout))
        self.rank = dist.get_rank()
        spec = json.loads(spec_file.read_text())
        self._inputs, self._targets, classes = read_data(spec["data"], 0)
        model: nn.Module = models.make_model(spec["model"], list(self._inputs.shape[1:]), classes).train()
        self._model = nn.parallel.DistributedDataParallel(model)
        self._optimizer = make_optimizer(self._model, spec["optimizer"], None)
        self._order = torch.randperm(len(self._inputs))
        self._batch_size = spec["batch_size"]
        self._rows = spec["batch_size"] // dist.get_world_size()
        self._saved = folder / "saved.pt"
        self.first = 1  # step
        if self._saved.exists():
            state = torch.load(self._saved)
            self._model.load_state_dict(state["model"])
            self._optimizer.load_state_dict(state["optimizer"])
            self.first = state["step"] + 1

    def backward(self, step: int) -> None:
        """The gradients of this rank's part of the step's batch, summed over ranks."""
        begin = (step - 1) * self._batch_size % (len(self._order) - self._batch_size) + self.rank * self._rows
        batch = self._order[begin : begin + self._rows]
        self._optimizer.zero_grad()
        models.loss_of(self._model(self._inputs[batch]), self._targets[batch]).backward()

    def update(self) -> None:
        self._optimizer.step()

    def save(self, step: int) -> None:
        """Rank 0 replaces the checkpoint."""
        if self.rank != 0:
            return
        state = {"model": self._model.state_dict(), "optimizer": self._optimizer.state_dict(), "step": step}
        torch.save(state, f"{self._saved}.new")
        os.replace(f"{self._saved}.new", self._saved)


def main() -> None:
    folder, last, every = Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    training = ElasticTraining(Path(sys.argv[1]), folder)
    died = folder / "died"
    # The survivor goes on until it misses the other.
    for step in range(training.first, last + 1 if training.first > 1 else last + 1000):
        training.backward(step)
        if step == last and training.rank == 1 and not died.exists():
            died.write_text(repr(time.monotonic()))
            os.kill(os.getpid(), signal.SIGKILL)
        training.update()
        if step % every == 0:
            training.save(step)
    if training.rank == 0:
        (folder / "redone").write_text(repr(time.monotonic()))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
