"""Clipping, schedules, number types, loss scaling and augmentation: Python PyTorch has the same bits at every step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import pytest
import torch
from failure_support import pairs_of
from witness_run import Witness, check_run, run_and_trace, walk

LENET = {"name": "lenet"}
MLP = {"name": "mlp", "hidden": [24, 16], "norm": "batch"}
GPT = {"name": "gpt", "layers": 2, "heads": 2, "width": 16, "context": 16, "dropout": 0.1}
GOOGLENET = {"name": "googlenet", "width": "small"}
SGD = {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.0005}
ADAMW = {"name": "adamw", "learning_rate": 0.002, "weight_decay": 0.02}
ADAM = {"name": "adam", "learning_rate": 0.002, "weight_decay": 0.001}
MODELS = {"lenet": LENET, "mlp": MLP, "gpt": GPT, "googlenet": GOOGLENET}
OPTIMIZERS = {"sgd": SGD, "adamw": ADAMW}
PLATEAU = {
    "name": "plateau",
    "factor": 0.5,
    "patience": 0,
    "cooldown": 1,
    "threshold": 0.05,
    "min_learning_rate": 0.001,
    "monitor": "test_loss",
}


def spec_of(model: dict[str, Any], optimizer: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Eight steps an epoch."""
    data: dict[str, Any] = {"name": "digits", "train_samples": 128, "test_samples": 32}
    if model is GPT:
        data["name"] = "jargon"
    if model is GOOGLENET:
        data["resize"] = 32
    data |= more.pop("data", {})
    return {
        "model": model,
        "data": data,
        "optimizer": optimizer,
        "batch_size": 16,
        "epochs": 8,
        "seed": 23,
    } | more


@pytest.mark.parametrize(("name", "precision"), pairs_of(("lenet", "gpt"), ("fp32", "fp64")))
def test_gradients_are_clipped_as_by_clip_grad_norm(tmp_path: Path, name: str, precision: str) -> None:
    optimizer = (SGD if name == "lenet" else ADAM) | {"clip_norm": 0.1}
    witness = check_run(tmp_path, spec_of(MODELS[name], optimizer, precision=precision))
    # The last step's gradients still lie there, clipped to what was asked for.
    assert torch.nn.utils.get_total_norm([p.grad for p in witness.parameters]).item() == pytest.approx(0.1, rel=1e-4)


def test_clipping_sees_the_sum_over_micro_batches(tmp_path: Path) -> None:
    check_run(tmp_path, spec_of(LENET, SGD | {"clip_norm": 0.1}), parts=4)


def test_step_schedule_is_step_lr(tmp_path: Path) -> None:
    witness = check_run(tmp_path, spec_of(LENET, SGD, schedule={"name": "step", "every": 2, "gamma": 0.3}), second=31)
    assert witness.lr == 0.05 * 0.3 * 0.3


@pytest.mark.parametrize("first", [3, 9], ids=["from the warm-up", "from the cosine"])
def test_cosine_schedule_is_lambda_lr_of_its_formula(tmp_path: Path, first: int) -> None:
    schedule = {"name": "cosine", "warmup_steps": 5, "steps": 20, "min_learning_rate": 0.0007}
    witness = check_run(tmp_path, spec_of(MLP, ADAMW, schedule=schedule), first=first)
    assert witness.lr == 0.0007  # beyond its end


@pytest.mark.parametrize("monitor", ["test_loss", "train_loss", "test_accuracy"])
def test_plateau_schedule_is_reduce_lr_on_plateau(tmp_path: Path, monitor: str) -> None:
    schedule = PLATEAU | {"monitor": monitor}
    # A rate at which nothing gets better for long, on an end inside an epoch and a start with counters at work.
    optimizer = SGD | {"learning_rate": 0.4, "momentum": 0.95}
    witness = check_run(tmp_path, spec_of(MLP, optimizer, schedule=schedule), first=19, second=40)
    assert witness.lr < 0.4


@pytest.mark.parametrize(("name", "optimizer"), pairs_of(("lenet", "mlp", "gpt"), OPTIMIZERS))
def test_bfloat16_parameters(tmp_path: Path, name: str, optimizer: str) -> None:
    check_run(tmp_path, spec_of(MODELS[name], OPTIMIZERS[optimizer] | {"clip_norm": 1.0}, precision="bf16"))


@pytest.mark.parametrize(("name", "optimizer"), pairs_of(("lenet", "gpt", "googlenet"), OPTIMIZERS))
def test_autocast_to_bfloat16(tmp_path: Path, name: str, optimizer: str) -> None:
    check_run(tmp_path, spec_of(MODELS[name], OPTIMIZERS[optimizer], precision="autocast-bf16"))


