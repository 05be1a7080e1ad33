#!/usr/bin/env python3
"""Seconds that the first write to memory takes, by how long the memory was free, and the second write.

python tests/bench/new_memory.py [MEGABYTES [REPETITIONS]]     219 MB and 7: three minutes

A virtual machine may give free memory back to its host, and then waits for the host when a program writes to it. A
machine of its own shows no difference between the pauses.
"""

from __future__ import annotations

import ctypes
import mmap
import statistics
import sys
import time

PAUSES = (0, 1, 2.5, 5, 10)


def write_twice(size: int) -> tuple[float, float]:
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


def main() -> None:
    size = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 219_000_000
    repetitions = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    print(f"{'free for':>10} {'first write':>28} {'second write':>28}")
    for pause in PAUSES:
        write_twice(size)
        times = []
        for _ in range(repetitions):
            time.sleep(pause)
            times.append(write_twice(size))
        shown = [
            f"{statistics.median(one):.3f} s ({min(one):.3f} .. {max(one):.3f})" for one in zip(*times, strict=True)
        ]
        print(f"{pause:>8} s {shown[0]:>28} {shown[1]:>28}", flush=True)


if __name__ == "__main__":
    main()
