"""Optimizer state sharded over replicas: who holds what, what the files hold, and what is refused."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from train_support import call, run, write_spec

ADAMW = {"name": "adamw", "learning_rate": 0.002}
SGD = {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9}
DATA = {"name": "digits", "train_samples": 144, "test_samples": 24}
STEPS = 5
SHARDS = ("--parallel", "data", "--ranks", 2, "--shard-optimizer")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """plain.h5 and shards.h5: the same training, the second one as its spec says it."""
    folder = tmp_path_factory.mktemp("trained")
    for name, sharded in (("plain", False), ("shards", True)):
        more = {"batch_size": 24, "parallel": {"kind": "data", "ranks": 2, "shard_optimizer": sharded}}
        spec = write_spec(folder / f"{name}.json", {"name": "lenet"}, ADAMW, data=DATA, **more)
        run("train", spec, "-o", folder / f"{name}.h5", "--steps", STEPS)
    return folder


def owners(shapes: dict[str, tuple[int, ...]], ranks: int) -> dict[str, int]:
    """The rule of docs/training.md: the largest first, each to the rank with the least, ties in their order."""
    loads = [0] * ranks
    found = {}
    for key in sorted(shapes, key=lambda key: -math.prod(shapes[key])):
        found[key] = loads.index(min(loads))
        loads[found[key]] += math.prod(shapes[key])
    return found


def test_the_file_is_that_of_a_run_without_shards(folder: Path) -> None:
    assert (folder / "shards.h5").read_bytes() == (folder / "plain.h5").read_bytes()
    sidecars = [json.loads((folder / f"{name}.h5.json").read_text())["parallel"] for name in ("plain", "shards")]
    assert "shard_optimizer" not in sidecars[0] and sidecars[1]["shard_optimizer"] is True


def test_each_rank_reads_the_state_that_the_rule_gives_it(folder: Path, tmp_path: Path) -> None:
    """A rank names the tensors that it reads and whose checksums are wrong: here those of all optimizer state."""
    damaged = tmp_path / "damaged.h5"
    shutil.copy(folder / "shards.h5", damaged)
    with h5py.File(damaged, "r+") as file:
        paths = [path.decode() for path in file["checksum/path"][()]]
        sums = file["checksum/crc32c"][()]
        chosen = [path.startswith("optimizer/") for path in paths]
        file["checksum/crc32c"][...] = np.where(chosen, sums ^ 1, sums)
        # LeNet's parameters in the order of the model; h5py lists them by name.
        order = [f"{layer}.{part}" for layer in ("conv1", "conv2", "fc1", "fc2", "fc3") for part in ("weight", "bias")]
        shapes = {key: file[f"model/{key}"].shape for key in order}
        assert set(shapes) == set(file["model"])
    for ranks in (2, 3):
        options = ("--parallel", "data", "--ranks", ranks, "--shard-optimizer", "--guard", "checksums")
        alarms = run("resume", damaged, "--steps", 0, *options)["alarms"]
        found = sorted((alarm["tensor"], alarm["rank"]) for alarm in alarms)
        slots = ("exp_avg", "exp_avg_sq", "step")
        assert found == sorted(
            (f"optimizer/{slot}/{key}", rank) for key, rank in owners(shapes, ranks).items() for slot in slots
        )
        # What `describe` says of it.
        described = run("describe", folder / "plain.json", *options[:5])["optimizer_bytes"]
        expected = [0] * ranks
        for key, rank in owners(shapes, ranks).items():
            expected[rank] += 2 * 4 * math.prod(shapes[key]) + 4
        assert described == expected
    whole = run("describe", folder / "plain.json")["optimizer_bytes"]
    assert whole == [sum(expected)] * 2


def test_more_ranks_than_tensors_go_on_from_the_file_of_one(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "four-tensors.json", {"name": "mlp", "hidden": [4]}, SGD, data=DATA, batch_size=25)
    run("train", spec, "-o", tmp_path / "begun.h5", "--steps", 2)
    ends = [tmp_path / "plain.h5", tmp_path / "shards.h5"]
    options = ("--steps", 2, "--parallel", "data", "--ranks", 5)
    run("resume", tmp_path / "begun.h5", "-o", ends[0], *options)
    shards = ("--shard-optimizer", "--checkpoint-writer", "shared", "--check-replicas")
    run("resume", tmp_path / "begun.h5", "-o", ends[1], *options, *shards)
    assert ends[0].read_bytes() == ends[1].read_bytes()


def test_a_job_that_is_launched_again_goes_on_from_its_file(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "again.h5"
    options = ("--kill", "1@4:update.3", "--on-failure", "relaunch", "--checkpoint-every", 2)
    result = run("train", folder / "shards.json", "-o", out, "--steps", STEPS, *options)
    (recovery,) = result["recoveries"]
    assert recovery["failed"] == [1] and recovery["step"] == 2
    assert out.read_bytes() == (folder / "plain.h5").read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--parallel", "data", "--ranks", 1, "--shard-optimizer"), "this run has one; leave it out"),
        (("--shard-optimizer",), "--shard-optimizer has no meaning for a serial run"),
        ((*SHARDS, "--on-failure", "respawn"), "choose relaunch, or drop shard_optimizer"),
        ((*SHARDS, "--replica-file", "1=other.h5"), "--replica-file cannot be combined with --shard-optimizer"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(folder: Path, options: tuple, message: str) -> None:
    done = call("resume", folder / "plain.h5", "--steps", 1, *options)
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_replicas_that_differ_are_refused_unless_all_take_the_first_one(folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "differ.h5"
    shutil.copy(folder / "plain.h5", saved)
    with h5py.File(saved, "r+") as file:
        file.attrs["replicas"] = "2"
        path = "optimizer/exp_avg/fc1.bias"
        file[f"replica/1/{path}"] = file[path][()] + 1
    done = call("resume", saved, "--steps", 0, *SHARDS)
    assert done.returncode == 2 and f"holds 2 replicas that differ in {path}" in done.stderr, done.stderr
    three = ("--parallel", "data", "--ranks", 3, "--shard-optimizer")
    run("resume", saved, "--steps", 0, "-o", tmp_path / "first.h5", *three)
    assert (tmp_path / "first.h5").read_bytes() == (folder / "plain.h5").read_bytes()
