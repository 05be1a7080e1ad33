"""Python PyTorch continues from files of every format, read by the format's own library, with the same losses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from format_support import FORMATS, WITHOUT_BFLOAT16
from witness_run import check_run

MODELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "lenet": ({"name": "lenet"}, {"name": "adam", "learning_rate": 0.002, "weight_decay": 0.001}),
    "mlp": (
        {"name": "mlp", "hidden": [24, 16], "norm": "batch"},
        {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.0005},
    ),
}


# Each format once; precisions take turns.
CASES = [
    pytest.param(kind, precision, marks=[pytest.mark.thorough] * (i % 3 != j))
    for i, kind in enumerate(kind for kind in FORMATS if kind != "hdf5")
    for j, precision in enumerate(("fp32", "bf16", "fp64"))
    if precision != "bf16" or kind not in WITHOUT_BFLOAT16
]


@pytest.mark.parametrize(("kind", "precision"), CASES)
def test_the_losses_are_those_of_python(tmp_path: Path, kind: str, precision: str) -> None:
    for name, (model, optimizer) in MODELS.items():
        folder = tmp_path / name
        folder.mkdir()
        data = {"name": "digits", "train_samples": 128, "test_samples": 32}
        spec = {"model": model, "data": data, "optimizer": optimizer, "batch_size": 16, "epochs": 8, "seed": 23}
        check_run(folder, spec | {"precision": precision}, second=12, kind=kind)
