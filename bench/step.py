#!/usr/bin/env python3
"""A serial training step, beside plain Python PyTorch of the same version, one thread each.

python bench/step.py [REPETITIONS] [MODEL]...     models: lenet, resnet20, gpt (default all)

Python's optimizers go over tensors one by one on a CPU (foreach=False) unless told to take them together
(foreach=True). Processor time tells more than wall time where other programs run.
"""

from __future__ import annotations

import functools
import sys
import tempfile
from pathlib import Path

from training import ADAMW, GPT, LENET, RESNET20, SGD, Task, bitrift_step, compare, torch_step, write_spec

# Task, batch size, steps that are timed.
CASES: dict[str, tuple[Task, int, int]] = {
    "lenet": (LENET, 64, 600),
    "resnet20": (RESNET20, 64, 25),
    "gpt": (GPT, 32, 25),
}


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[2:] or CASES:
            task, batch, steps = CASES[name]
            for optimizer in (SGD, ADAMW):
                spec = write_spec(Path(folder), task, optimizer, batch)
                compare(
                    f"{name}, batch {batch}, {optimizer['name']}",
                    {
                        "bitrift-train": functools.partial(bitrift_step, spec, steps),
                        "Python": functools.partial(torch_step, spec, steps),
                        "Python, foreach=True": functools.partial(torch_step, spec, steps, "--foreach"),
                    },
                    repetitions,
                )


if __name__ == "__main__":
    main()
