#!/usr/bin/env python3
"""Save and load of a checkpoint of 500 MB, beside write + fsync and read of as many bytes in the same folder.

python tests/bench/checkpoint.py [REPETITIONS] [FOLDER]     FOLDER: on the disk in question; default: a temporary one

Both reads find the file in the page cache, and both go into memory that was touched before. save_seconds and
load_seconds are what bitrift-train reports: from the state in memory to the renamed file, and from the path to the
state in memory. Disks of virtual machines write the first gigabyte of a burst faster than the next: so every write
comes after a pause, and who writes first changes from turn to turn.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from training import call, write_spec

# 64 -> 11,000 -> 11,000 -> 10: 122 million float32 parameters, 488 MB; SGD without momentum has no state.
TASK = {"model": {"name": "mlp", "hidden": [11000, 11000], "norm": "none"}, "data": {"name": "digits"}}
SGD = {"name": "sgd", "learning_rate": 0.01}
PIECE = 1 << 18  # larger ones are slower: the kernel then copies from memory that has left the cache
PAUSE_S = 4


def write(path: Path, content: memoryview) -> float:
    start = time.perf_counter()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for at in range(0, len(content), PIECE):
        os.write(descriptor, content[at : at + PIECE])
    os.fsync(descriptor)
    os.close(descriptor)
    return time.perf_counter() - start


def read(path: Path, into: memoryview) -> float:
    start = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        at = 0
        while count := file.readinto(into[at : at + PIECE]):
            at += count
    return time.perf_counter() - start


def report(what: str, ours: list[float], theirs: list[float], size: int) -> None:
    mine, other = statistics.median(ours), statistics.median(theirs)
    print(
        f"  {what:<16} bitrift-train {mine:.3f} s ({min(ours):.3f} .. {max(ours):.3f}), {size / mine / 1e9:.2f} GB/s;"
        f"   plain {other:.3f} s ({min(theirs):.3f} .. {max(theirs):.3f}), {size / other / 1e9:.2f} GB/s;"
        f"   {other / mine:.3f} of its speed"
    )


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as name:
        folder = Path(name)
        spec = write_spec(folder, TASK, SGD, 64)
        first, again, plain = folder / "first.h5", folder / "again.h5", folder / "plain"
        call("train", spec, "-o", first, "--steps", 0)
        size = first.stat().st_size
        content = memoryview(bytearray(first.read_bytes()))
        times: dict[str, list[float]] = {"save": [], "load": [], "write": [], "read": []}

        def save_and_load() -> None:
            result = call("resume", first, "-o", again, "--steps", 0)
            times["save"].append(result["save_seconds"])
            times["load"].append(result["load_seconds"])
            again.unlink()

        def write_and_read() -> None:
            times["write"].append(write(plain, content))
            times["read"].append(read(first, content))
            plain.unlink()

        for repetition in range(repetitions):
            for turn in (save_and_load, write_and_read)[:: 1 if repetition % 2 == 0 else -1]:
                os.sync()
                time.sleep(PAUSE_S)
                turn()
        print(f"checkpoint of {size / 1e6:.0f} MB in {folder.parent} (median of {repetitions})")
        report("save", times["save"], times["write"], size)
        report("load", times["load"], times["read"], size)


if __name__ == "__main__":
    main()
