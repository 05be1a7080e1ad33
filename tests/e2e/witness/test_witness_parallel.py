"""Data parallelism against PyTorch's own: DistributedDataParallel over gloo, and Horovod's averaging in a few lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from witness_run import Witness, check_state, run_and_trace, walk

RESNET = {"name": "resnet20", "width": "small"}
GPT = {"name": "gpt", "layers": 2, "heads": 2, "width": 16, "context": 16, "dropout": 0.1}
BERT = GPT | {"name": "bert"}
SGD = {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.0005}
ADAMW = {"name": "adamw", "learning_rate": 0.002}


def spec_of(model: dict[str, Any], optimizer: dict[str, Any], **more: Any) -> dict[str, Any]:
    data = {"name": "digits" if model is RESNET else "jargon", "train_samples": 144, "test_samples": 32}
    if model is BERT:
        data["mask_fraction"] = 0.15
    return {"model": model, "data": data, "optimizer": optimizer, "batch_size": 24, "epochs": 4, "seed": 31} | more


def walk_by_ddp(folder: Path, parts: int) -> list[dict[str, np.ndarray]]:
    """What two processes of DistributedDataParallel hold at the end."""
    program = Path(__file__).with_name("ddp_witness.py")
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    logs = [folder / f"rank{rank}.log" for rank in range(2)]
    processes = []
    for rank, log in enumerate(logs):
        with log.open("w") as stderr:
            command = [sys.executable, program, str(rank), "2", str(parts), folder]
            processes.append(subprocess.Popen(command, env=environment, stderr=stderr))
    try:
        codes = [process.wait(timeout=300) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert codes == [0, 0], "\n".join(log.read_text() for log in logs)
    return [dict(np.load(folder / f"rank{rank}.npz")) for rank in range(2)]


@pytest.mark.parametrize(
    "model, optimizer, precision, parts",
    [
        pytest.param(RESNET, SGD, "fp32", 1, marks=pytest.mark.thorough),
        (RESNET, ADAMW, "fp32", 2),
        (GPT, ADAMW, "fp64", 1),
    ],
    ids=["resnet20", "resnet20 in micro-batches", "gpt"],
)
def test_ddp_semantics_are_those_of_distributed_data_parallel(
    tmp_path: Path, model: dict, optimizer: dict, precision: str, parts: int
) -> None:
    spec = spec_of(model, optimizer, precision=precision)
    options = ("--parallel", "data", "--ranks", 2, "--semantics", "ddp", "--micro-batches", parts)
    _, finished, steps, _ = run_and_trace(tmp_path, spec, 3, 10, *options)
    first, second = walk_by_ddp(tmp_path, parts)
    mean = (first.pop("losses") + second.pop("losses")) / 2
    assert [float.fromhex(step["loss"]) for step in steps] == mean.tolist()
    # There rank 0's running statistics go to all before a forward pass, here after a step. So after the last step rank
    # 1 still has its own there, and the next forward pass makes both ranks what this program's file holds.
    statistics = [path for path in first if path.startswith("before/")]
    assert bool(statistics) == (model is RESNET)
    for path in statistics:
        assert first.pop(path).tobytes() != second.pop(path).tobytes()
    check_state(first, finished)
    check_state(second, finished)
    assert not any(path.startswith("replica/") for path in finished)
    if model is GPT:
        # Each replica holds a part of the optimizer's state, and the file all of it.
        shards = tmp_path / "shards"
        shards.mkdir()
        _, finished, *_ = run_and_trace(shards, spec, 3, 10, *options, "--shard-optimizer")
        check_state(first, finished)


def test_horovod_semantics_are_a_mean_of_gradients_and_local_buffers(tmp_path: Path) -> None:
    spec, replicas = spec_of(RESNET, SGD), 3
    options = ("--parallel", "data", "--ranks", replicas, "--semantics", "horovod")
    saved, finished, steps, evaluations = run_and_trace(tmp_path, spec, 3, 10, *options)
    witnesses = [Witness(spec, saved, replica) for replica in range(replicas)]
    for step in steps:
        share = len(step["indices"]) // replicas
        losses = [
            witness.backward(step, step["indices"][r * share : (r + 1) * share]) for r, witness in enumerate(witnesses)
        ]
        assert float.fromhex(step["loss"]) == sum(losses) / replicas, f"step {step['step']}"
        for first, *others in zip(*(witness.parameters for witness in witnesses), strict=True):
            total = first.grad.clone()
            for other in others:
                total += other.grad
            for parameter in (first, *others):
                parameter.grad = total * (1 / replicas)
        for witness in witnesses:
            witness.update()
    for replica, witness in enumerate(witnesses):
        witness.check_state(finished, replica)
    own = {path for path in finished if path.endswith(("running_mean", "running_var")) and path.startswith("model/")}
    local = {path for path in finished if path.startswith("replica/")}
    assert own and local == {f"replica/{replica}/{path}" for replica in (1, 2) for path in own}
    witnesses[0].check_test_losses(evaluations[-1])


@pytest.mark.parametrize("model", [RESNET, GPT, BERT], ids=["resnet20", "gpt", "bert"])
@pytest.mark.parametrize("kind", ["pipeline", "hybrid"])
def test_losses_of_the_last_stage_are_those_of_one_process(tmp_path: Path, model: dict, kind: str) -> None:
    spec = spec_of(model, SGD | {"learning_rate": 0.2})
    layout = {"pipeline": ("--ranks", 2, "--micro-batches", 2), "hybrid": ("--ranks", 4, "--stages", 2)}[kind]
    saved, finished, steps, evaluations = run_and_trace(tmp_path, spec, 3, 5, "--parallel", kind, *layout)
    if kind == "pipeline":
        witness = Witness(spec, saved)
        walk(witness, steps, evaluations, 2)
        witness.check_state(finished)
    else:
        witness = Witness(spec, finished)
    witness.check_test_losses(evaluations[-1])
    assert 0 < evaluations[-1]["test_capped_loss"] < evaluations[-1]["test_loss"]
