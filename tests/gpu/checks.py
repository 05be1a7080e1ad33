"""What a CUDA card must show: every strategy, recovery, kind of save, guard and campaign ends as it does on a CPU.

python tests/gpu/checks.py BUILD [--device cuda|cpu] [--jobs N] [--logs DIR] [--only PATTERN...]

BUILD is a build folder. Prints a line for each check: its name, whether it held, and the time; of those that did not
hold, the end of the log. PATTERNs choose checks whose name contains one. Exit code 0 when all held, 1 otherwise.
`--device cpu` runs the same list on a CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STEPS = 14
KILL = "1@9:backward"
RESNET = {
    "model": {"name": "resnet20", "width": "small"},
    "data": {"name": "digits", "train_samples": 256, "test_samples": 64},
    "optimizer": {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.0005},
    "batch_size": 32,
    "epochs": 4,
    "seed": 5,
}
GPT = {
    "model": {"name": "gpt", "layers": 4, "heads": 2, "width": 32, "context": 32, "dropout": 0.1},
    "data": {"name": "jargon", "train_samples": 256, "test_samples": 64},
    "optimizer": {"name": "adamw", "learning_rate": 0.002},
    "batch_size": 16,
    "epochs": 4,
    "seed": 6,
}
STRATEGIES: dict[str, list[str]] = {
    "serial": [],
    "data 2": ["--parallel", "data", "--ranks", "2"],
    "data 4, sharded optimizer": ["--parallel", "data", "--ranks", "4", "--shard-optimizer"],
    "horovod 2": ["--parallel", "data", "--ranks", "2", "--semantics", "horovod"],
    "pipeline 2": ["--parallel", "pipeline", "--ranks", "2", "--micro-batches", "4"],
    "pipeline 4, 1f1b": ["--parallel", "pipeline", "--ranks", "4", "--micro-batches", "4", "--schedule", "1f1b"],
    "hybrid 2x2": ["--parallel", "hybrid", "--ranks", "4", "--stages", "2"],
    "mesh 2x2": ["--parallel", "data", "--mesh", "2x2"],
}
CONTROLS = {"envelope": 20, "held_out": 4, "jitter": 4, "orders": 2}
PRECISIONS = ("bf16", "autocast-bf16", "autocast-fp16")
RECOVERIES: dict[str, list[str]] = {
    "shrink": ["--on-failure", "shrink"],
    "spare": ["--on-failure", "spare"],
    "respawn": ["--on-failure", "respawn"],
    "relaunch": ["--on-failure", "relaunch"],
    "restart": ["--on-failure", "restart"],
}


class Check:
    """One check in a folder of its own, with the programs of a build."""

    def __init__(self, build: Path, device: str, place: Path) -> None:
        self.bin, self.device, self.place = build / "bin", device, place
        self.build = build
        self.log = (place / "log").open("w+")
        self.digests: dict[Path, str] = {}

    def run(self, *command: object, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
        """Runs a program, which must end with 0; returns what it printed."""
        words = [str(word) for word in command]
        self.log.write(f"$ {' '.join(words)}\n")
        done = subprocess.run(
            words, capture_output=True, text=True, env=os.environ | (env or {}), cwd=cwd, check=False, timeout=420
        )
        self.log.write(done.stdout + done.stderr)
        self.log.flush()
        if done.returncode != 0:
            raise AssertionError(f"exit code {done.returncode}")
        return done.stdout

    def spec(self, content: dict, **changes: object) -> Path:
        path = self.place / "spec.json"
        path.write_text(json.dumps(content | changes))
        return path

    def _train(self, command: str, start: Path, name: str, *options: object) -> Path:
        output = f"{self.place}/{name}"
        told = self.run(self.bin / "bitrift-train", command, start, "-o", output, "--device", self.device, *options)
        self.digests[Path(output)] = re.findall(r"^state digest (\w+)$", told, re.MULTILINE)[-1]
        return Path(output)

    def train(self, spec: Path, name: str, *options: object, steps: int = STEPS) -> Path:
        return self._train("train", spec, name, "--steps", steps, *options)

    def resume(self, start: Path, name: str, *options: object, steps: int) -> Path:
        return self._train("resume", start, name, "--steps", steps, *options)

    def same_state(self, one: Path, other: Path) -> None:
        """By the digest that bitrift-train prints of parameters, buffers, optimizer, random numbers and position."""
        if self.digests[one] != self.digests[other]:
            raise AssertionError(f"the states of {one.name} and {other.name} differ")

    def same_bytes(self, one: Path, other: Path) -> None:
        if one.read_bytes() != other.read_bytes():
            raise AssertionError(f"{one.name} and {other.name} differ")

    def same_tensors(self, one: Path, other: Path) -> None:
        self.run(self.bin / "bitrift", "diff", one, other)


def resumes(content: dict, options: list[str], **changes: object) -> Callable[[Check], None]:
    """N + N steps are 2 N steps, byte for byte."""

    def check(here: Check) -> None:
        spec = here.spec(content, **changes)
        whole = here.train(spec, "whole.h5", *options)
        half = here.train(spec, "half.h5", *options, steps=STEPS // 2)
        here.same_bytes(whole, here.resume(half, "rest.h5", *options, steps=STEPS - STEPS // 2))

    return check


def recovers(content: dict, strategy: list[str], recovery: list[str]) -> Callable[[Check], None]:
    """A run that loses a rank ends like one that loses none."""

    def check(here: Check) -> None:
        spec = here.spec(content)
        whole = here.train(spec, "whole.h5", *strategy)
        again = here.train(spec, "again.h5", *strategy, *recovery, "--checkpoint-every", 4, "--kill", KILL)
        here.same_tensors(whole, again)

    return check


def saves(strategy: list[str], options: list[str]) -> Callable[[Check], None]:
    """Checkpoints on the way hold what a run of so many steps ends with."""

    def check(here: Check) -> None:
        spec = here.spec(GPT)
        short = here.train(spec, "short.h5", *strategy, steps=8)
        here.train(spec, "run/", *strategy, *options, "--checkpoint-every", 4, "--checkpoint-keep", 9)
        (saved,) = (path for path in (here.place / "run").iterdir() if re.search(r"0*8\.h5$", path.name))
        here.same_tensors(short, saved)

    return check


def formats(here: Check) -> None:
    """The state of a card has the same bits in every format."""
    spec = here.spec(RESNET)
    first = here.train(spec, "a.h5", steps=4)
    for extension in ("safetensors", "npz", "pt"):
        here.same_state(first, here.train(spec, f"a.{extension}", steps=4))


def guards(here: Check) -> None:
    """Guards only observe, and raise no alarm over a clean run."""
    spec = here.spec(GPT)
    base = here.train(spec, "base.h5", steps=4)
    options = STRATEGIES["data 2"]
    plain = here.resume(base, "plain.h5", *options, steps=6)
    words = [word for name in ("nonfinite", "checksums", "moment_bound") for word in ("--guard", name)]
    watched = here.resume(base, "watched.h5", *options, "--on-alarm", "stop", "--check-replicas", *words, steps=6)
    here.same_state(plain, watched)


def strategies_agree(here: Check) -> None:
    """Serial runs of the same micro-batches and pipelines have the same bits, hybrid and data-parallel runs too."""
    spec = here.spec(GPT)
    serial = here.train(spec, "serial.h5", "--micro-batches", 4)
    here.same_tensors(serial, here.train(spec, "pipeline.h5", *STRATEGIES["pipeline 2"]))
    data = here.train(spec, "data.h5", "--parallel", "data", "--ranks", 2)
    here.same_tensors(data, here.train(spec, "hybrid.h5", "--parallel", "hybrid", "--ranks", 4, "--stages", 2))


def rows_of(folder: Path) -> dict[str, dict]:
    """The rows of a campaign, without what differs from run to run."""
    rows = [json.loads(line)["row"] for line in (folder / "trials.jsonl").read_text().splitlines()]
    for row in rows:
        del row["volatile"]
    return {row["result"]["id"]: row for row in rows}


def campaign(here: Check) -> None:
    """A campaign over a card, twice: golden runs, canaries, trials, and the same rows."""
    spec = {
        "name": "card",
        "seed": 7,
        "base": {"train": RESNET | {"epochs": 2}},
        "resume": {"epochs": 1},
        "arms": [
            {"name": "serial", "parallel": {"kind": "serial", "device": here.device}},
            {"name": "data-2", "parallel": {"kind": "data", "ranks": 2, "device": here.device}},
        ],
        "strata": {"roles": ["weight", "momentum"], "fields": ["exponent", "mantissa"]},
        "trials_per_stratum": 4,
        "controls": CONTROLS,
    }
    path = here.place / "spec.json"
    path.write_text(json.dumps(spec))
    told = []
    for name in ("first", "second"):
        here.run(here.bin / "bitrift", "campaign", "run", path, "-o", here.place / name)
        told.append(rows_of(here.place / name))
    if not told[0] or told[0] != told[1]:
        raise AssertionError(f"the rows of two runs differ ({len(told[0])} and {len(told[1])} rows)")
    here.run(here.bin / "bitrift", "report", here.place / "first", "-o", here.place / "report.html")


def own_script(here: Check) -> None:
    """A campaign over a PyTorch script that trains on the card."""
    examples = ROOT / "examples" / "own-trainer"
    for name in ("digits.py", "cnn.py"):
        shutil.copy(examples / name, here.place)
    script = here.place / "cnn.py"
    text = script.read_text()
    for old, new in (
        ("optimizer = torch.optim.Adam", f'model.to("{here.device}")\noptimizer = torch.optim.Adam'),
        (
            "cross_entropy(model(images), labels)",
            f'cross_entropy(model(images.to("{here.device}")), labels.to("{here.device}"))',
        ),
        ('= digits.read("t10k").tensors', f'= (t.to("{here.device}") for t in digits.read("t10k").tensors)'),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    script.write_text(text)
    environment = {
        "BITRIFT_DATA_DIR": str(ROOT / "data"),
        "BITRIFT_PYTHON": sys.executable,
        "PYTHONPATH": f"{here.build / 'python'}:{os.environ.get('PYTHONPATH', '')}",
    }
    here.run(sys.executable, script, env=environment, cwd=here.place)
    spec = {
        "name": "own",
        "seed": 5,
        "base": {"checkpoint": "digits.h5"},
        "runner": {"python": "cnn.py"},
        "arms": [{"name": "own", "parallel": {"kind": "serial"}}],
        "strata": {"roles": ["weight", "exp_avg"], "fields": ["exponent_msb"]},
        "trials_per_stratum": 3,
        "controls": CONTROLS,
    }
    path = here.place / "spec.json"
    path.write_text(json.dumps(spec))
    here.run(here.bin / "bitrift", "campaign", "run", path, "-o", here.place / "run", env=environment)
    here.run(here.bin / "bitrift", "analyze", here.place / "run", env=environment)


def witness(here: Check) -> None:
    """The steps of a LeNet are those of PyTorch on the same device, bit for bit."""
    folders = [here.build / "python", ROOT / "tests/e2e", os.environ.get("PYTHONPATH", "")]
    environment = {"PYTHONPATH": os.pathsep.join(map(str, folders))}
    script = ROOT / "tests/gpu/witness.py"
    here.run(sys.executable, script, here.bin / "bitrift-train", here.place, here.device, env=environment)


def all_checks() -> dict[str, Callable[[Check], None]]:
    found: dict[str, Callable[[Check], None]] = {}
    for name, options in STRATEGIES.items():
        found[f"resume: {name}"] = resumes(RESNET, options)
        found[f"resume: gpt, {name}"] = resumes(GPT, options)
    for precision in PRECISIONS:
        found[f"resume: {precision}, data 2"] = resumes(GPT, STRATEGIES["data 2"], precision=precision)
    found["strategies agree"] = strategies_agree
    for name, options in RECOVERIES.items():
        found[f"lost rank: data 2, {name}"] = recovers(GPT, STRATEGIES["data 2"], options)
    buddy = ["--on-failure", "spare", "--state-from", "buddy", "--snapshot-every", "3"]
    found["lost rank: pipeline 2, buddy"] = recovers(GPT, STRATEGIES["pipeline 2"], buddy)
    found["lost rank: hybrid 2x2, spare"] = recovers(GPT, STRATEGIES["hybrid 2x2"], RECOVERIES["spare"])
    for writer in ("gather", "shared", "direct"):
        for mode in ("sync", "async"):
            if (writer, mode) == ("shared", "async"):
                continue  # the program refuses it
            options = ["--checkpoint-writer", writer, "--checkpoint-mode", mode]
            found[f"save: {writer}, {mode}"] = saves(STRATEGIES["data 2"], options)
    found["save: pipeline 2, async"] = saves(STRATEGIES["pipeline 2"], ["--checkpoint-mode", "async"])
    found["save: formats"] = formats
    found["guards"] = guards
    found["campaign: bitrift-train"] = campaign
    found["campaign: PyTorch script"] = own_script
    found["steps of PyTorch"] = witness
    return found


def hold(name: str, check: Callable[[Check], None], build: Path, device: str, logs: Path) -> bool:
    started = time.monotonic()
    place = logs / re.sub(r"\W+", "-", name)
    place.mkdir(parents=True)
    here = Check(build, device, place)
    problem = ""
    try:
        check(here)
    except (AssertionError, subprocess.TimeoutExpired, OSError, ValueError, KeyError) as error:
        problem = f"{type(error).__name__}: {error}"
    text = f"{name:36} {'FAILED' if problem else 'ok':7} {time.monotonic() - started:5.0f} s"
    if problem:
        here.log.flush()
        text += "\n" + "\n".join(("    " + (place / "log").read_text()[-3000:]).splitlines()) + f"\n    {problem}"
    print(text, flush=True)
    return not problem


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--only", nargs="*", default=[], metavar="PATTERN", help="checks whose name contains one")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--logs", type=Path, help="a folder for logs and files (default: a temporary one)")
    options = parser.parse_args()
    # Kernels of cuBLAS repeat their bits only with a workspace of this size (PyTorch's notes on reproducibility).
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    chosen = {
        name: check
        for name, check in all_checks().items()
        if not options.only or any(pattern in name for pattern in options.only)
    }
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(options.jobs) as pool:
        logs = options.logs or Path(scratch)
        ended = [
            pool.submit(hold, name, check, options.build.resolve(), options.device, logs)
            for name, check in chosen.items()
        ]
        held = sum(one.result() for one in ended)
    print(f"{held} of {len(chosen)} held")
    return 0 if held == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
