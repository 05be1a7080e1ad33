"""Every model family, optimizer and width of floating point: Python PyTorch has the same bits at every step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from witness_run import check_run

TEXT = {"layers": 2, "heads": 2, "width": 16, "context": 16, "dropout": 0.1}
LLAMA = {"name": "llama", "layers": 2, "heads": 4, "kv_heads": 1, "width": 16, "context": 16}
SMALL = {"width": "small"}
# model, side of the images (0: the digits' own 8 pixels)
FAMILIES: dict[str, tuple[dict[str, Any], int]] = {
    "mlp": ({"name": "mlp", "hidden": [24, 16], "norm": "batch"}, 0),
    "lenet": ({"name": "lenet"}, 0),
    "resnet20": ({"name": "resnet20"} | SMALL, 0),
    "resnet18-cifar": ({"name": "resnet18", "stem": "cifar"} | SMALL, 0),
    "resnet18-imagenet": ({"name": "resnet18", "stem": "imagenet"} | SMALL, 32),
    "resnet50-cifar": ({"name": "resnet50", "stem": "cifar"} | SMALL, 0),
    "resnet50-imagenet": ({"name": "resnet50", "stem": "imagenet"} | SMALL, 32),
    "alexnet": ({"name": "alexnet"} | SMALL, 64),
    "vgg16": ({"name": "vgg16"} | SMALL, 32),
    "vgg16_bn": ({"name": "vgg16_bn"} | SMALL, 32),
    "googlenet": ({"name": "googlenet", "auxiliary": True} | SMALL, 32),
    "gpt": ({"name": "gpt"} | TEXT, 0),
    "bert": ({"name": "bert"} | TEXT, 0),
    "llama": (LLAMA, 0),
    "llama-tied": (LLAMA | {"heads": 6, "kv_heads": 2, "width": 24, "feed_forward": 40, "tied": True}, 0),
}
OPTIMIZERS = {
    "sgd": {"name": "sgd", "learning_rate": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 0.0005},
    "adamw": {"name": "adamw", "learning_rate": 0.002, "weight_decay": 0.02},
}


def data_of(model: str, side: int) -> dict[str, Any]:
    data: dict[str, Any] = {"name": "digits", "train_samples": 128, "test_samples": 32}
    if side:
        data["resize"] = side
    if model in ("gpt", "bert", "llama"):
        data["name"] = "jargon"
    if model == "bert":
        data["mask_fraction"] = 0.15
    return data


# Each family once; optimizers and precisions take turns.
CASES = [
    pytest.param(family, optimizer, precision, marks=[pytest.mark.thorough] * (i % 4 != 2 * j + k))
    for i, family in enumerate(FAMILIES)
    for j, optimizer in enumerate(OPTIMIZERS)
    for k, precision in enumerate(("fp32", "fp64"))
]


@pytest.mark.parametrize(("family", "optimizer", "precision"), CASES)
def test_python_has_the_same_bits(tmp_path: Path, family: str, optimizer: str, precision: str) -> None:
    model, side = FAMILIES[family]
    spec = {
        "model": model,
        "data": data_of(model["name"], side),
        "optimizer": OPTIMIZERS[optimizer],
        "precision": precision,
        "batch_size": 16,
        "epochs": 2,
        "seed": 2**40 + 7,
    }
    check_run(tmp_path, spec, second=8)  # past the end of an epoch
