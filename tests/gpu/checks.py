"""What a CUDA card must show: every strategy, recovery, kind of save, guard and campaign ends as it does on a CPU.

python tests/gpu/checks.py BUILD [--device cuda|cpu] [--fake now|later] [--cards N] [--table] [--jobs N] [--logs DIR]
                           [--only PATTERN...]

BUILD is a build folder. Prints a line for each check: its name, whether it held, and the time; of those that did not
hold, the end of the log. PATTERNs choose checks whose name contains one. Exit code 0 when all held, 1 otherwise.
`--device cpu` runs the same list on a CPU. `--fake` needs no card: the device is made of the host's memory
(tests/fake_device), and what it calculates must also have the bits of a CPU; its work is done at once or at the next
synchronization, on `--cards` devices. `--table` runs every strategy with every recovery and every kind of save instead,
and prints a table of what held.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STEPS = 14
KILL = "1@9:backward"
REFUSED = 2  # an exit code
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
FILES = ["--checkpoint-every", "4", "--checkpoint-keep", "9"]
CONTROLS = {"envelope": 20, "held_out": 4, "jitter": 4, "orders": 2}
PRECISIONS = ("bf16", "autocast-bf16", "autocast-fp16")
SAVES: dict[str, list[str]] = {
    f"{writer}, {mode}": ["--checkpoint-writer", writer, "--checkpoint-mode", mode]
    for writer in ("gather", "shared", "direct")
    for mode in ("sync", "async")
    if (writer, mode) != ("shared", "async")  # the program refuses it
}
RECOVERIES: dict[str, list[str]] = {
    "shrink": ["--on-failure", "shrink"],
    "spare": ["--on-failure", "spare"],
    "respawn": ["--on-failure", "respawn"],
    "relaunch": ["--on-failure", "relaunch"],
    "restart": ["--on-failure", "restart"],
}


class Refused(AssertionError):
    """The program says that it does not do this."""


class Check:
    """One check in a folder of its own, with the programs of a build."""

    def __init__(self, build: Path, device: str, place: Path) -> None:
        self.bin, self.device, self.place = build / "bin", device, place
        self.build = build
        self.log = (place / "log").open("w+")
        self.digests: dict[Path, str] = {}
        self.environment: dict[str, str] = {}

    def run(self, *command: object, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
        """Runs a program, which must end with 0; returns what it printed."""
        words = [str(word) for word in command]
        self.log.write(f"$ {' '.join(words)}\n")
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            env=os.environ | self.environment | (env or {}),
            cwd=cwd,
            check=False,
            timeout=420,
        )
        self.log.write(done.stdout + done.stderr)
        self.log.flush()
        if done.returncode != 0:
            raise (Refused if done.returncode == REFUSED else AssertionError)(f"exit code {done.returncode}")
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

    @contextlib.contextmanager
    def on_cpu(self) -> Iterator[None]:
        device, self.device = self.device, "cpu"
        yield
        self.device = device

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


def as_on_cpu(content: dict, options: list[str]) -> Callable[[Check], None]:
    """The fake device calculates with the CPU's kernels. Each rank uses its own card."""

    def check(here: Check) -> None:
        spec = here.spec(content)
        used = here.place / "used"
        here.environment["BITRIFT_FAKE_LOG"] = str(used)
        device = here.train(spec, "device.h5", *options)
        with here.on_cpu():
            here.same_state(device, here.train(spec, "cpu.h5", *options))
        ranks = [json.loads(line) for line in used.read_text().splitlines()]
        for rank in ranks:
            if len(rank["devices"]) != 1:
                raise AssertionError(f"a rank used the devices {rank['devices']}")

    return check


class Golden:
    """The files that a strategy leaves on a CPU, made once for several cells of the table."""

    def __init__(self, strategy: list[str], failure: list[str]) -> None:
        self.strategy, self.failure = strategy, failure
        self.lock = threading.Lock()
        self.folder: Path | None = None

    def files(self, here: Check) -> Path:
        with self.lock:
            if self.folder is None:
                with here.on_cpu():
                    self.folder = here.train(here.spec(GPT), "cpu/", *self.strategy, *self.failure, *FILES)
        return self.folder


def cell(golden: Golden, failure: list[str], save: list[str]) -> Callable[[Check], None]:
    """A run that loses a rank and saves every four steps leaves the files of one on a CPU."""

    def check(here: Check) -> None:
        ended = here.train(here.spec(GPT), "device/", *golden.strategy, *failure, *save, *FILES)
        whole = golden.files(here)
        names = sorted(path.name for path in whole.glob("*.h5"))
        if names != sorted(path.name for path in ended.glob("*.h5")) or len(names) < STEPS // 4:
            raise AssertionError(f"the files differ: {names}")
        for name in names:
            here.same_tensors(whole / name, ended / name)

    return check


def table_checks() -> dict[str, Callable[[Check], None]]:
    """Every strategy, every recovery and none, every kind of save."""
    found = {}
    for strategy, options in STRATEGIES.items():
        kill = ["--kill", KILL if options else KILL.replace("1", "0", 1)]
        undisturbed = Golden(options, [])
        for recovery, how in ({"nobody dies": []} | RECOVERIES).items():
            failure = [*how, *kill] if how else []
            # A mesh that shrinks sums in another order from then on.
            golden = Golden(options, failure) if "--mesh" in options and recovery == "shrink" else undisturbed
            for save, words in SAVES.items():
                found[f"{strategy} | {recovery} | {save}"] = cell(golden, failure, words)
    return found


