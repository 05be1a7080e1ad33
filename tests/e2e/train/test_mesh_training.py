"""Replicas on a mesh of chips: the sums of a schedule, chips that die in mid-training, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from failure_support import Ended, digest, fail_ranks
from train_support import LENET, SGD, call, run, write_spec

HOLE = ("--mesh", "4x4", "--dead", "1,1,2x2")  # 12 chips alive
SMALL = ("--mesh", "2x3", "--dead", "0,0")  # 5 chips alive, none of them a ring


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """The file and the result of a run on HOLE in which no chip dies."""
    folder = tmp_path_factory.mktemp("golden")
    spec = spec_of(folder / "golden.json", 48, 8)
    return folder / "golden.h5", run("train", spec, "-o", folder / "golden.h5", *HOLE)


def spec_of(path: Path, batch: int, steps: int, **changes: object) -> Path:
    data = {"name": "digits", "train_samples": batch * steps, "test_samples": 96}
    return write_spec(path, LENET, SGD, data=data, batch_size=batch, **changes)


def losses(path: Path) -> np.ndarray:
    """By step, from a trace."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return np.array([float.fromhex(row["loss"]) for row in rows if "loss" in row])


def trained(folder: Path, name: str, spec: Path, *options: object) -> tuple[np.ndarray, dict]:
    trace = folder / f"{name}.jsonl"
    result = run("train", spec, "-o", folder / f"{name}.h5", "--trace", trace, *options)
    return losses(trace), result


def accuracy(result: dict) -> float:
    return result["replicas"][0][-1]["test_accuracy"]


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("fp64", 1e-12)])
def test_losses_are_those_of_the_ordered_sum(tmp_path: Path, precision: str, tolerance: float) -> None:
    spec = spec_of(tmp_path / "spec.json", 48, 8, precision=precision)
    expected, plain = trained(tmp_path, "plain", spec, "--parallel", "data", "--ranks", 12)
    found, result = trained(tmp_path, "trees", spec, *HOLE)
    assert len(found) == len(expected) == 16
    assert np.all(np.abs(found - expected) <= tolerance)
    assert np.any(found != expected), "the order of the sums makes no difference: is the schedule used?"
    assert abs(accuracy(result) - accuracy(plain)) <= 1 / 96
    assert result["parallel"]["ranks"] == 12
    assert result["parallel"]["mesh"]["schedule"] == "trees"
    assert len(set(result["replica_digests"])) == 1


def test_repeats_have_equal_bits_and_schedules_differ(tmp_path: Path) -> None:
    spec = spec_of(tmp_path / "spec.json", 48, 6)
    once, _ = trained(tmp_path, "once", spec, *HOLE, "--schedule", "ring")
    _, again = trained(tmp_path, "again", spec, *HOLE, "--schedule", "ring", "--check-replicas")
    assert digest(tmp_path / "once.h5") == digest(tmp_path / "again.h5")
    assert len(set(again["replica_digests"])) == 1
    other, _ = trained(tmp_path, "other", spec, *HOLE, "--schedule", "forwarding")
    assert np.all(np.abs(once - other) <= 1e-5)
    assert digest(tmp_path / "once.h5") != digest(tmp_path / "other.h5")


def test_the_spec_and_the_options_describe_the_same_mesh(tmp_path: Path) -> None:
    mesh = {"rows": 2, "columns": 3, "wrap": "rows", "dead": ["0,0"], "dead_links": ["0,1-1,1"], "schedule": "trees"}
    by_spec = spec_of(tmp_path / "mesh.json", 40, 4, parallel={"kind": "data", "mesh": mesh})
    by_options = spec_of(tmp_path / "plain.json", 40, 4)
    first = run("train", by_spec, "-o", tmp_path / "spec.h5")
    words = (*SMALL, "--wrap", "rows", "--dead-link", "0,1-1,1")
    second = run("train", by_options, "-o", tmp_path / "options.h5", *words)
    assert first["parallel"] == second["parallel"]
    assert first["parallel"]["mesh"]["dead_links"] == ["0,1-1,1"]
    assert digest(tmp_path / "spec.h5") == digest(tmp_path / "options.h5")


