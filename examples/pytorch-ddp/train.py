#!/usr/bin/env python3
"""Resumes LeNet on the shipped digits from a bitrift checkpoint: PyTorch's DistributedDataParallel over gloo.

    train.py --resume CKPT.h5 --epochs 1 --ranks 2 --result result.json

This is the program that campaigns/exec-pytorch-ddp.json runs for every trial (docs/exec-runner.md). It needs Python,
PyTorch, NumPy and h5py, and nothing of bitrift. Without --rank it only starts the ranks, so that it does not import
PyTorch itself; rank 0 writes the result.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).resolve().parents[2]
DIGITS = Path(os.environ.get("BITRIFT_DATA_DIR", ROOT / "data")) / "digits"
TEST_ROWS = 256  # samples of one batch of the evaluation: sums of losses depend on it in the last bit


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resume", type=Path, required=True, help="checkpoint to resume from")
    parser.add_argument("--result", type=Path, required=True, help="file to write")
    parser.add_argument("--epochs", type=int, default=1, help="epochs to train; 0: load and evaluate")
    parser.add_argument("--ranks", type=int, default=1, help="processes")
    parser.add_argument("--order-seed", type=int, help="order of the batches, instead of the checkpoint's seed")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--meeting", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def start_ranks(count: int) -> int:
    """Starts the ranks and waits for them; when one fails, the others are ended. Their exit code."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    with tempfile.TemporaryDirectory(prefix="ddp-") as folder:
        own = ["--meeting", f"{folder}/meeting", "--rank"]
        ranks = [
            subprocess.Popen([sys.executable, *sys.argv, *own, str(rank)], env=environment) for rank in range(count)
        ]
        while None in (codes := [rank.poll() for rank in ranks]) and not any(codes):
            time.sleep(0.005)
        for rank in ranks:
            rank.kill()
        # A rank that was killed only because another failed comes last.
        codes = [rank.wait() for rank in ranks]
        failed = sorted((code for code in codes if code), key=lambda code: code == -9)
        code = failed[0] if failed else 0
        return code if code >= 0 else 128 - code


# --- the data and its order (docs/data-order.md) ---


