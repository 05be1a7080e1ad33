#!/usr/bin/env python3
"""Time of `bitrift verify` on a file of torch.save, beside reading the file.

python bench/verify.py [REPETITIONS] [MEGABYTES]

The file is in the page cache, so this compares with the fastest read that there is.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch

from bench import bitrift, compare

READ = """
import sys
piece = bytearray(1 << 20)
with open(sys.argv[1], "rb", buffering=0) as file:
    while file.readinto(piece):
        pass
"""


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    megabytes = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.pt"
        torch.save({f"layer{i}.weight": torch.randn(megabytes * 12_500) for i in range(20)}, file)
        compare(
            f"verify {megabytes} MB",
            {
                "bitrift verify": lambda _: [bitrift(), "verify", str(file)],
                "read the file": lambda _: [sys.executable, "-c", READ, str(file)],
                "cp": lambda run: ["cp", str(file), str(Path(folder) / "copy")],
            },
            repetitions,
        )


if __name__ == "__main__":
    main()