def test_a_checkpoint_resumes_on_another_mesh(tmp_path: Path) -> None:
    spec = spec_of(tmp_path / "spec.json", 40, 4, parallel={"kind": "data", "mesh": {"rows": 1, "columns": 5}})
    run("train", spec, "-o", tmp_path / "base.h5", "--epochs", 1)
    on_mesh = run("resume", tmp_path / "base.h5", "-o", tmp_path / "mesh.h5", *SMALL)
    alone = run("resume", tmp_path / "base.h5", "-o", tmp_path / "alone.h5", "--parallel", "serial")
    difference = float.fromhex(on_mesh["last_loss"]) - float.fromhex(alone["last_loss"])
    assert abs(difference) <= 1e-5


def shrunk(ended: Ended, ranks: list[int]) -> dict:
    """The result of a run that lost these chips and went on without them."""
    assert not ended.hangs, ended.err
    assert ended.left == 0, ended.command
    result = ended.json()
    assert sorted(rank for one in result["recoveries"] for rank in one["failed"]) == ranks
    assert len(set(result["replica_digests"])) == 1
    return result


def parameters(path: Path) -> np.ndarray:
    found: list[np.ndarray] = []
    with h5py.File(path) as file:
        file["model"].visititems(
            lambda _, item: found.append(item[()].ravel()) if isinstance(item, h5py.Dataset) else None
        )
    return np.concatenate(found)


def near(result: dict, golden: dict) -> None:
    """Losses of all epochs are those of another order of additions."""
    assert [row["step"] for row in result["replicas"][0]] == [row["step"] for row in golden["replicas"][0]]
    for row, expected in zip(result["replicas"][0], golden["replicas"][0], strict=True):
        assert abs(row["train_loss"] - expected["train_loss"]) <= 1e-5
        assert abs(row["test_loss"] - expected["test_loss"]) <= 1e-5


@pytest.mark.parametrize("phase", ["backward", "reduce", "update"])
def test_a_chip_that_dies_is_routed_around(tmp_path: Path, golden: tuple[Path, dict], phase: str) -> None:
    file, expected = golden
    words = (*HOLE, "--on-failure", "shrink", "--kill", f"5@5:{phase}", "--json")
    results = []
    for name in ("out.h5", "again.h5"):
        results.append(shrunk(fail_ranks("train", file.with_suffix(".json"), "-o", tmp_path / name, *words), [5]))
    near(results[0], expected)
    assert results[0]["recoveries"][0]["ranks_after"] == 11
    assert np.allclose(parameters(tmp_path / "out.h5"), parameters(file), rtol=0, atol=1e-5)
    # Which chip noticed first, and how far the others were, does not show in the bits.
    assert digest(tmp_path / "again.h5") == digest(tmp_path / "out.h5") != digest(file)


def test_a_smaller_batch_is_that_of_a_run_on_the_chips_that_are_left(tmp_path: Path) -> None:
    spec = spec_of(tmp_path / "spec.json", 40, 8)
    base, step3 = tmp_path / "base.h5", tmp_path / "step3.h5"
    run("train", spec, "-o", base, "--epochs", 1)
    options = ("--on-failure", "shrink", "--batch-on-failure", "smaller", "--kill", "2@4:backward", "--json")
    shrunk(fail_ranks("resume", base, "-o", tmp_path / "out.h5", "--epochs", 1, *SMALL, *options), [2])
    run("resume", base, "-o", step3, "--steps", 3, *SMALL)
    # Rank 2 is the third live chip: chip 3, in row 1 and column 0.
    left = (*SMALL, "--dead", "1,0", "--batch-size", 32)
    run("resume", step3, "-o", tmp_path / "fresh.h5", "--epochs", 1, *left)
    assert digest(tmp_path / "out.h5") == digest(tmp_path / "fresh.h5")


def test_another_process_on_the_chip_keeps_the_schedule(tmp_path: Path) -> None:
    spec = spec_of(tmp_path / "spec.json", 40, 6)
    run("train", spec, "-o", tmp_path / "golden.h5", *SMALL)
    words = (*SMALL, "--on-failure", "spare", "--kill", "2@5:reduce", "--json")
    shrunk(fail_ranks("train", spec, "-o", tmp_path / "out.h5", *words), [2])
    assert digest(tmp_path / "out.h5") == digest(tmp_path / "golden.h5")


