#!/usr/bin/env python3
"""How often `bitrift gate` fails among real campaigns of one training, and whether it finds real increases of harm.

    python studies/gate_campaigns.py DIR [--campaigns 20] [--workers N]

`--campaigns` campaigns of campaigns/ci.json (its serial arm, 360 trials) train a base and draw faults and data orders
with seeds of their own. Every ordered pair is a gate, of which at most 5 % may fail. The same is done with a second
training (an MLP with Adam), and with this training from one base, because other bases may be other populations. The
lines "clean runs called SDC" of the first two are compared with the share of all their held-out runs together. Then
five changes that make faults do more harm are compared with the training before them, with the same faults.

Campaigns run in folders below DIR and go on where they stopped; what is complete there is used again.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(os.environ.get("BITRIFT_BIN_DIR", ROOT / "build" / "release" / "bin"))
Spec = dict[str, Any]


def run(place: Path, name: str, spec: Spec, workers: int) -> Path:
    """The folder of a campaign that ran to its end, now or earlier."""
    folder = place / name
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{name}.json").write_text(json.dumps(spec))
    if not (folder / "summary.json").exists():
        command: list[Any] = [
            BIN / "bitrift",
            "campaign",
            "run",
            place / f"{name}.json",
            "-o",
            folder,
            "--workers",
            str(workers),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{name}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return folder


def gate(first: Path, second: Path) -> tuple[int, dict[str, Any]]:
    command: list[Any] = [BIN / "bitrift", "gate", second, "--baseline", first, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode > 1:
        sys.exit(done.stderr)
    return done.returncode, json.loads(done.stdout)


def lenet(seed: int) -> Spec:
    spec = json.loads((ROOT / "campaigns" / "ci.json").read_text())
    del spec["$schema"]
    spec["seed"], spec["base"]["train"]["seed"] = 1000 + seed, 100 + seed
    spec["base"]["min_test_accuracy"] = 0.9  # one in ten seeds ends below 0.95
    spec["arms"] = spec["arms"][:1]
    return spec


def mlp(seed: int, base_seed: int | None = None) -> Spec:
    spec = lenet(seed)
    train = spec["base"]["train"]
    train |= {"model": {"name": "mlp", "hidden": [32]}, "optimizer": {"name": "adam", "learning_rate": 0.003}}
    if base_seed is not None:
        train["seed"] = base_seed
    spec["base"]["min_test_accuracy"] = 0.8
    spec["strata"]["roles"] = ["weight", "bias", "exp_avg"]
    return spec


def harm(guards: Spec | None = None, **train: Any) -> Spec:
    """Exponents of a LeNet with Adam, 150 draws each."""
    spec = json.loads((ROOT / "campaigns" / "guards.json").read_text())
    del spec["$schema"]
    spec["trials_per_stratum"] = 150
    spec["base"]["train"] |= train
    spec["arms"] = [{"name": "serial", "parallel": {"kind": "serial"}}]
    if guards:
        spec["arms"][0]["guards"] = guards | {"on_alarm": "stop"}
    return spec


def increases() -> dict[str, tuple[Spec, Spec]]:
    """Before and after."""
    plain = harm()
    narrow = harm(optimizer={"name": "sgd", "learning_rate": 0.05, "momentum": 0.9})
    narrow["strata"]["roles"] = ["weight", "bias", "momentum"]
    wide = copy.deepcopy(narrow)
    wide["base"]["train"]["schedule"] = {"name": "constant"}
    faster = copy.deepcopy(narrow)
    faster["base"]["train"]["schedule"] = {"name": "step", "every": 10, "gamma": 2}
    return {
        "guard moment-bound removed": (harm({"moment_bound": True}), plain),
        "guard gradient-norm removed": (harm({"gradient_norm": 10}), plain),
        "guard nonfinite removed": (harm({"nonfinite": True}), plain),
        "learning rate of SGD twenty times as large": (narrow, faster),
        "learning rate of SGD ten times as large": (narrow, wide),
    }


def false_alarms(folders: list[Path]) -> None:
    found = [json.loads((folder / "summary.json").read_text())["arms"]["serial"]["false_sdc"] for folder in folders]
    called = sum(one["held_out"]["called"] for one in found)
    runs = sum(one["held_out"]["runs"] for one in found)
    covered = sum(one["at_most"] >= called / runs for one in found)
    rate = f"{called} of {runs} ({called / runs:.2%})"
    print(f"held-out runs called SDC: {rate}; covered by {covered} of {len(found)} lines")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", type=Path, metavar="DIR")
    parser.add_argument("--campaigns", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    folders = [run(options.place, f"lenet-{i:02}", lenet(i), options.workers) for i in range(options.campaigns)]
    others = [run(options.place, f"mlp-{i:02}", mlp(i), options.workers) for i in range(options.campaigns)]
    one_base = [run(options.place, f"base-{i:02}", mlp(i, 100), options.workers) for i in range(options.campaigns)]
    for name, some in (("LeNet", folders), ("MLP", others), ("MLP, one base", one_base)):
        failed = [gate(first, second)[0] for first, second in itertools.permutations(some, 2)]
        share = f"{sum(failed)} of {len(failed)} ordered pairs fail ({sum(failed) / len(failed):.1%})"
        print(f"{name}: {share}")
    false_alarms(folders + others)
    for name, (before, after) in increases().items():
        key = name.replace(" ", "-")
        code, report = gate(
            run(options.place, f"{key}-before", before, options.workers),
            run(options.place, f"{key}-after", after, options.workers),
        )
        lines = "; ".join(
            f"{line['name']}: {line['first_rate']:.1%} to {line['second_rate']:.1%}, p {line['adjusted_p']:.2g}"
            for line in report["lines"]
        )
        print(f"{name}: {'found' if code else 'not found'} ({lines})")


if __name__ == "__main__":
    main()
