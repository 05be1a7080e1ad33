#!/usr/bin/env python3
"""A data-parallel step on two ranks, beside DistributedDataParallel over gloo: two processes of one thread each.

python bench/data_parallel.py [REPETITIONS]     needs two cores that do nothing else
"""

from __future__ import annotations

import functools
import sys
import tempfile
from pathlib import Path

from training import LENET, RESNET20, SGD, Task, bitrift_step, compare, torch_step, write_spec

# Task, samples of a rank, steps that are timed.
CASES: dict[str, tuple[Task, int, int]] = {"lenet": (LENET, 32, 600), "resnet20": (RESNET20, 64, 25)}
OPTIONS = ("--parallel", "data", "--ranks", "2")


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        for name, (task, rows, steps) in CASES.items():
            spec = write_spec(Path(folder), task, SGD, 2 * rows)
            compare(
                f"{name}, 2 ranks, batch {rows} a rank",
                {
                    "bitrift-train, ddp": functools.partial(bitrift_step, spec, steps, *OPTIONS),
                    "Python DDP, gloo": functools.partial(torch_step, spec, steps, ranks=2),
                },
                repetitions,
            )


if __name__ == "__main__":
    main()
