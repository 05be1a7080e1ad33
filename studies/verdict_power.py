"""Falls of known size, planted in a campaign's base: which of them does its verdict find? Part of verdict.py."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import verdict as witness
from campaign_support import BIN

SIZES = (0.0, 1.0, 2.0, 5.0, 10.0)  # points of test accuracy at the horizon
LAYERS = ("conv1", "conv2", "fc1", "fc2", "fc3")
HALVINGS = 7


@dataclass(frozen=True)
class Plant:
    """One way to harm the base, drawn by `seed`; its strength goes from 0, nothing, to 1."""

    way: str
    seed: int

    def apply(self, file: h5py.File, strength: float) -> None:
        random = np.random.default_rng([self.seed, len(self.way)])
        layer = LAYERS[-1] if self.way == "shuffle" else str(random.choice(LAYERS[:-1]))
        weight, bias = file[f"model/{layer}.weight"], file[f"model/{layer}.bias"]
        rows = random.permutation(weight.shape[0])
        values, offsets = weight[()], bias[()]
        if self.way == "scale":
            values *= np.float32(20**strength)
        elif self.way == "drop":
            gone = rows[: round(strength * len(rows))]
            values[gone], offsets[gone] = 0, 0
        else:
            moved = rows[: round(strength * len(rows))]
            values[moved], offsets[moved] = values[np.roll(moved, 1)], offsets[np.roll(moved, 1)]
        weight[...], bias[...] = values, offsets


@dataclass(frozen=True)
class Tried:
    """A planted run."""

    strength: float
    row: dict[str, Any]
    fall: float  # points of test accuracy below the golden run; infinite when it did not end


class Planter:
    """Resumes altered copies of a campaign's base in its golden data order."""

    def __init__(self, arm: witness.Arm, folder: Path):
        self.arm, self.folder = arm, folder
        self.scratch = folder / "plants"
        self.scratch.mkdir(exist_ok=True)
        self.golden = arm.golden[0]["result"]

    def resume(self, plant: Plant, strength: float, name: str) -> Tried:
        path = self.scratch / f"{plant.way}-{plant.seed}-{name}.h5"
        shutil.copy(self.folder / "base.h5", path)
        with h5py.File(path, "r+") as file:
            plant.apply(file, strength)
        command = [BIN / "bitrift-train", "resume", path, "--epochs", "1", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        path.unlink()
        identity = {"kind": "trial", "id": {"arm": self.arm.name, "stratum": path.stem, "draw": 0}}
        if done.returncode not in (0, 1):
            raise RuntimeError(done.stderr)
        if done.returncode == 1:
            return Tried(strength, identity | {"failure": {"reason": "nonfinite"}}, np.inf)
        row = identity | {"result": json.loads(done.stdout)}
        after, before = (result["replicas"][0][-1]["test_accuracy"] for result in (row["result"], self.golden))
        return Tried(strength, row, 100 * (before - after))

    def must_repeat_the_golden_run(self) -> None:
        unharmed = self.resume(Plant("drop", 0), 0.0, "golden").row["result"]
        assert unharmed["final_digest"] == self.golden["final_digest"]
        assert unharmed["replicas"] == self.golden["replicas"]

    def calibrate(self, plant: Plant) -> list[Tried]:
        """Strengths around those that cost each size, by halving; every run that was made on the way."""
        tried = [self.resume(plant, strength, "end") for strength in (1e-3, 1.0)]
        for size in SIZES:
            for _ in range(HALVINGS):
                tried.sort(key=lambda one: one.strength)
                above = next((i for i, one in enumerate(tried) if one.fall > size + 0.15), None)
                if above is None or above == 0:
                    break
                low, high = tried[above - 1], tried[above]
                if abs(low.fall - size) < 0.15 or high.strength - low.strength < 2e-3:
                    break
                middle = (low.strength + high.strength) / 2
                tried.append(self.resume(plant, middle, f"{middle:.6f}"))
        return tried


def line(name: str, chosen: list[tuple[Tried, bool]]) -> None:
    if not chosen:
        print(f"{name:<28} none")
        return
    falls = sorted(one.fall for one, _ in chosen)
    found = sum(sdc for _, sdc in chosen)
    print(f"{name:<28} {falls[0]:6.2f} to {falls[-1]:6.2f} points: found {found} of {len(chosen)}")


def measure_power(arm: witness.Arm, folder: Path, quick: bool, workers: int) -> None:
    """Prints the share of planted runs that are found, by their size."""
    planter = Planter(arm, folder)
    planter.must_repeat_the_golden_run()
    plants = [Plant(way, seed) for way in ("scale", "drop", "shuffle") for seed in range(2 if quick else 12)]
    with ThreadPoolExecutor(workers) as pool:
        tried = list(pool.map(planter.calibrate, plants))
    runs = [one for some in tried for one in some if np.isfinite(one.fall)]
    rows = [*(row for row in [*arm.envelope, *controls_of(arm)]), *(one.row for one in runs)]
    verdicts = witness.Arm(arm.name, rows, arm.rule).verdicts()
    found = {id(one): sdc.outcome == "SDC" for one, sdc in zip(runs, verdicts, strict=True)}
    resolution = arm.resolution()
    fall = 100 * (resolution["test_accuracy"] or np.inf)
    print(f"{len(plants)} plants, {len(runs)} runs that ended; resolution: {fall:.2f} points, {resolution}\n")
    print("closest to each size:")
    for size in SIZES:
        closest = [min(some, key=lambda one: abs(one.fall - size)) for some in tried]
        near = [one for one in closest if abs(one.fall - size) <= max(0.5, size / 4)]
        line(f"  {size:g} points", [(one, found[id(one)]) for one in near])
    print("all runs, by fall relative to the resolution:")
    borders = (-np.inf, 0, 0.25, 0.5, 0.75, 1 - 1e-9, 1.25, 2, np.inf)
    for low, high in itertools.pairwise(borders):
        here = [(one, found[id(one)]) for one in runs if low <= one.fall / fall < high]
        line(f"  {low:.2f} to {high:.2f}", here)


def controls_of(arm: witness.Arm) -> list[dict[str, Any]]:
    return [*arm.golden.values(), *([arm.zero] if arm.zero else [])]
