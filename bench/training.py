"""Step times of bitrift-train and of plain Python PyTorch, for the scripts beside this one.

A step of bitrift-train is (time of WARM + N steps - time of WARM steps) / N, each from a run of its own: loading, the
first steps, evaluation and digests fall out of the difference. Python times N steps after WARM steps in one process.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
WARM = 10

Task = dict[str, Any]  # model and data of a training spec

LENET: Task = {"model": {"name": "lenet"}, "data": {"name": "digits", "test_samples": 1}}
RESNET20: Task = {"model": {"name": "resnet20"}, "data": {"name": "fashion-mnist", "test_samples": 1}}
GPT: Task = {
    "model": {"name": "gpt", "layers": 4, "heads": 4, "width": 128, "context": 64},
    "data": {"name": "jargon", "test_samples": 1},
}
SGD = {"name": "sgd", "learning_rate": 0.01, "momentum": 0.9, "weight_decay": 0.0005}
ADAMW = {"name": "adamw", "learning_rate": 0.001}


@dataclass(frozen=True)
class Cost:
    """The cost of one step, in seconds. Processor time counts all threads, and all ranks where there are several."""

    wall: float
    processor: float


def program() -> str:
    """$BITRIFT_BIN_DIR/bitrift-train, or the release build's."""
    path = Path(os.environ.get("BITRIFT_BIN_DIR", ROOT / "build" / "release" / "bin")) / "bitrift-train"
    if not path.is_file():
        raise SystemExit(f"{path} is not there: build it (cmake --build --preset release) or set BITRIFT_BIN_DIR")
    return str(path)


def write_spec(folder: Path, task: Task, optimizer: dict[str, Any], batch: int, **more: Any) -> Path:
    path = Path(tempfile.mkstemp(".json", dir=folder)[1])
    spec = {"optimizer": optimizer, "batch_size": batch, "epochs": 100_000, "seed": 1} | task | more
    path.write_text(json.dumps(spec))
    return path


def call(*arguments: object) -> dict[str, Any]:
    """The JSON that bitrift-train prints."""
    command = [program(), *map(str, arguments), "--json"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def children_time() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def bitrift_step(spec: Path, steps: int, *options: str) -> Cost:
    """A step of `bitrift-train train` with these options."""

    def run(count: int) -> Cost:
        before = children_time()
        wall = call("train", spec, "-o", spec.with_suffix(".h5"), "--steps", count, *options)["seconds"]
        return Cost(wall, children_time() - before)

    short, long = run(WARM), run(WARM + steps)
    return Cost((long.wall - short.wall) / steps, (long.processor - short.processor) / steps)


def torch_step(spec: Path, steps: int, *options: str, ranks: int = 1) -> Cost:
    """A step of torch_steps.py on one thread a rank; of several ranks the slowest counts."""
    with tempfile.TemporaryDirectory() as meeting:
        command = [sys.executable, str(HERE / "torch_steps.py"), str(spec), str(WARM), str(steps), *options]
        children = []
        for rank in range(ranks):
            more = ["--rank", str(rank), "--ranks", str(ranks), "--meeting", f"{meeting}/store"] if ranks > 1 else []
            children.append(subprocess.Popen([*command, *more], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE))
        rows = [json.loads(child.communicate()[0]) for child in children]
    return Cost(max(row["wall"] for row in rows) / steps, sum(row["processor"] for row in rows) / steps)


def compare(title: str, runs: Mapping[str, Callable[[], Cost]], repetitions: int) -> dict[str, Cost]:
    """Medians of runs that take turns. Prints them, and the ratio of the first one's to each other one's."""
    costs: dict[str, list[Cost]] = {name: [] for name in runs}
    for _ in range(repetitions):
        for name, run in runs.items():
            costs[name].append(run())
    print(f"{title} (median of {repetitions}, {platform.machine()}, {os.cpu_count()} cores)")
    medians = {
        name: Cost(statistics.median(c.wall for c in all_), statistics.median(c.processor for c in all_))
        for name, all_ in costs.items()
    }
    first = next(iter(medians.values()))
    for name, all_ in costs.items():
        median, walls = medians[name], [c.wall for c in all_]
        print(
            f"  {name:<30} {median.wall * 1e3:9.3f} ms a step ({min(walls) * 1e3:.3f} .. {max(walls) * 1e3:.3f}),"
            f" processor {median.processor * 1e3:9.3f} ms",
            end="",
        )
        if median is first:
            print()
        else:
            print(f"   ratio {first.wall / median.wall:.3f}, processor {first.processor / median.processor:.3f}")
    sys.stdout.flush()
    return medians
