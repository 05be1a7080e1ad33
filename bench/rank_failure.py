#!/usr/bin/env python3
"""What a rank failure costs: from a kill to the next finished step, and of a step while nobody fails.

python bench/rank_failure.py [REPETITIONS] [--only recoveries|torchrun|steps]     needs two cores for itself

Recoveries: LeNet on 4 ranks; rank 2 is killed in step 5. The parts of the recovery time come from the result. Another
clock checks their sum: rank 1 is killed as soon as it begins the next step, and both deaths leave their time behind.
Torchrun: the same training on 2 ranks, and one of DistributedDataParallel whose workers torchrun restarts.
Steps: whole epochs of runs that take turns, timed from one epoch's line in the log to the next one's.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training import HERE, LENET, RESNET20, SGD, Task, call, program, write_spec

PARTS = ("detect", "revoke", "agree", "shrink", "respawn", "state", "redo")
KILL_STEP = 5
PATIENCE = 120  # seconds for torchrun
EVERY = 4  # steps between two checkpoints, where state comes from a file
RECOVERIES: dict[str, tuple[str, ...]] = {
    "shrink": ("--on-failure", "shrink"),
    "spare": ("--on-failure", "spare", "--spares", "2"),
    "respawn": ("--on-failure", "respawn"),
    "restart": ("--on-failure", "restart", "--snapshot-every", "5"),
    "restart, spares": ("--on-failure", "restart", "--spares", "2", "--snapshot-every", "5"),
    "relaunch": ("--on-failure", "relaunch", "--checkpoint-every", str(EVERY)),
}
ARMED: dict[str, tuple[str, ...]] = {
    "not armed": (),
    "armed": ("--on-failure", "shrink"),
    "armed, not watched": ("--on-failure", "shrink", "--detect-hang", "off"),
    "armed, an idle spare": ("--on-failure", "spare"),
    "armed, snapshot every 10": ("--on-failure", "shrink", "--state-from", "buddy", "--snapshot-every", "10"),
}


@dataclass(frozen=True)
class Recovery:
    """Seconds from a kill to the next finished step: by part, and by the other clock where it ran."""

    parts: dict[str, float]
    clock: float | None

    @property
    def total(self) -> float:
        return sum(self.parts.values())


def load() -> str:
    return f"{os.cpu_count()} cores, load average " + ", ".join(f"{value:.1f}" for value in os.getloadavg())


def base(folder: Path, task: Task, batch: int, *options: str) -> Path:
    """A checkpoint after the first step."""
    spec = write_spec(folder, task, SGD, batch)
    path = spec.with_suffix(".h5")
    call("train", spec, "-o", path, "--steps", 1, *options)
    return path


def recover(start: Path, ranks: int, options: tuple[str, ...]) -> Recovery:
    note = start.with_name("note")
    note.unlink(missing_ok=True)
    relaunched = "relaunch" in options  # kills only once, and keeps a note of its own
    words: list[object] = ["resume", start, "-o", start.with_name("out.h5"), "--steps", KILL_STEP + 2]
    words += ["--parallel", "data", "--ranks", ranks, *options, "--kill", f"{ranks // 2}@{KILL_STEP}:backward"]
    if not relaunched and ranks > 2:
        words += ["--kill", f"{ranks // 2 - 1}@{KILL_STEP + 1}:forward"]
    os.environ["BITRIFT_DEATH_NOTE"] = str(note)
    times: dict[str, Any] = call(*words)["recoveries"][0]["volatile"]
    parts = {part: times.get(part, 0.0) for part in PARTS}
    deaths = [float(line.split()[0]) for line in note.read_text().splitlines()] if note.exists() else []
    return Recovery(parts, deaths[1] - deaths[0] if len(deaths) > 1 else None)


def medians(found: list[Recovery]) -> dict[str, float]:
    return {part: statistics.median(one.parts[part] for one in found) for part in PARTS}


def print_recoveries(title: str, found: dict[str, list[Recovery]], others: dict[str, list[float]]) -> None:
    print(f"{title}: ms from the kill to the next finished step (medians of {len(found['shrink'])}; {load()})")
    print(f"  {'recovery':<17}{'total':>9}  {'least .. most':<19}", *(f"{part:>8}" for part in PARTS), "  clock/sum")
    totals = {name: statistics.median(one.total for one in all_) for name, all_ in found.items()}
    for name, all_ in found.items():
        sums = [one.total * 1e3 for one in all_]
        clocks = [one.clock / one.total for one in all_ if one.clock is not None]
        ratio = f"{statistics.median(clocks):8.3f} ({min(clocks):.3f} .. {max(clocks):.3f})" if clocks else "       -"
        print(f"  {name:<17}{totals[name] * 1e3:9.1f}  {f'{min(sums):.1f} .. {max(sums):.1f}':<19}", end=" ")
        print(*(f"{value * 1e3:8.1f}" for value in medians(all_).values()), ratio)
    for name, seconds in others.items():
        totals[name] = statistics.median(seconds)
        print(f"  {name:<17}{totals[name] * 1e3:9.1f}  {min(seconds) * 1e3:.1f} .. {max(seconds) * 1e3:.1f}")
    for slow in ("relaunch", *others):
        ratios = ", ".join(f"{name} {totals[slow] / totals[name]:.1f}x" for name in found if name != slow)
        print(f"  faster than {slow}: {ratios}", flush=True)


def torchrun(folder: Path, spec: Path) -> float | None:
    """Seconds from the kill of one of two workers to the end of the step that it died in; None: it hung."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        command += ["--max-restarts", "3", str(HERE / "torch_elastic.py"), str(spec), place]
        words = [*command, str(KILL_STEP), str(EVERY)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        with subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        ) as child:
            try:
                said, _ = child.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                child.terminate()  # it ends its workers
                child.communicate()
                print(f"  torchrun hung for {PATIENCE} s; left out", flush=True)
                return None
        if child.returncode != 0:
            raise SystemExit(f"{' '.join(words)}\n{said}")
        died, redone = (float((Path(place) / name).read_text()) for name in ("died", "redone"))
        return redone - died


