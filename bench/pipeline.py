#!/usr/bin/env python3
"""A step of a pipeline of two stages, beside a serial step with the same micro-batches.

python bench/pipeline.py [REPETITIONS]     needs two cores that do nothing else

With m micro-batches the costlier stage works m times and waits once for the cheaper one to fill the pipeline and once
to drain it. So a step takes at least m a + b, where a and b are the two stages' times of a micro-batch; equal stages
make that the known bound p m / (m + p - 1) of the speed-up. Stages are measured by
`bitrift-train describe --balance measured`. Printed is the share of that bound which the pipeline reaches.
"""

from __future__ import annotations

import functools
import sys
import tempfile
from pathlib import Path

from training import GPT, RESNET20, SGD, Task, bitrift_step, call, compare, write_spec

# Task, batch size, steps that are timed.
CASES: dict[str, tuple[Task, int, int]] = {"resnet20": (RESNET20, 128, 15), "gpt": (GPT, 64, 15)}


def bound(spec: Path, micro_batches: int, options: tuple[str, ...]) -> tuple[float, float]:
    """Largest possible speed-up, and the costlier stage's share of the work."""
    layers = call("describe", spec, *options)["layers"]
    stages = [sum(layer["seconds"] for layer in layers if layer["stage"] == stage) for stage in (0, 1)]
    least = micro_batches * max(stages) + min(stages)
    return micro_batches * sum(stages) / least, max(stages) / sum(stages)


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        for name, (task, batch, steps) in CASES.items():
            spec = write_spec(Path(folder), task, SGD, batch)
            for m in (4, 8):
                micro = ("--micro-batches", str(m))
                staged = ("--parallel", "pipeline", "--ranks", "2", "--balance", "measured", *micro)
                runs = {"serial": functools.partial(bitrift_step, spec, steps, *micro)}
                for schedule in ("gpipe", "1f1b"):
                    runs[schedule] = functools.partial(bitrift_step, spec, steps, *staged, "--schedule", schedule)
                costs = compare(f"{name}, batch {batch}, {m} micro-batches, 2 stages", runs, repetitions)
                limit, share = bound(spec, m, staged)
                for schedule in ("gpipe", "1f1b"):
                    speed_up = costs["serial"].wall / costs[schedule].wall
                    print(
                        f"  {schedule}: {speed_up:.3f} times serial; bound {limit:.3f} (the costlier stage has"
                        f" {share:.1%} of the work): {speed_up / limit:.3f} of it",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
