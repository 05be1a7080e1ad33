#!/usr/bin/env python3
"""What a trial of a campaign costs beside its own computation: one worker, trials that run to their end.

python tests/bench/harness.py [REPETITIONS]     needs a core that does nothing else

A trial's cost is the time from its start to the next one's: altering the copy, the request, restoring the base, the
run, digests, the answer, the journal, and the no-flip runs in between. Its own computation is what one more epoch adds
to `bitrift-train resume` of the same base: the steps and the evaluation.
"""

from __future__ import annotations

import datetime
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import bitrift
from training import LENET, RESNET20, SGD, call

# Model and data, batch size, trials.
CASES = {
    "lenet": (LENET | {"data": {"name": "digits"}}, 64, 400),
    "resnet20": (RESNET20 | {"data": {"name": "fashion-mnist", "train_samples": 1280, "test_samples": 200}}, 128, 12),
}


def campaign(folder: Path, spec: dict) -> tuple[float, Path]:
    """Median seconds from the start of a trial to the start of the next, and the base."""
    path = folder / "spec.json"
    path.write_text(json.dumps(spec))
    out = Path(tempfile.mkdtemp(dir=folder)) / "campaign"
    command = [bitrift(), "campaign", "run", str(path), "-o", str(out), "--workers", "1"]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    rows = [json.loads(line)["row"] for line in (out / "trials.jsonl").read_text().splitlines()]
    trials = [row for row in rows if row["kind"] == "trial"]
    assert all(row["result"]["status"] == "done" and "returned_step" not in row["result"] for row in trials)
    starts = [datetime.datetime.fromisoformat(row["volatile"]["started"]).timestamp() for row in trials]
    return (max(starts) - min(starts)) / (len(starts) - 1), out / "base.h5"


def own_computation(base: Path) -> float:
    """Seconds that an epoch and its evaluation take."""

    def seconds(epochs: int) -> float:
        return call("resume", base, "--epochs", epochs)["seconds"]

    return statistics.median((seconds(11) - seconds(1)) / 10 for _ in range(3))


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    for name, (task, batch, trials) in CASES.items():
        spec = {
            "name": name,
            "seed": 1,
            "base": {
                "train": task
                | {"optimizer": SGD | {"learning_rate": 0.05}, "batch_size": batch, "epochs": 8, "seed": 1}
            },
            "arms": [{"name": "serial", "parallel": {"kind": "serial"}}],
            "strata": {"roles": ["weight"], "fields": ["mantissa"]},
            "trials_per_stratum": trials,
            "worker": {"early_end": False},
        }
        shares = []
        for _ in range(repetitions):
            with tempfile.TemporaryDirectory() as folder:
                cost, base = campaign(Path(folder), spec)
                own = own_computation(base)
            shares.append((cost - own) / own)
            print(
                f"{name}: {cost * 1e3:.2f} ms a trial, {own * 1e3:.2f} ms of it its own: {shares[-1]:.1%}", flush=True
            )
        print(
            f"{name}: overhead {statistics.median(shares):.1%} of the trial's own computation (median of {repetitions})"
        )


if __name__ == "__main__":
    main()
