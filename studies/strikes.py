#!/usr/bin/env python3
"""Numbers that are struck while they are computed, at random: does every run equal plain PyTorch with hooks?

    python studies/strikes.py [--seconds 300] [--seed 1]

Draws a model, a precision, a layout, a site, a tensor, an element, a bit, a step, a duration and a pattern, trains with
`--strike`, and walks the same steps with tests/e2e/witness/test_strike.py: losses, patterns and final states must be
equal to the bit. The highest exponent bit is left out, because most of these runs end at a loss that is not finite.
BITRIFT_BIN_DIR names the folder of bitrift-train. Prints each run that differs, and a count for each site and
precision. Exit code 1 when any differed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "e2e" / "train"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "e2e" / "witness"))

from test_strike import ADAMW, GPT, LLAMA, NEXT, RESNET, SGD, UNTIED, check, spec_of
from train_support import LENET, run

TASKS = ((LENET, SGD), (LENET, ADAMW), (RESNET, SGD), (GPT, ADAMW), (LLAMA, ADAMW), (UNTIED, ADAMW))
PRECISIONS = ("fp32", "fp64", "bf16", "autocast-bf16")
# Replicas, micro-batches, options.
LAYOUTS: tuple[tuple[int, int, tuple[object, ...]], ...] = (
    (1, 1, ()),
    (1, 2, ("--micro-batches", 2)),
    (2, 1, ("--parallel", "data", "--ranks", 2)),
    (1, 2, ("--parallel", "pipeline", "--ranks", 2, "--micro-batches", 2)),
)
DURATIONS = ("", "", "", "+2", "+2/2", "+permanent", "+permanent/3")
WIDTHS = {"float32": 32, "float64": 64, "bfloat16": 16}


def known(model: dict[str, Any], name: str) -> bool:
    """Whether the witness has a module that ends or begins where this layer ends."""
    return name in {*NEXT, "fc3"} if model is LENET else "layer" in name or ".h." in name or "embed_tokens" in name


def drawn(model: dict[str, Any], computed: dict[str, Any], draw: random.Random) -> str:
    """A fault as --strike takes it."""
    site = draw.choice(("activation", "gradient", "weight_gradient", "update", "parameter"))
    of_layers = site in ("activation", "gradient")
    layers = [one for one in computed["layers"] if known(model, one["name"])]
    tensor = draw.choice(layers if of_layers else computed["parameters"])
    width = WIDTHS[tensor["dtype"]]
    high = [width - 1, width - 3, width - 4, width - 5]
    bit = draw.choice(high if draw.random() < 0.5 else [bit for bit in range(width) if bit != width - 2])
    micro = draw.randrange(tensor.get("passes", 1)) if of_layers else 0
    places = (draw.randrange(computed["replicas"]), micro, draw.randrange(tensor["elements"]), bit)
    elements = draw.randint(1, min(6, tensor["elements"]))
    pattern = f"*{elements}" if draw.random() < 0.3 else ""
    step = draw.randint(1, 4)
    duration = "" if site == "parameter" else draw.choice(DURATIONS)
    return f"{site}:{tensor['name']}@{step}:{'.'.join(map(str, places))}{duration}{pattern}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    equal: Counter[str] = Counter()
    differed = stopped = 0
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        model, optimizer = draw.choice(TASKS)
        replicas, parts, layout = draw.choice(LAYOUTS)
        # Running statistics are replica 0's, and norms of gradients are added by stage: the witness has neither.
        if (model is RESNET and replicas > 1) or (optimizer is ADAMW and "pipeline" in layout):
            continue
        spec = spec_of(model, optimizer, precision=draw.choice(PRECISIONS))
        with tempfile.TemporaryDirectory(prefix="bw-") as name:
            folder = Path(name)
            (folder / "spec.json").write_text(json.dumps(spec))
            text = drawn(model, run("describe", folder / "spec.json", *layout)["computations"], draw)
            try:
                check(folder, spec, text, replicas, parts, layout)
                equal[f"{text.split(':')[0]}, {spec['precision']}"] += 1
            except AssertionError as error:
                if "is not finite" in str(error) or "training stopped" in str(error):
                    stopped += 1
                    continue
                differed += 1
                print(f"DIFFERS {model['name']}, {spec['precision']}, {layout}: {text}\n{error}", flush=True)
    for name, count in sorted(equal.items()):
        print(f"{name:<32} {count:4} equal")
    print(f"{equal.total()} equal, {differed} different, {stopped} ended at a loss that is not finite")
    return 1 if differed else 0


if __name__ == "__main__":
    sys.exit(main())