def test_two_chips_die_one_after_the_other(tmp_path: Path) -> None:
    spec = spec_of(tmp_path / "spec.json", 36, 6)
    expected = run("train", spec, "-o", tmp_path / "golden.h5", "--mesh", "3x3")
    words = ("--mesh", "3x3", "--on-failure", "shrink", "--kill", "4@3:reduce", "--kill", "7@6:backward", "--json")
    near(shrunk(fail_ranks("train", spec, "-o", tmp_path / "out.h5", *words), [4, 7]), expected)


@pytest.mark.parametrize(
    ("mesh", "victim", "words"),
    [
        (("--mesh", "1x3"), 1, ("rank 1 failed", "chip 2 (row 0, column 2) cannot be reached")),
        (("--mesh", "2x2", "--schedule", "ring"), 0, ("rank 0 failed", "there is no ring")),
    ],
)
def test_what_is_left_cannot_be_served(tmp_path: Path, mesh: tuple[str, ...], victim: int, words: list[str]) -> None:
    spec = spec_of(tmp_path / "spec.json", 36, 6)
    options = (*mesh, "--on-failure", "shrink", "--kill", f"{victim}@3:reduce")
    ended = fail_ranks("train", spec, "-o", tmp_path / "out.h5", *options)
    assert not ended.hangs and ended.left == 0
    assert ended.code == 1
    (line,) = ended.errors
    assert all(word in line for word in ("cannot continue", *words)), line
    assert not (tmp_path / "out.h5").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--mesh", "3x3x4"), ("3x3x4", "ROWSxCOLUMNS")),
        (("--mesh", "4x4", "--dead", "4,0"), ("row 4, column 0", "not inside the mesh")),
        (("--mesh", "3x3", "--schedule", "ring"), ("parallel.mesh: ring", "9 live chips")),
        (("--mesh", "1x3", "--dead", "0,1"), ("parallel.mesh", "cannot be reached")),
        (("--mesh", "2x2", "--ranks", "3"), ("3 ranks", "4 live chips")),
        (("--mesh", "1x5"), ("cannot be split evenly over 5",)),
        (("--mesh", "2x2", "--schedule", "1f1b"), ("--schedule 1f1b", "trees")),
        (("--mesh", "2x2", "--parallel", "pipeline"), ("--mesh", "pipeline")),
        (("--dead", "0,0"), ("--mesh",)),
        (("--schedule", "trees"), ("--mesh",)),
    ],
)
def test_refusals(tmp_path: Path, options: tuple[str, ...], words: tuple[str, ...]) -> None:
    spec = spec_of(tmp_path / "spec.json", 36, 4)
    ended = call("train", spec, "-o", tmp_path / "out.h5", *options)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert all(word in line for word in words), line
    assert not (tmp_path / "out.h5").exists()


@pytest.mark.parametrize(
    ("parallel", "words"),
    [
        ({"kind": "serial", "mesh": {"rows": 1, "columns": 1}}, ("a serial run has no 'mesh'",)),
        ({"kind": "data", "mesh": {"rows": 2}}, ("parallel.mesh", "columns")),
        ({"kind": "data", "ranks": 3, "mesh": {"rows": 2, "columns": 2}}, ("3 ranks", "4 live chips")),
        ({"kind": "data", "mesh": {"rows": 2, "columns": 2, "dead": ["2,0"]}}, ("parallel.mesh", "row 2, column 0")),
        ({"kind": "data", "mesh": {"rows": 0, "columns": 2}}, ("parallel.mesh.rows",)),
        ({"kind": "data", "mesh": {"rows": 2, "columns": 2, "schedule": "other"}}, ("schedule", "rings-2d")),
    ],
)
def test_mistakes_in_a_spec(tmp_path: Path, parallel: dict, words: tuple[str, ...]) -> None:
    spec = spec_of(tmp_path / "spec.json", 36, 4, parallel=parallel)
    ended = call("train", spec, "-o", tmp_path / "out.h5")
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert all(word in line for word in words), line
