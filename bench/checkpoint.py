#!/usr/bin/env python3
"""Saves of a checkpoint of 226 MB through every sink, beside raw writes and other libraries; and its load.

python bench/checkpoint.py [REPETITIONS] [FOLDER]     FOLDER: on the disk in question; default: a temporary one

All write the same tensors from memory that was touched before, to a new file, and end with an fsync; "raw" also
renames, as the sinks do. `bitrift-train` is the save that it reports itself. The reads find the file in the page
cache. Disks of virtual machines write the first gigabyte of a burst faster than the next: so every write comes after
a pause, and the order is random in each turn. A ratio is that of two times of one turn. What it is compared with
is *unstable* if its slowest time is more than twice its fastest.
"""

from __future__ import annotations

import importlib.util
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import torch
from training import call, write_spec

from bench import helper

# 64 -> 7,500 -> 7,500 -> 10: 57 million float32 parameters; SGD without momentum has no state.
TASK = {"model": {"name": "mlp", "hidden": [7500, 7500], "norm": "none"}, "data": {"name": "digits"}}
SGD = {"name": "sgd", "learning_rate": 0.01}
PIECE = 1 << 18  # larger ones are slower: the kernel then copies from memory that has left the cache
PAUSE_S = 3
OURS = ("plain", "direct", "shared", "bitrift-train")  # "shared": two processes
Times = dict[str, list[float]]


def write(path: Path, content: memoryview) -> None:
    temporary = path.with_suffix(".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for at in range(0, len(content), PIECE):
        os.write(descriptor, content[at : at + PIECE])
    os.fsync(descriptor)
    os.close(descriptor)
    temporary.rename(path)


def read(path: Path, into: memoryview) -> float:
    start = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        at = 0
        while count := file.readinto(into[at : at + PIECE]):
            at += count
    return time.perf_counter() - start


def with_h5py(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    with h5py.File(path, "w") as file:
        for name, value in tensors.items():
            file[name] = value.numpy()


class Savers:
    """Every way to save the tensors of the checkpoint `first`, by name."""

    def __init__(self, first: Path) -> None:
        self.first = first
        self.content = memoryview(bytearray(first.read_bytes()))
        with h5py.File(first) as file:
            names: list[str] = []
            file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
            self.tensors = {
                name: torch.from_numpy(np.asarray(file[name][()])) for name in names if not name.startswith("checksum/")
            }
        self.loads: list[float] = []
        self.sinks = subprocess.Popen(
            [helper("bench_save"), first], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def all(self) -> dict[str, Callable[[Path], float]]:
        references: dict[str, Callable[[Path], object]] = {
            "raw": lambda path: write(path, self.content),
            "torch.save": lambda path: torch.save(self.tensors, path),
            "h5py": lambda path: with_h5py(path, self.tensors),
        }
        if importlib.util.find_spec("safetensors"):
            save_file = importlib.import_module("safetensors.torch").save_file
            references["safetensors"] = lambda path: save_file(self.tensors, path)
        ours = {name: lambda path, name=name: self.through_sink(name, path) for name in OURS[:-1]}
        timed = {name: lambda path, work=work: self.timed(work, path) for name, work in references.items()}
        return {**ours, OURS[-1]: self.by_train, **timed}

    def through_sink(self, kind: str, path: Path) -> float:
        assert self.sinks.stdin is not None and self.sinks.stdout is not None
        self.sinks.stdin.write(f"{kind} {path}\n")
        return float(self.sinks.stdout.readline())

    def by_train(self, path: Path) -> float:
        result = call("resume", self.first, "-o", path, "--steps", 0)
        self.loads.append(result["load_seconds"])
        return result["save_seconds"]

    def timed(self, work: Callable[[Path], object], path: Path) -> float:
        start = time.perf_counter()
        work(path)
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        return time.perf_counter() - start


def spread(values: list[float], digits: int = 3) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} .. {max(values):.{digits}f})"


def ratio(reference: list[float], ours: list[float]) -> str:
    """How many times as fast ours is."""
    unstable = " unstable" if max(reference) > 2 * min(reference) else ""
    return spread([other / mine for other, mine in zip(reference, ours, strict=True)], 2) + unstable


def report(times: Times, size: int) -> None:
    for name, values in times.items():
        print(f"  {name:<14} {spread(values)} s, {size / statistics.median(values) / 1e9:.2f} GB/s")
    references = [name for name in times if name not in OURS]
    print(f"speed as a multiple of  {''.join(f'{name:<30}' for name in references)}".rstrip())
    for name in OURS:
        print(f"  {name:<22}" + "".join(f"{ratio(times[other], times[name]):<30}" for other in references).rstrip())


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as name:
        folder = Path(name)
        first = folder / "first.h5"
        call("train", write_spec(folder, TASK, SGD, 64), "-o", first, "--steps", 0)
        savers = Savers(first)
        turns = savers.all()
        times: Times = {who: [] for who in turns}
        reads = []
        for repetition in range(repetitions + 1):  # the first one warms up
            for who, save in random.Random(repetition).sample(list(turns.items()), len(turns)):
                os.sync()
                time.sleep(PAUSE_S)
                path = folder / f"{who}.out"
                times[who].append(save(path))
                path.unlink()
            reads.append(read(first, savers.content))
        print(
            f"checkpoint of {len(savers.content) / 1e6:.0f} MB in {folder.parent}: median of {repetitions} (min .. max)"
        )
        report({who: values[1:] for who, values in times.items()}, len(savers.content))
        print(f"load: bitrift-train {spread(savers.loads[1:])} s, plain read {spread(reads[1:])} s;", end=" ")
        print(f"{ratio(reads[1:], savers.loads[1:])} of its speed")


if __name__ == "__main__":
    main()