def read_digits(split: str, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images float32 [n, 1, 8, 8] in 0..1, labels int64 [n]; count 0: all."""
    import numpy as np
    import torch

    def read(name: str) -> Any:
        raw = gzip.decompress((DIGITS / f"{split}-{name}-ubyte.gz").read_bytes())
        shape = np.frombuffer(raw, ">u4", raw[3], 4)
        return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)[: count or None]

    images = torch.from_numpy(read("images-idx3").copy()).unsqueeze(1).to(torch.float32).div(255)
    return images, torch.from_numpy(read("labels-idx1").astype(np.int64))


def philox_u64(key: int, a: Any, b: int) -> Any:
    import numpy as np

    mask = np.uint64(0xFFFFFFFF)
    c = [a & mask, a >> np.uint64(32), np.full_like(a, b & 0xFFFFFFFF), np.full_like(a, b >> 32)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [
            (p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            p1 & mask,
            (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            p0 & mask,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c[0] | c[1] << np.uint64(32)


def epoch_order(seed: int, epoch: int, samples: int) -> list[int]:
    import numpy as np

    name = 0xCBF29CE484222325
    for byte in b"order":
        name = ((name ^ byte) * 0x100000001B3) % 2**64
    key = int(philox_u64(seed, np.array([name], np.uint64), 0)[0])
    return np.argsort(philox_u64(key, np.arange(samples, dtype=np.uint64), epoch), kind="stable").tolist()


# --- the model and the run ---


def make_lenet(classes: int = 10) -> torch.nn.Module:
    from torch import nn

    class LeNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
            self.conv2 = nn.Conv2d(6, 16, 5, padding=2)
            self.fc1 = nn.Linear(16 * 2 * 2, 120)
            self.fc2 = nn.Linear(120, 84)
            self.fc3 = nn.Linear(84, classes)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = nn.functional.max_pool2d(nn.functional.relu(self.conv1(x)), 2)
            x = nn.functional.max_pool2d(nn.functional.relu(self.conv2(x)), 2)
            x = nn.functional.relu(self.fc1(x.flatten(1)))
            return self.fc3(nn.functional.relu(self.fc2(x)))

    return LeNet()


class Run:
    """One rank of a resumed run."""

    def __init__(self, checkpoint: Path, order_seed: int | None) -> None:
        import h5py
        import torch

        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
        with h5py.File(checkpoint) as file:
            self.spec = json.loads(file.attrs["spec"])
            model = {key: torch.from_numpy(value[()]) for key, value in file["model"].items()}
            slots = file["optimizer/momentum_buffer"].items() if "optimizer/momentum_buffer" in file else ()
            momentum = {key: torch.from_numpy(value[()]) for key, value in slots}
            self.seed = int(file["rng/seed"][()]) if order_seed is None else order_seed
            self.epoch = int(file["progress/epoch"][()])
            rate = float(file["progress/learning_rate"][()])
            cursor = int(file["progress/cursor"][()])
        self.check(cursor)
        self.train = read_digits("train", self.spec["data"].get("train_samples", 0))
        self.test = read_digits("t10k", self.spec["data"].get("test_samples", 0))
        self.model = make_lenet()
        self.model.load_state_dict(model)
        wanted = {key: self.spec["optimizer"][key] for key in ("momentum", "nesterov", "weight_decay")
                  if key in self.spec["optimizer"]}  # fmt: skip
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=rate, foreach=False, **wanted)
        for key, parameter in self.model.named_parameters():
            if key in momentum:
                self.optimizer.state[parameter]["momentum_buffer"] = momentum[key]
        self.rank, self.ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
        self.ddp = torch.nn.parallel.DistributedDataParallel(self.model)
        self.steps, self.last_loss = 0, math.nan
        self.evaluations: list[dict[str, Any]] = []

    def check(self, cursor: int) -> None:
        """Refuses what this short program does not know of all that a checkpoint can ask for."""
        spec = self.spec
        plain = set(spec["data"]) <= {"name", "train_samples", "test_samples"} and cursor == 0
        if (spec["model"], spec["data"]["name"], spec["optimizer"]["name"]) != ({"name": "lenet"}, "digits", "sgd"):
            plain = False
        if not plain or spec.get("schedule", {"name": "constant"})["name"] != "constant":
            raise SystemExit("train.py: knows LeNet on whole epochs of the digits with SGD at a constant rate only")

    def gathered(self, *values: float) -> list[list[float]]:
        """These numbers of every rank, exactly."""
        import torch

        mine = torch.tensor(values, dtype=torch.float64)
        all_ranks = [torch.empty_like(mine) for _ in range(self.ranks)]
        torch.distributed.all_gather(all_ranks, mine)
        return [one.tolist() for one in all_ranks]

    def step(self, rows: list[int]) -> tuple[float, int] | None:
        """One step on a batch: mean loss and right answers of all ranks; None when the loss is not finite."""
        import torch

        share = len(rows) // self.ranks
        own = rows[self.rank * share : (self.rank + 1) * share]
        self.optimizer.zero_grad()
        logits = self.ddp(self.train[0][own])
        loss = torch.nn.functional.cross_entropy(logits, self.train[1][own])
        loss.backward()
        correct = int((logits.argmax(1) == self.train[1][own]).sum())
        everyone = self.gathered(loss.item(), correct)
        self.last_loss = sum(one[0] for one in everyone) / self.ranks
        if not math.isfinite(self.last_loss):
            return None
        self.optimizer.step()
        self.steps += 1
        return self.last_loss, int(sum(one[1] for one in everyone))

    def train_epoch(self) -> str:
        """Trains an epoch and evaluates. What went wrong, or ""."""
        batch = self.spec["batch_size"]
        order = epoch_order(self.seed, self.epoch, len(self.train[1]))
        loss_sum, right, batches = 0.0, 0, len(order) // batch
        self.model.train()
        for first in range(0, batches * batch, batch):
            outcome = self.step(order[first : first + batch])
            if outcome is None:
                return f"loss of step {self.steps + 1} is {self.last_loss}"
            loss_sum, right = loss_sum + outcome[0], right + outcome[1]
        self.epoch += 1
        return self.evaluate({"train_loss": loss_sum / batches, "train_accuracy": right / (batches * batch)})

    def evaluate(self, training: dict[str, float]) -> str:
        """Adds an evaluation on the test set."""
        import torch

        self.model.eval()
        total, capped, correct = 0.0, 0.0, 0
        with torch.no_grad():
            for images, labels in zip(self.test[0].split(TEST_ROWS), self.test[1].split(TEST_ROWS), strict=True):
                logits = self.model(images)
                total += torch.nn.functional.cross_entropy(logits, labels, reduction="sum").item()
                losses = torch.nn.functional.cross_entropy(logits, labels, reduction="none").double()
                capped += losses.clamp(max=math.log(logits.shape[1])).sum().item()
                correct += int((logits.argmax(1) == labels).sum())
        count = len(self.test[1])
        found = training | {"test_loss": total / count, "test_accuracy": correct / count}
        found["test_capped_loss"] = capped / count
        self.evaluations.append({"epoch": self.epoch, "step": self.steps} | found)
        bad = [name for name, value in found.items() if not math.isfinite(value)]
        return f"{bad[0]} after step {self.steps} is not finite" if bad else ""

    def state(self) -> list[torch.Tensor]:
        tensors = [*self.model.state_dict().values()]
        for slots in self.optimizer.state.values():
            tensors += [value for value in slots.values() if value is not None]
        return tensors

    def result(self, problem: str) -> dict[str, Any]:
        """The result file's content, the same on every rank."""
        import torch

        total = hashlib.blake2b(digest_size=16)
        for tensor in self.state():
            total.update(tensor.detach().numpy().tobytes())
        mine = {
            "evaluations": self.evaluations,
            "digest": total.hexdigest(),
            "nonfinite": not all(bool(tensor.isfinite().all()) for tensor in self.state()),
        }
        everyone: list[Any] = [None] * self.ranks
        torch.distributed.all_gather_object(everyone, mine)
        result: dict[str, Any] = {
            "status": "nonfinite" if problem else "done",
            "detail": problem,
            "replicas": [one["evaluations"] for one in everyone],
            "steps": self.steps,
            "final_digest": everyone[0]["digest"],
            "replica_digests": [one["digest"] for one in everyone],
            "nonfinite_state": any(one["nonfinite"] for one in everyone),
        }
        if self.evaluations:
            result["test_targets"] = len(self.test[1])
        if problem:
            result["nonfinite_step"] = self.steps
        if self.steps or problem:
            result["last_loss"] = self.last_loss
        return result


def as_json(value: Any) -> Any:
    """JSON has no word for numbers that are not finite: they become the texts nan, inf, -inf."""
    if isinstance(value, dict):
        return {key: as_json(one) for key, one in value.items()}
    if isinstance(value, list):
        return [as_json(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def run_rank(options: argparse.Namespace) -> None:
    import torch

    torch.distributed.init_process_group(
        "gloo", f"file://{options.meeting}", rank=options.rank, world_size=options.ranks
    )
    run = Run(options.resume, options.order_seed)
    problem = run.evaluate({}) if options.epochs == 0 else ""
    for _ in range(options.epochs):
        problem = problem or run.train_epoch()
    result = run.result(problem)
    if options.rank == 0:
        options.result.write_text(json.dumps(as_json(result), allow_nan=False))
    # Now and then a thread of PyTorch outlives its owner at the interpreter's end and aborts the process. All that
    # counts is written, and after the barrier no rank waits for another.
    torch.distributed.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def main() -> int:
    options = arguments()
    if options.rank is None:
        return start_ranks(options.ranks)
    run_rank(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
