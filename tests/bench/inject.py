#!/usr/bin/env python3
"""Whole-process time of flips in place, beside h5py doing the same, in a small file and in a large one.

Both flip bit 20 of float32 elements. `bitrift inject --in-place` also takes a lock, writes an undo journal, syncs it
and verifies what it wrote; h5py reads an element, flips it and writes it back, which is all that it does.

python tests/bench/inject.py [REPETITIONS]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from bench import bitrift, compare, make_checkpoint

H5PY_FLIP = """
import h5py, numpy as np, sys
path, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
generator = np.random.default_rng(seed)
with h5py.File(path, "r+") as file:
    names = list(file["model"])
    for _ in range(count):
        data = file["model"][names[generator.integers(len(names))]]
        at = int(generator.integers(data.shape[0]))
        bits = np.frombuffer(np.float32(data[at]).tobytes(), dtype=np.uint32)[0] ^ np.uint32(1 << 20)
        data[at] = np.frombuffer(np.uint32(bits).tobytes(), dtype=np.float32)[0]
"""


def flips(file: Path, count: int, repetitions: int) -> None:
    size = file.stat().st_size / 2**20
    options = ["--in-place", "--bits", "20", "--count", str(count)]
    compare(
        f"{count} flips in place, {size:.0f} MiB",
        {
            "bitrift inject": lambda seed: [bitrift(), "inject", str(file), *options, "--seed", str(seed)],
            "Python with h5py": lambda seed: [sys.executable, "-c", H5PY_FLIP, str(file), str(count), str(seed)],
        },
        repetitions,
        restore={"bitrift inject": [bitrift(), "undo", str(file)]},
    )


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    with tempfile.TemporaryDirectory() as folder:
        for name, tensors, elements in (("small.h5", 20, 1000), ("large.h5", 16, 16 * 2**20)):
            file = Path(folder) / name
            make_checkpoint(file, tensors, elements)
            for count in (1, 1000):
                flips(file, count, repetitions)


if __name__ == "__main__":
    main()
