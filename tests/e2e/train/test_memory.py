"""Peak resident memory: a stage holds its own parameters only; loading and saving need one tensor beyond the state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from train_support import PROGRAM, mpirun_program, run, write_spec

WIDTH = 3072
# Two square layers of 36 MiB hold nearly all parameters, and one is the largest tensor.
LARGE = {"name": "mlp", "hidden": [WIDTH, WIDTH, WIDTH]}
SMALL = {"name": "mlp", "hidden": [8, 8, 8]}
PLAIN = {"name": "sgd", "learning_rate": 0.01}
TENSOR = WIDTH * WIDTH * 4
STATE = 2 * TENSOR
# Pages of libraries, allocators and messages.
SLACK = 24 << 20

# Runs a command and prints the largest resident size that it had, in KiB.
WATCH = """
import json, os, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps({"rank": int(os.environ.get("OMPI_COMM_WORLD_RANK", 0)), "peak": peak}), flush=True)
sys.exit(done.returncode)
"""


def peaks(*arguments: object, ranks: int = 1) -> list[int]:
    """Peak resident bytes of every rank of a bitrift-train command."""
    command = [sys.executable, "-c", WATCH, str(PROGRAM), *map(str, arguments)]
    if ranks > 1:
        command = [mpirun_program(), "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *command]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=os.environ | root)
    assert done.returncode == 0, done.stderr
    found = {row["rank"]: row["peak"] << 10 for row in map(json.loads, done.stdout.splitlines())}
    assert sorted(found) == list(range(ranks)), found
    return [found[rank] for rank in range(ranks)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    found = {}
    for name, model in (("large", LARGE), ("small", SMALL)):
        spec = write_spec(folder / f"{name}.json", model, PLAIN)
        found[name] = folder / f"{name}.h5"
        run("train", spec, "-o", found[name], "--steps", 0)
    return found


def test_load_and_save_need_the_state_and_one_tensor(files: dict[str, Path], tmp_path: Path) -> None:
    base = peaks("resume", files["small"], "--steps", 0, "-o", tmp_path / "small.h5")[0]
    load = peaks("resume", files["large"], "--steps", 0)[0] - base
    both = peaks("resume", files["large"], "--steps", 0, "-o", tmp_path / "large.h5")[0] - base
    print(f"base {base >> 20} MiB, state {STATE >> 20}, load {load >> 20}, load and save {both >> 20}")
    assert STATE <= load <= STATE + TENSOR + SLACK
    assert STATE <= both <= STATE + TENSOR + SLACK


def test_a_stage_holds_its_parameters_only(files: dict[str, Path], tmp_path: Path) -> None:
    options = ["--parallel", "pipeline", "--ranks", "2", "--steps", 0]
    base = peaks("resume", files["small"], *options, "-o", tmp_path / "small.h5", ranks=2)
    large = peaks("resume", files["large"], *options, "-o", tmp_path / "large.h5", ranks=2)
    more = [large[rank] - base[rank] for rank in range(2)]
    print(f"base {[b >> 20 for b in base]} MiB, state {STATE >> 20}, beyond it {[m >> 20 for m in more]}")
    # Each stage has one of the two layers. Rank 0 also writes: one tensor of the other stage at a time.
    assert TENSOR <= more[1] <= TENSOR + SLACK
    assert TENSOR <= more[0] <= 2 * TENSOR + SLACK
    load = peaks("resume", files["large"], *options, ranks=2)[0] - base[0]
    assert TENSOR <= load <= TENSOR + SLACK


def test_a_stage_computes_its_parameters_only(files: dict[str, Path], tmp_path: Path) -> None:
    """A step holds the gradients too; rank 0, which saves, one tensor of the other stage."""
    spec = [files[name].with_suffix(".json") for name in ("small", "large")]
    options = ["--parallel", "pipeline", "--ranks", "2", "--steps", 1, "-o", tmp_path / "out.h5"]
    base = peaks("train", spec[0], *options, ranks=2)
    large = peaks("train", spec[1], *options, ranks=2)
    alone = peaks("train", spec[0], "--steps", 1, "-o", tmp_path / "out.h5")[0]
    whole = peaks("train", spec[1], "--steps", 1, "-o", tmp_path / "out.h5")[0] - alone
    more = [large[rank] - base[rank] for rank in range(2)]
    print(f"a step needs {[m >> 20 for m in more]} MiB beyond a small model's on two stages, {whole >> 20} on one")
    for stage in more:
        assert 2 * TENSOR <= stage <= 3 * TENSOR + SLACK
    assert whole >= 4 * TENSOR
