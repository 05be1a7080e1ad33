"""One process of torch.nn.parallel.DistributedDataParallel over gloo, walking a trace; for test_witness_parallel.py.

python ddp_witness.py RANK WORLD PARTS FOLDER reads spec.json, start.h5 and trace.jsonl there, and writes rankRANK.npz:
the losses, running statistics after the last step (before/PATH), and after one more forward pass its model and
optimizer by their paths in a file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "train"))

from train_support import read_trace, tensors
from witness_run import Witness


def main(rank: int, world: int, parts: int, folder: Path) -> None:
    torch.distributed.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=world)
    witness = Witness(json.loads((folder / "spec.json").read_text()), tensors(folder / "start.h5"))
    wrapped = torch.nn.parallel.DistributedDataParallel(witness.model)
    witness.forward, witness.no_sync = wrapped, wrapped.no_sync
    losses = []
    for step in read_trace(folder / "trace.jsonl")[1]:
        rows = step["indices"]
        share = len(rows) // world
        losses.append(witness.backward(step, rows[rank * share : (rank + 1) * share], parts))
        witness.update()
    before = {f"before/{path}": value.copy() for path, value in witness.state().items() if "running" in path}
    wrapped.eval()
    with torch.no_grad():
        witness.loss(*witness.data.test_batch())  # sends rank 0's buffers first
    np.savez(folder / f"rank{rank}.npz", losses=np.asarray(losses), **before, **witness.state())
    torch.distributed.barrier()  # a rank that leaves earlier ends the other's last exchange
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), Path(sys.argv[4]))
