"""What an earlier version of bitrift-train wrote (tests/data/earlier), checkpoints and a campaign, is resumed as then.

Which bits a training gives depends on the kernels that LibTorch chooses for a processor. So losses and digests must be
equal to the bit where processor and LibTorch are those that the samples were computed with, as /proc/cpuinfo and
bitrift-train describe them; elsewhere losses may differ by 1e-5 of their value, under float16 by 1e-2, and replays of
whole campaign rows are skipped. Data order, steps and number of evaluations are the same everywhere.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import earlier_support as support
import h5py
import pytest
import train_support
from earlier_support import call, expected, refused
from train_support import PROGRAM, read_trace

SAMPLES = expected("training")
COMPUTED_ON = SAMPLES["computed_on"]
TOLERANCES = {"adam": 1e-5, "fp16": 1e-2, "replicas": 1e-5}
VOLATILE = ("checkpoint", "load_seconds", "save_seconds", "seconds")


def same_kernels(provenance: Path) -> bool:
    """Whether a file was computed as the samples were; provenance is what bitrift-train wrote beside it."""
    environment = json.loads(provenance.read_text())["environment"]
    here = {"processor": support.processor()} | {key: environment[key] for key in ("cpu_capability", "libtorch")}
    return here == COMPUTED_ON


def kinds_of(path: Path) -> dict[str, tuple[object, ...]]:
    """Type and shape of every tensor of a checkpoint."""
    return {name: (value.dtype, value.shape) for name, value in train_support.tensors(path).items()}


def resumed(folder: Path, name: str) -> dict[str, Any]:
    """Resumes a copy of a sample to its end; leaves end.h5 and trace.jsonl."""
    options = SAMPLES["resumed"][name]["options"]
    result = train_support.run("resume", f"{name}.h5", *options, "--trace", "trace.jsonl", "-o", "end.h5", cwd=folder)
    return {key: value for key, value in result.items() if key not in VOLATILE}


@pytest.mark.parametrize("name", support.CHECKPOINTS)
def test_checkpoint_resumes_to_the_same_losses(tmp_path: Path, name: str) -> None:
    folder = support.copied("training", tmp_path)
    result = resumed(folder, name)
    assert kinds_of(folder / "end.h5") == kinds_of(folder / f"{name}.h5")
    _, steps, evaluations = read_trace(folder / "trace.jsonl")
    _, steps_before, evaluations_before = read_trace(folder / f"{name}.trace.jsonl")
    assert [step["indices"] for step in steps] == [step["indices"] for step in steps_before]
    if same_kernels(folder / "end.h5.json"):
        assert result == SAMPLES["resumed"][name]["result"]
        assert (folder / "trace.jsonl").read_bytes() == (folder / f"{name}.trace.jsonl").read_bytes()
        return
    assert (result["status"], result["steps"]) == ("done", SAMPLES["resumed"][name]["result"]["steps"])
    for key in ("loss", "lr"):
        values, before = ([float.fromhex(step[key]) for step in some] for some in (steps, steps_before))
        assert values == pytest.approx(before, rel=TOLERANCES[name])
    losses, before = ([one["test_loss"] for one in some] for some in (evaluations, evaluations_before))
    assert losses == pytest.approx(before, rel=TOLERANCES[name])


@pytest.mark.parametrize(
    "trial",
    [
        "serial/weight.exponent_msb/0",
        "serial/momentum.0-4/3",
        "guarded-bf16/weight.exponent_msb/1",
        "data-2/weight.0-4/2",
    ],
)
def test_replay_gives_the_row_of_the_journal(tmp_path: Path, trial: str) -> None:
    folder = support.campaigns(tmp_path)
    train_support.run("resume", "trained/base.h5", "--steps", 0, "-o", "same.h5", cwd=folder)
    if not same_kernels(folder / "same.h5.json"):
        pytest.skip("the samples were computed with kernels for another processor")
    call(folder, "campaign", "replay", "trained", trial)


@pytest.mark.parametrize("schema", ["bitrift/checkpoint/9", "other/1"])
def test_checkpoint_of_an_unknown_schema_is_refused(tmp_path: Path, schema: str) -> None:
    folder = support.copied("training", tmp_path)
    shutil.copy(folder / "adam.h5", folder / "later.h5")
    with h5py.File(folder / "later.h5", "r+") as file:
        file.attrs["schema"] = schema
    refused(folder, "resume", "later.h5", program=PROGRAM, says=f"bitrift/checkpoint/1, found {schema}")
