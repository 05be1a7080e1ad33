#!/usr/bin/env python3
"""What a trial of a campaign costs beside its own computation: one worker, trials that run to their end.

python bench/harness.py [REPETITIONS]     about half a minute a repetition

A worker says with each result how long the steps and evaluations of that run took (`run_seconds` in a row); the driver
writes down when a trial began. So both times are of the same trials in the same process, and a slow moment of the
machine lengthens both. The overhead is all else between the start of the first trial and the start of the last:
altering the copy, the request, restoring the base, digests, the answer, the journal, and the no-flip runs in between.
"""

from __future__ import annotations

import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training import LENET, RESNET20, SGD

from bench import bitrift

# Model and data, batch size, epochs of the base, trials. ResNet-20 takes three steps of 0.3 s a trial.
CASES: dict[str, tuple[dict[str, Any], int, int, int]] = {
    "lenet": (LENET | {"data": {"name": "digits"}}, 64, 8, 600),
    "resnet20": (
        RESNET20 | {"data": {"name": "fashion-mnist", "train_samples": 384, "test_samples": 200}},
        128,
        1,
        12,
    ),
}


@dataclass(frozen=True)
class Measured:
    """Seconds of one trial: from its start to the next one's, and at its request and its own part, medians."""

    cost: float
    own: float
    asked: float
    median_own: float

    @property
    def overhead(self) -> float:
        return self.cost / self.own - 1


def campaign(folder: Path, spec: dict[str, Any]) -> Measured:
    path = folder / "spec.json"
    path.write_text(json.dumps(spec))
    out = Path(tempfile.mkdtemp(dir=folder)) / "campaign"
    command = [bitrift(), "campaign", "run", str(path), "-o", str(out), "--workers", "1"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    rows = [json.loads(line)["row"] for line in (out / "trials.jsonl").read_text().splitlines()]
    trials = [row for row in rows if row["kind"] == "trial"]
    assert all(row["result"]["status"] == "done" and "returned_step" not in row["result"] for row in trials)
    times = [row["volatile"] for row in trials]
    starts = [datetime.datetime.fromisoformat(time["started"]).timestamp() for time in times]
    own = [time["run_seconds"] for time in times[:-1]]
    return Measured(
        cost=(starts[-1] - starts[0]) / len(own),
        own=sum(own) / len(own),
        asked=statistics.median(time["seconds"] for time in times),
        median_own=statistics.median(own),
    )


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    for name, (task, batch, epochs, trials) in CASES.items():
        training = task | {"optimizer": SGD | {"learning_rate": 0.05}, "batch_size": batch, "epochs": epochs, "seed": 1}
        spec = {
            "name": name,
            "seed": 1,
            "base": {"train": training},
            "arms": [{"name": "serial", "parallel": {"kind": "serial"}}],
            "strata": {"roles": ["weight"], "fields": ["mantissa"]},
            "trials_per_stratum": trials,
            "worker": {"early_end": False},
        }
        overheads = []
        for _ in range(repetitions):
            with tempfile.TemporaryDirectory() as folder:
                found = campaign(Path(folder), spec)
            overheads.append(found.overhead)
            print(
                f"{name}: {found.cost * 1e3:.2f} ms a trial, {found.own * 1e3:.2f} ms of it its own: "
                f"{found.overhead:.1%}"
                f"   (medians: {found.asked * 1e3:.2f} ms from request to answer, {found.median_own * 1e3:.2f} its own)"
            )
        load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
        print(
            f"{name}: overhead {statistics.median(overheads):.1%} of the trials' own computation"
            f" (median of {repetitions}, {trials} trials each; {os.cpu_count()} cores, load average {load})",
            flush=True,
        )


if __name__ == "__main__":
    main()
