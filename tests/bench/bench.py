"""Timing of whole commands, side by side in one run.

Commands take turns, so that a slow moment of the machine hits all of them. What is printed is the median, the fastest
and the slowest of the repetitions, and the ratio of each median to the first command's.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).resolve().parents[2]


def bitrift() -> str:
    """The program under test: $BITRIFT_BIN_DIR/bitrift, or the release build's."""
    path = Path(os.environ.get("BITRIFT_BIN_DIR", ROOT / "build" / "release" / "bin")) / "bitrift"
    if not path.is_file():
        raise SystemExit(f"{path} is not there: build it (cmake --build --preset release) or set BITRIFT_BIN_DIR")
    return str(path)


def make_checkpoint(path: Path, tensors: int, elements: int) -> None:
    """A file of `tensors` contiguous float32 datasets of `elements` each, model/layerN.weight."""
    generator = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        for index in range(tensors):
            file[f"model/layer{index}.weight"] = generator.standard_normal(elements, dtype=np.float32)


def run(command: list[str]) -> float:
    """Wall seconds of one run. CalledProcessError when it fails."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    return time.perf_counter() - start


def compare(
    title: str,
    commands: dict[str, Callable[[int], list[str]]],
    repetitions: int,
    restore: dict[str, list[str]] | None = None,
) -> None:
    """Times each command `repetitions` times (it is given the number of the repetition), after one warm-up.

    restore: what to run, untimed, after a command of that name.
    """
    times: dict[str, list[float]] = {name: [] for name in commands}
    for repetition in range(repetitions + 1):
        for name, command in commands.items():
            seconds = run(command(repetition))
            if restore and name in restore:
                run(restore[name])
            if repetition > 0:
                times[name].append(seconds)
    first = statistics.median(next(iter(times.values())))
    print(f"{title} (median of {repetitions}, {platform.processor() or platform.machine()}, {os.cpu_count()} cores)")
    for name, values in times.items():
        median = statistics.median(values)
        print(
            f"  {name:<34} {median * 1e3:9.2f} ms   {min(values) * 1e3:9.2f} .. {max(values) * 1e3:9.2f}"
            f"   x {median / first:.2f}"
        )
