#!/usr/bin/env python3
"""Seconds that writes to new memory take, by how long that memory was free: of a process, and of the page cache.

python bench/new_memory.py [MEGABYTES [REPETITIONS [FOLDER]]]     219 MB, 7 and the current folder: six minutes

A virtual machine may give free memory back to its host, and then waits for the host when a program writes to it. A
machine of its own shows no difference between the pauses.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PAUSES = (0, 1, 2.5, 5, 10)
PIECE = os.urandom(256 * 1024)


def write_memory(size: int) -> tuple[float, float]:
    """Seconds of two writes to every byte of new memory, in huge pages where the kernel has them."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    held = ctypes.c_char.from_buffer(memory)
    times = []
    for value in (0, 1):
        start = time.perf_counter()
        ctypes.memset(ctypes.addressof(held), value, size)
        times.append(time.perf_counter() - start)
    del held
    memory.close()
    return times[0], times[1]


class RotatingFiles:
    """Saves as a run with a folder does: a new file each time, and then the oldest of three is removed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = 0

    def write(self, size: int) -> tuple[float, float]:
        """Seconds of the writes to the page cache, and of fsync."""
        start = time.perf_counter()
        with open(self.folder / str(self.number), "wb", buffering=0) as file:
            for _ in range(size // len(PIECE)):
                file.write(PIECE)
            written = time.perf_counter()
            os.fsync(file.fileno())
            times = written - start, time.perf_counter() - written
        (self.folder / str(self.number - 2)).unlink(missing_ok=True)
        self.number += 1
        return times


def measure(write: Callable[[int], tuple[float, float]], size: int, repetitions: int) -> None:
    for pause in PAUSES:
        write(size)
        times = []
        for _ in range(repetitions):
            time.sleep(pause)
            times.append(write(size))
        shown = [
            f"{statistics.median(one):.3f} s ({min(one):.3f} .. {max(one):.3f})" for one in zip(*times, strict=True)
        ]
        print(f"{pause:>8} s {shown[0]:>28} {shown[1]:>28}", flush=True)


def main() -> None:
    size = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 219_000_000
    repetitions = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    place = sys.argv[3] if len(sys.argv) > 3 else "."
    print(f"{'free for':>10} {'first write':>28} {'second write':>28}")
    measure(write_memory, size, repetitions)
    print(f"\n{'paused for':>10} {'write of a file':>28} {'fsync':>28}")
    with tempfile.TemporaryDirectory(dir=place) as folder:
        measure(RotatingFiles(Path(folder)).write, size, repetitions)


if __name__ == "__main__":
    main()