def recoveries(folder: Path, repetitions: int) -> None:
    start = base(folder, LENET, 64)
    found: dict[str, list[Recovery]] = {name: [] for name in RECOVERIES}
    for _ in range(repetitions):
        for name, options in RECOVERIES.items():
            found[name].append(recover(start, 4, options))
    print_recoveries("lenet, data x 4", found, {})


def beside_torchrun(folder: Path, repetitions: int) -> None:
    start = base(folder, LENET, 64)
    found: dict[str, list[Recovery]] = {name: [] for name in RECOVERIES}
    elastic: list[float] = []
    for _ in range(repetitions):
        for name, options in RECOVERIES.items():
            found[name].append(recover(start, 2, options))
        seconds = torchrun(folder, start.with_suffix(".json"))
        elastic += [] if seconds is None else [seconds]
    print_recoveries("lenet, data x 2", found, {"torchrun": elastic})


def step_times(start: Path, epochs: int, steps: int, *options: str) -> list[float]:
    """Seconds of a step in each epoch but the first."""
    words = ["resume", start, "-o", start.with_name("out.h5"), "--epochs", epochs, *options]
    command = [program(), *map(str, words)]
    lines: list[float] = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as child:
        assert child.stderr is not None
        for line in child.stderr:
            if b": test loss " in line:
                lines.append(time.perf_counter())
    if child.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {child.returncode}")
    return [(later - earlier) / steps for earlier, later in itertools.pairwise(lines)]


def steps(folder: Path, repetitions: int) -> None:
    cases: dict[str, tuple[Task, int, int, int]] = {  # task, batch size, steps of an epoch, epochs
        "lenet": (LENET, 64, 20, 16),
        "resnet20": (RESNET20, 64, 10, 3),
    }
    for name, (task, batch, per_epoch, epochs) in cases.items():
        data = task["data"] | {"train_samples": batch * per_epoch}
        start = base(folder, task | {"data": data}, batch)
        for ranks in (4, 2):
            found: dict[str, list[float]] = {arm: [] for arm in ARMED}
            for _ in range(repetitions):
                for arm, options in ARMED.items():
                    parallel = ("--parallel", "data", "--ranks", str(ranks))
                    found[arm].append(statistics.median(step_times(start, epochs, per_epoch, *parallel, *options)))
            print(f"{name}, data x {ranks}, batch {batch} (medians of {repetitions}; {load()})")
            for arm, times in found.items():
                ratios = [one / plain for one, plain in zip(times, found["not armed"], strict=True)]
                print(
                    f"  {arm:<26} {statistics.median(times) * 1e3:9.3f} ms a step"
                    f" ({min(times) * 1e3:.3f} .. {max(times) * 1e3:.3f}), median ratio {statistics.median(ratios):.3f}"
                    f" ({min(ratios):.3f} .. {max(ratios):.3f})",
                    flush=True,
                )


PLANS = {"recoveries": recoveries, "torchrun": beside_torchrun, "steps": steps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repetitions", type=int, nargs="?", default=7)
    parser.add_argument("--only", choices=PLANS)
    options = parser.parse_args()
    for name, plan in PLANS.items():
        if options.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                plan(Path(folder), options.repetitions)


if __name__ == "__main__":
    main()