def raise_loss_scale(file: Path) -> None:
    """To one that float16 gradients overflow with."""
    with h5py.File(file, "r+") as opened:
        opened["progress/loss_scale"][...] = 2.0**24


@pytest.mark.parametrize("name", ["lenet", "mlp"])
def test_float16_parameters_with_a_dynamic_loss_scale(tmp_path: Path, name: str) -> None:
    witness = check_run(tmp_path, spec_of(MODELS[name], SGD | {"clip_norm": 1.0}, precision="fp16"))
    assert witness.scaler is not None and witness.scaler.dynamic


def test_steps_that_overflow_are_skipped_until_the_scale_fits(tmp_path: Path) -> None:
    spec = spec_of(LENET, SGD, precision="fp16")
    saved, finished, steps, evaluations = run_and_trace(tmp_path, spec, 3, 20, alter=raise_loss_scale)
    witness = Witness(spec, saved)
    walk(witness, steps, evaluations)
    assert witness.scaler is not None and 1 <= witness.scaler.skipped < 20
    assert float(finished["progress/loss_scale"]) == witness.scaler.scale.item() < 2.0**24
    assert int(finished["progress/growth_tracker"]) == witness.scaler.good
    witness.check_state(finished)


def test_a_fixed_loss_scale_beyond_float16_skips_every_step(tmp_path: Path) -> None:
    witness = check_run(tmp_path, spec_of(LENET, SGD, precision="fp16", loss_scale=2.0**24))
    assert witness.scaler is not None and witness.scaler.skipped == 20
    assert not any(witness.optimizer.state.values())


@pytest.mark.parametrize("scale", [1024.0, 3000.1])
def test_a_fixed_loss_scale(tmp_path: Path, scale: float) -> None:
    witness = check_run(tmp_path, spec_of(MLP, SGD, precision="fp16", loss_scale=scale))
    assert witness.scaler is not None and witness.scaler.skipped == 0


def test_a_scale_is_doubled_after_2000_good_steps(tmp_path: Path) -> None:
    spec = spec_of(MLP, SGD | {"learning_rate": 0.001}, loss_scale="dynamic", epochs=400)
    witness = check_run(tmp_path, spec, first=1990)
    assert witness.scaler is not None and witness.scaler.scale.item() == 2 * 65536 and witness.scaler.good == 10


@pytest.mark.parametrize("overflows", [False, True], ids=["", "overflows"])
@pytest.mark.parametrize("name, optimizer", [("lenet", "sgd"), ("gpt", "adamw")])
def test_autocast_to_float16_with_torch_amp_grad_scaler(
    tmp_path: Path, name: str, optimizer: str, overflows: bool
) -> None:
    spec = spec_of(MODELS[name], OPTIMIZERS[optimizer] | {"clip_norm": 0.5}, precision="autocast-fp16")
    alter = raise_loss_scale if overflows else lambda file: None
    saved, finished, steps, _ = run_and_trace(tmp_path, spec, 3, 20, alter=alter)
    witness = Witness(spec, saved)
    scaler = torch.amp.GradScaler("cpu")
    scaler.load_state_dict(
        scaler.state_dict()
        | {"scale": float(saved["progress/loss_scale"]), "_growth_tracker": int(saved["progress/growth_tracker"])}
    )
    for step in steps:
        witness.model.train()
        witness.optimizer.zero_grad()
        witness.context.step, witness.context.samples = witness.done, step["indices"]
        loss = witness.loss(*witness.data.train_batch(step["indices"], step["epoch"]))
        assert float.fromhex(step["loss"]) == loss.item(), f"step {step['step']}"
        scaler.scale(loss).backward()
        scaler.unscale_(witness.optimizer)
        torch.nn.utils.clip_grad_norm_(witness.parameters, 0.5)
        scaler.step(witness.optimizer)
        scaler.update()
        witness.done += 1
    witness.check_state(finished)
    assert float(finished["progress/loss_scale"]) == scaler.get_scale()
    assert (scaler.get_scale() < saved["progress/loss_scale"]) == overflows
    assert int(finished["progress/growth_tracker"]) == scaler.state_dict()["_growth_tracker"]


@pytest.mark.parametrize("changes", [{}, {"resize": 13, "prefetch": 3}], ids=["plain", "resized"])
def test_augmented_images(tmp_path: Path, changes: dict[str, int]) -> None:
    data = {"crop_padding": 2, "flip": True} | changes
    check_run(tmp_path, spec_of(LENET, SGD, data=data))