def print_table(ended: dict[str, str]) -> None:
    """ended: how each cell ended, by its name."""
    recoveries = list(dict.fromkeys(name.split(" | ")[1] for name in ended))
    print(f"| strategy | {' | '.join(recoveries)} |\n|{'---|' * (len(recoveries) + 1)}")
    for strategy in dict.fromkeys(name.split(" | ")[0] for name in ended):
        cells = []
        for recovery in recoveries:
            ends = [end for name, end in ended.items() if name.split(" | ")[:2] == [strategy, recovery]]
            counts = {end: ends.count(end) for end in dict.fromkeys(ends)}
            cells.append(", ".join(f"{count} {end}" for end, count in counts.items()))
        print(f"| {strategy} | {' | '.join(cells)} |")


# A number at each site, of replica and micro-batch 0.
STRIKES = (
    "activation:transformer.h.0@2:0.0.100.21",
    "gradient:transformer.h.1@3:0.0.200.21*5/3",
    "weight_gradient:transformer.h.0.mlp.c_fc.weight@4:0.0.300.21",
    "update:transformer.wte.weight@5:0.0.400.21+permanent",
)


def strikes(options: list[str], *, fake: bool) -> Callable[[Check], None]:
    """Numbers that are struck while they are computed change the state, and always in the same way."""

    def check(here: Check) -> None:
        spec = here.spec(GPT)
        words = [word for text in STRIKES for word in ("--strike", text)]
        struck = here.train(spec, "struck.h5", *options, *words)
        here.same_bytes(struck, here.train(spec, "again.h5", *options, *words))
        clean = here.train(spec, "clean.h5", *options)
        if here.digests[struck] == here.digests[clean]:
            raise AssertionError("what was struck changed nothing")
        if fake:
            with here.on_cpu():
                here.same_state(struck, here.train(spec, "cpu.h5", *options, *words))

    return check


def all_checks(*, fake: bool) -> dict[str, Callable[[Check], None]]:
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
    for name, options in SAVES.items():
        found[f"save: {name}"] = saves(STRATEGIES["data 2"], options)
    found["save: pipeline 2, async"] = saves(STRATEGIES["pipeline 2"], ["--checkpoint-mode", "async"])
    found["save: formats"] = formats
    found["guards"] = guards
    for name in ("data 2", "pipeline 2"):
        found[f"strikes: {name}"] = strikes(STRATEGIES[name], fake=fake)
    found["campaign: bitrift-train"] = campaign
    found["campaign: PyTorch script"] = own_script
    found["steps of PyTorch"] = witness
    if fake:
        for name, options in STRATEGIES.items():
            found[f"as on a CPU: {name}"] = as_on_cpu(RESNET, options)
            found[f"as on a CPU: gpt, {name}"] = as_on_cpu(GPT, options)
    return found


def hold(name: str, check: Callable[[Check], None], build: Path, device: str, logs: Path) -> str:
    """Runs a check. Returns how it ended: ok, refused or FAILED."""
    started = time.monotonic()
    place = logs / re.sub(r"\W+", "-", name)
    place.mkdir(parents=True)
    here = Check(build, device, place)
    problem, end = "", "ok"
    try:
        check(here)
    except Refused:
        end = "refused"
    except (AssertionError, subprocess.TimeoutExpired, OSError, ValueError, KeyError) as error:
        problem, end = f"{type(error).__name__}: {error}", "FAILED"
    text = f"{name:42} {end:7} {time.monotonic() - started:5.0f} s"
    if problem:
        here.log.flush()
        text += "\n" + "\n".join(("    " + (place / "log").read_text()[-3000:]).splitlines()) + f"\n    {problem}"
    print(text, flush=True)
    return end


def use_fake_device(build: Path, work: str, cards: int) -> None:
    """What programs must find in their environment."""
    place = build / "tests" / "fake_device"
    os.environ.update(
        LD_PRELOAD=str(place / "load_fake_device.so"),
        BITRIFT_FAKE_DEVICE=str(place / "fake_device.so"),
        BITRIFT_FAKE_WORK=work,
        BITRIFT_FAKE_DEVICES=str(cards),
        PYTHONPATH=os.pathsep.join([str(ROOT / "tests" / "fake_device"), os.environ.get("PYTHONPATH", "")]),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--only", nargs="*", default=[], metavar="PATTERN", help="checks whose name contains one")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--fake", choices=("now", "later"), help="use the fake device, which works at once or later")
    parser.add_argument("--cards", type=int, default=1, help="fake devices (default: 1)")
    parser.add_argument("--table", action="store_true", help="every strategy, recovery and kind of save")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--logs", type=Path, help="a folder for logs and files (default: a temporary one)")
    options = parser.parse_args()
    # Kernels of cuBLAS repeat their bits only with a workspace of this size (PyTorch's notes on reproducibility).
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    # Tests that share a loaded program (tests/e2e/resident) must not share it with these: it has no device.
    os.environ.pop("BITRIFT_RESIDENT_TOOLS", None)
    build = options.build.resolve()
    if options.fake:
        use_fake_device(build, options.fake, options.cards)
    checks = table_checks() if options.table else all_checks(fake=bool(options.fake))
    chosen = {
        name: check
        for name, check in checks.items()
        if not options.only or any(pattern in name for pattern in options.only)
    }
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(options.jobs) as pool:
        logs = options.logs or Path(scratch)
        running = {name: pool.submit(hold, name, check, build, options.device, logs) for name, check in chosen.items()}
        ended = {name: one.result() for name, one in running.items()}
    if options.table:
        print_table(ended)
    counts = {end: list(ended.values()).count(end) for end in ("ok", "refused", "FAILED")}
    refused = f", {counts['refused']} refused" if options.table else ""
    print(f"{counts['ok']} of {len(chosen)} held{refused}")
    return 0 if counts["FAILED"] == 0 and (options.table or counts["refused"] == 0) else 1


if __name__ == "__main__":
    sys.exit(main())
