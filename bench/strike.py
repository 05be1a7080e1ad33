#!/usr/bin/env python3
"""What a fault while computing adds to a serial training step, one thread.

python bench/strike.py [REPETITIONS]

Bit 0 of one number flips in every step, at each site, or in none of the steps that are timed. The steps of all arms
take turns.
"""

from __future__ import annotations

import functools
import sys
import tempfile
from pathlib import Path

from training import GPT, LENET, SGD, Task, bitrift_step, compare, write_spec

# Task, batch size, steps that are timed, a layer, a parameter.
CASES: dict[str, tuple[Task, int, int, str, str]] = {
    "lenet": (LENET, 64, 600, "conv1", "conv1.weight"),
    "gpt": (GPT, 32, 25, "transformer.h.0", "transformer.h.0.mlp.c_fc.weight"),
}


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        for name, (task, batch, steps, layer, parameter) in CASES.items():
            spec = write_spec(Path(folder), task, SGD, batch)
            step = functools.partial(bitrift_step, spec, steps)
            strikes = {site: f"{site}:{layer}@1:0.0.0.0+permanent" for site in ("activation", "gradient")}
            strikes |= {site: f"{site}:{parameter}@1:0.0.0.0+permanent" for site in ("weight_gradient", "update")}
            arms = {site: functools.partial(step, "--strike", text) for site, text in strikes.items()}
            late = functools.partial(step, "--strike", f"update:{parameter}@1:0.0.0.0")
            compare(f"{name}, batch {batch}", arms | {"struck in step 1": late, "not armed": step}, repetitions)


if __name__ == "__main__":
    main()
