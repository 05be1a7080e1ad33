#!/usr/bin/env python3
"""Whole-process time of `bitrift ls` on a small checkpoint, beside h5py listing the same.

python bench/ls_start.py [REPETITIONS]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from bench import bitrift, compare, make_checkpoint

H5PY_LS = """
import h5py, sys
def show(name, item):
    if isinstance(item, h5py.Dataset):
        print(name, item.dtype, item.shape, item.id.get_offset(), item.id.get_storage_size())
h5py.File(sys.argv[1], "r").visititems(show)
"""


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "small.h5"
        make_checkpoint(file, tensors=20, elements=1000)
        compare(
            "list 20 tensors",
            {
                "bitrift ls": lambda _: [bitrift(), "ls", str(file)],
                "Python with h5py": lambda _: [sys.executable, "-c", H5PY_LS, str(file)],
                "Python alone": lambda _: [sys.executable, "-c", "pass"],
            },
            repetitions,
        )


if __name__ == "__main__":
    main()
