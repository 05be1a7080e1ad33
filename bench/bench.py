"""Timing of whole commands, side by side in one run.

Commands take turns, so that a slow moment of the machine hits all of them. What is printed is the median, the fastest
and the slowest of the repetitions, and the ratio of each median to the first command's.
"""

from __future__ import annotations

import math
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).resolve().parents[1]


def bitrift() -> str:
    """The program under test: $BITRIFT_BIN_DIR/bitrift, or the release build's."""
    path = Path(os.environ.get("BITRIFT_BIN_DIR", ROOT / "build" / "release" / "bin")) / "bitrift"
    if not path.is_file():
        raise SystemExit(f"{path} is not there: build it (cmake --build --preset release) or set BITRIFT_BIN_DIR")
    return str(path)


def make_checkpoint(path: Path, tensors: int, elements: int, chunk: int | None = None) -> None:
    """A file of `tensors` float32 datasets of `elements` each, model/layerN.weight: contiguous, or in gzip chunks."""
    generator = np.random.default_rng(1)
    filters = {} if chunk is None else {"chunks": (chunk,), "compression": "gzip"}
    with h5py.File(path, "w") as file:
        for index in range(tensors):
            values = generator.standard_normal(elements, dtype=np.float32)
            file.create_dataset(f"model/layer{index}.weight", data=values, **filters)


@dataclass
class Cost:
    """The cost of one run: wall seconds and the largest resident memory in MB, NaN where nothing measured it."""

    seconds: float
    megabytes: float = float("nan")


def helper(name: str) -> Path:
    """A program beside bitrift that only benchmarks need."""
    path = Path(bitrift()).parent / name
    if not path.is_file():
        raise SystemExit(f"{path} is not there: build it (cmake --build --preset release --target {name})")
    return path


def run(command: list[str], measure: Path | None = None) -> Cost:
    """Runs a command; `measure` (bench_measure) adds the memory. CalledProcessError when it fails."""
    start = time.perf_counter()
    program = [] if measure is None else [str(measure)]
    done = subprocess.run([*program, *command], check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    if measure is None:
        return Cost(time.perf_counter() - start)
    seconds, kibibytes = done.stdout.split()
    return Cost(float(seconds), int(kibibytes) * 1024 / 1e6)


def compare(
    title: str,
    commands: dict[str, Callable[[int], list[str]]],
    repetitions: int,
    restore: dict[str, Callable[[], object]] | None = None,
    measure: Path | None = None,
) -> None:
    """Times each command `repetitions` times (it is given the number of the repetition), after one warm-up.

    restore: what to do, untimed, after a command of that name.
    """
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for repetition in range(repetitions + 1):
        for name, command in commands.items():
            cost = run(command(repetition), measure)
            if restore and name in restore:
                restore[name]()
            if repetition > 0:
                costs[name].append(cost)
    first = statistics.median(cost.seconds for cost in next(iter(costs.values())))
    print(f"{title} (median of {repetitions}, {platform.processor() or platform.machine()}, {os.cpu_count()} cores)")
    for name, values in costs.items():
        times = [cost.seconds for cost in values]
        median = statistics.median(times)
        memory = statistics.median(cost.megabytes for cost in values)
        print(
            f"  {name:<40} {median * 1e3:9.2f} ms   {min(times) * 1e3:9.2f} .. {max(times) * 1e3:9.2f}"
            f"   x {median / first:8.2f}" + ("" if math.isnan(memory) else f"   {memory:7.1f} MB"),
            flush=True,
        )
