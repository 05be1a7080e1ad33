"""A mistake in a spec: exit code 2, one line with file, line and key, no rank started, nothing written."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from train_support import LENET, PROGRAM, SGD, STRATEGIES, call, run, write_spec

CAMPAIGNS = PROGRAM.parent / "bitrift"
SPEC = {
    "model": LENET,
    "data": {"name": "digits"},
    "optimizer": {"name": "sgd", "learning_rate": 0.05},
    "batch_size": 64,
    "epochs": 2,
    "seed": 11,
}
LLAMA = {"name": "llama", "layers": 2, "heads": 4, "width": 16, "context": 16}
GPT = {"name": "gpt", "layers": 2, "heads": 2, "width": 16, "context": 16}
BERT = GPT | {"name": "bert"}
FOLDER = {"name": "folder", "path": "/nowhere", "resize": 32, "crop": 32}

ENUMS = {
    "model.name": {"model": {"name": "resnet19"}},
    "model.stem": {"model": {"name": "resnet18", "stem": "mnist"}},
    "model.norm": {"model": {"name": "mlp", "hidden": [4], "norm": "layer"}},
    "model.width": {"model": {"name": "resnet18", "width": "medium"}},
    "data.name": {"data": {"name": "imagenet"}},
    "data.channels": {"data": {"name": "digits", "channels": 2}},
    "optimizer.name": {"optimizer": {"name": "lion", "learning_rate": 1}},
    "schedule.name": {"schedule": {"name": "linear"}},
    "schedule.monitor": {"schedule": {"name": "plateau", "monitor": "loss"}},
    "precision": {"precision": "fp8"},
    "guards.on_alarm": {"guards": {"on_alarm": "panic"}},
    "device": {"device": "tpu"},
    "parallel.kind": {"parallel": {"kind": "tensor"}},
    "parallel.semantics": {"parallel": {"kind": "data", "ranks": 2, "semantics": "fsdp"}},
    "parallel.sync_on_resume": {"parallel": {"kind": "data", "ranks": 2, "sync_on_resume": "all"}},
    "parallel.schedule": {"parallel": {"kind": "pipeline", "ranks": 2, "schedule": "zero-bubble"}},
    "parallel.balance": {"parallel": {"kind": "pipeline", "ranks": 2, "balance": "guessed"}},
    "parallel.device": {"parallel": {"kind": "serial", "device": "tpu"}},
}

# A key that the chosen kind has no use for.
STRANGERS = {
    "model.hidden": {"model": {"name": "lenet", "hidden": [3]}},
    "model.norm": {"model": {"name": "resnet20", "norm": "batch"}},
    "model.stem": {"model": {"name": "resnet20", "stem": "cifar"}},
    "model.auxiliary": {"model": {"name": "vgg16", "auxiliary": True}},
    "model.dropout": {"model": {"name": "lenet", "dropout": 0.5}},
    "model.layers": {"model": {"name": "lenet", "layers": 2}},
    "model.heads": {"model": {"name": "alexnet", "heads": 2}},
    "model.context": {"model": {"name": "mlp", "hidden": [4], "context": 2}},
    "model.width": {"model": {"name": "lenet", "width": "small"}},
    "model.classes": {"model": GPT | {"classes": 4}, "data": {"name": "jargon"}},
    "data.path": {"data": {"name": "digits", "path": "/nowhere"}},
    "data.crop": {"data": {"name": "digits", "crop": 4}},
    "data.random_crop": {"data": {"name": "digits", "random_crop": True}},
    "data.crop_padding": {"data": FOLDER | {"crop_padding": 2}},
    "data.vocabulary": {"data": {"name": "digits", "vocabulary": "v.txt"}},
    "data.test_fraction": {"data": {"name": "digits", "test_fraction": 0.5}},
    "data.flip": {"model": GPT, "data": {"name": "jargon", "flip": True}},
    "data.mean": {"model": GPT, "data": {"name": "jargon", "mean": [0.5]}},
    "data.mask_fraction": {"model": GPT, "data": {"name": "jargon", "mask_fraction": 0.1}},
    "optimizer.beta1": {"optimizer": {"name": "sgd", "learning_rate": 1, "beta1": 0.5}},
    "optimizer.momentum": {"optimizer": {"name": "adam", "learning_rate": 1, "momentum": 0.5}},
    "optimizer.nesterov": {"optimizer": {"name": "adamw", "learning_rate": 1, "nesterov": True}},
    "schedule.gamma": {"schedule": {"name": "constant", "gamma": 0.5}},
    "schedule.every": {"schedule": {"name": "cosine", "every": 2}},
    "schedule.warmup_steps": {"schedule": {"name": "plateau", "warmup_steps": 2}},
    "schedule.min_learning_rate": {"schedule": {"name": "step", "every": 1, "min_learning_rate": 0.01}},
    "schedule.patience": {"schedule": {"name": "cosine", "patience": 1}},
    "parallel": {"parallel": {"kind": "pipeline", "ranks": 2, "semantics": "ddp"}},
    "bogus": {"bogus": 1},
    "model.bogus": {"model": {"name": "lenet", "bogus": 1}},
    "parallel.bogus": {"parallel": {"kind": "serial", "bogus": 1}},
}

TYPES = {
    "batch_size": {"batch_size": 64.5},
    "seed": {"seed": "11"},
    "epochs": {"epochs": None},
    "threads": {"threads": True},
    "model": {"model": "lenet"},
    "model.hidden[1]": {"model": {"name": "mlp", "hidden": [8, 2.5]}},
    "model.layers": {"model": GPT | {"layers": 2.0}, "data": {"name": "jargon"}},
    "model.width": {"model": GPT | {"width": "small"}, "data": {"name": "jargon"}},
    "data.mean": {"data": {"name": "digits", "mean": 0.5}},
    "data.train_samples": {"data": {"name": "digits", "train_samples": 1e3}},
    "optimizer.learning_rate": {"optimizer": {"name": "sgd", "learning_rate": "NaN"}},
    "optimizer.nesterov": {"optimizer": {"name": "sgd", "learning_rate": 1, "nesterov": 1}},
    "loss_scale": {"loss_scale": "static"},
    "parallel.ranks": {"parallel": {"kind": "data", "ranks": 2.0}},
}

RANGES = {
    "batch_size": {"batch_size": 0},
    "epochs": {"epochs": -1},
    "threads": {"threads": 0},
    "seed": {"seed": 2**53},
    "model.classes": {"model": {"name": "lenet", "classes": 1}},
    "model.dropout": {"model": {"name": "alexnet", "dropout": 1}},
    "model.hidden": {"model": {"name": "mlp", "hidden": []}},
    "model.hidden[0]": {"model": {"name": "mlp", "hidden": [0]}},
    "data.std[0]": {"data": {"name": "digits", "mean": [0.5], "std": [0]}},
    "data.path": {"data": {"name": "idx", "path": ""}},
    "optimizer.learning_rate": {"optimizer": {"name": "sgd", "learning_rate": 0}},
    "optimizer.momentum": {"optimizer": {"name": "sgd", "learning_rate": 1, "momentum": 1}},
    "optimizer.weight_decay": {"optimizer": {"name": "sgd", "learning_rate": 1, "weight_decay": -1}},
    "optimizer.beta2": {"optimizer": {"name": "adam", "learning_rate": 1, "beta2": 1}},
    "optimizer.clip_norm": {"optimizer": {"name": "adam", "learning_rate": 1, "clip_norm": 0}},
    "schedule.factor": {"schedule": {"name": "plateau", "factor": 1}},
    "loss_scale": {"loss_scale": 0.5},
    "guards.loss_spike": {"guards": {"loss_spike": 1}},
    "parallel.ranks": {"parallel": {"kind": "data", "ranks": 0}},
    "parallel.micro_batches": {"parallel": {"kind": "serial", "micro_batches": 0}},
}

# What a schema cannot say: name -> (key, words of the message, changes).
RULES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "image too small": ("model", "at least 63x63 pixels, these have 8x8", {"model": {"name": "alexnet"}}),
    "too many stages": ("parallel", "6 stages", {"parallel": {"kind": "pipeline", "ranks": 6}}),
    "batch over replicas": ("parallel", "multiple of 3", {"parallel": {"kind": "data", "ranks": 3}}),
    "batch over parts": ("parallel", "multiple of 7", {"parallel": {"kind": "serial", "micro_batches": 7}}),
    "hybrid without stages": ("parallel", "'stages' is missing", {"parallel": {"kind": "hybrid", "ranks": 4}}),
    "ranks over stages": ("parallel", "multiple of stages", {"parallel": {"kind": "hybrid", "ranks": 4, "stages": 3}}),
    "serial on two": ("parallel", "serial runs on 1 rank", {"parallel": {"kind": "serial", "ranks": 2}}),
    "stages of a pipeline": ("parallel", "not 3", {"parallel": {"kind": "pipeline", "ranks": 2, "stages": 3}}),
    "text for images": ("data.name", "learns from images", {"data": {"name": "jargon"}}),
    "images for text": ("data.name", "learns from text", {"model": BERT}),
    "labels beyond classes": ("model.classes", "labels 0 to 4", {"model": {"name": "lenet", "classes": 5}}),
    "context beyond text": (
        "model.context",
        "too few for a sample",
        {"model": GPT | {"context": 60000}, "data": {"name": "jargon", "test_fraction": 0.01}},
    ),
    "batch beyond data": ("batch_size", "10 training samples", {"data": {"name": "digits", "train_samples": 10}}),
    "heads": ("model.heads", "multiple of heads", {"model": GPT | {"heads": 3}, "data": {"name": "jargon"}}),
    "mean without std": ("data.mean", "found 1 and 0", {"data": {"name": "digits", "mean": [0.5]}}),
    "two means": ("data.mean", "2 and 2", {"data": {"name": "digits", "mean": [0, 0], "std": [1, 1]}}),
    "crop beyond resize": ("data.crop", "64 does not fit", {"data": FOLDER | {"crop": 64}}),
    "no folder": ("data.path", "/nowhere/train", {"data": FOLDER}),
    "no IDX files": ("data.path", "/nowhere/train-labels", {"data": {"name": "idx", "path": "/nowhere"}}),
    "no CIFAR": ("data.path", "/nowhere/data_batch_1.bin", {"data": {"name": "cifar10", "path": "/nowhere"}}),
    "no text": ("data.path", "/nowhere", {"model": GPT, "data": {"name": "text", "path": "/nowhere"}}),
    "mlp without widths": ("model", "'hidden' is missing", {"model": {"name": "mlp"}}),
    "gpt without heads": (
        "model",
        "'heads' is missing",
        {"model": {"name": "gpt", "layers": 2}, "data": {"name": "jargon"}},
    ),
    "odd heads": (
        "model.heads",
        "each has 3",
        {"model": LLAMA | {"width": 12}, "data": {"name": "jargon"}},
    ),
    "shared heads": ("model.kv_heads", "divisor of 4", {"model": LLAMA | {"kv_heads": 3}, "data": {"name": "jargon"}}),
    "tied gpt": ("model.tied", "gpt has no 'tied'", {"model": GPT | {"tied": True}, "data": {"name": "jargon"}}),
    "dropout in llama": (
        "model.dropout",
        "llama has no",
        {"model": LLAMA | {"dropout": 0.1}, "data": {"name": "jargon"}},
    ),
    "tied pipeline": (
        "model.tied",
        "choose serial or data",
        {"model": LLAMA | {"tied": True}, "data": {"name": "jargon"}, "parallel": {"kind": "pipeline", "ranks": 2}},
    ),
    "idx without path": ("data", "'path' is missing", {"data": {"name": "idx"}}),
    "step without every": ("schedule", "'every' is missing", {"schedule": {"name": "step"}}),
    "long warm-up": ("schedule.warmup_steps", "step 44", {"schedule": {"name": "cosine", "warmup_steps": 100}}),
    "high minimum": ("schedule.min_learning_rate", "above", {"schedule": {"name": "cosine", "min_learning_rate": 1}}),
    "Nesterov": (
        "optimizer.nesterov",
        "momentum",
        {"optimizer": {"name": "sgd", "learning_rate": 1, "nesterov": True}},
    ),
    "moments of SGD": ("guards.moment_bound", "Adam", {"guards": {"moment_bound": True}}),
    "updates of SGD": ("guards.update_bound", "Adam's updates", {"guards": {"update_bound": True}}),
    "two devices": ("device", "keep one", {"device": "cpu", "parallel": {"kind": "serial", "device": "cuda"}}),
}

# What is not JSON, or not what it seems: name -> (key, words, replacement in the text).
TEXTS = {
    "NaN": ("optimizer.learning_rate", "not valid JSON", ("0.05", "NaN")),
    "Infinity": ("optimizer.learning_rate", "not valid JSON", ("0.05", "Infinity")),
    "-Infinity": ("optimizer.learning_rate", "not valid JSON", ("0.05", "-Infinity")),
    "1e999": ("optimizer.learning_rate", "overflow", ("0.05", "1e999")),
    "a number beyond 64 bits": ("batch_size", "expected integer", ("64", "99999999999999999999")),
    "a comma too many": ("seed", "not valid JSON", ("11", "11,")),
    "a key twice": ("seed", "twice", ('"seed": 11', '"seed": 11, "seed": 11')),
    "cut off": ("epochs", "not valid JSON", (',\n "seed": 11\n}', "")),
}


class Bench:
    """A folder with one spec, and an mpirun that tells when it was started."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self.started = folder / "started"
        mpirun = folder / "mpirun"
        mpirun.write_text(f"#!/bin/sh\ntouch '{self.started}'\nexit 1\n")
        mpirun.chmod(0o755)
        self.environment = os.environ | {"BITRIFT_MPIRUN": str(mpirun)}

    def write(self, changes: dict[str, Any]) -> Path:
        path = self.work / "spec.json"
        path.write_text(json.dumps(SPEC | changes, indent=1))
        return path

    def refused(self, *arguments: object) -> str:
        """The one line on stderr; nothing else may have happened."""
        before = {path: path.read_bytes() for path in self.work.iterdir()}
        done = call(*arguments, env=self.environment)
        assert done.returncode == 2, (done.returncode, done.stderr)
        lines = done.stderr.splitlines()
        assert len(lines) == 1 and lines[0].startswith("bitrift-train: error: "), done.stderr
        assert done.stdout == ""
        assert not self.started.exists(), "mpirun was started"
        assert {path: path.read_bytes() for path in self.work.iterdir()} == before
        return lines[0]

    def train_refused(self, spec: Path) -> str:
        return self.refused("train", spec, "-o", self.work / "out.h5", "--trace", self.work / "trace.jsonl")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def line_of(text: str, key: str) -> int:
    """Line of a key such as model.hidden[1] in a text of json.dumps(indent=1): nested keys are indented deeper."""
    lines = text.splitlines()
    at = 0
    for depth, name in enumerate(re.sub(r"\[\d+\]", "", key).split("."), 1):
        at = next(i for i in range(at, len(lines)) if lines[i].startswith(" " * depth + f'"{name}":'))
    index = re.search(r"\[(\d+)\]", key)
    return at + 1 + (int(index[1]) + 1 if index else 0)


def expect_place(message: str, spec: Path, key: str) -> None:
    place = f"{spec}:{line_of(spec.read_text(), key)}: {key}: "
    assert message.startswith("bitrift-train: error: " + place), (place, message)


TABLES = {"ENUMS": ENUMS, "STRANGERS": STRANGERS, "TYPES": TYPES, "RANGES": RANGES}


def expect_words(message: str, table: str) -> None:
    assert table != "ENUMS" or "expected one of" in message
    assert table != "STRANGERS" or "remove the key" in message or "unknown key" in message


# One function reads a spec for both programs, and the other one starts in milliseconds: it has all of these cases.
@pytest.mark.parametrize(
    ("table", "key"), [(name, key) for name, keys in TABLES.items() for key in list(keys)[:: len(keys) - 1]]
)
def test_values_and_keys_that_do_not_fit(bench: Bench, table: str, key: str) -> None:
    spec = bench.write(TABLES[table][key])
    message = bench.train_refused(spec)
    expect_place(message, spec, key)
    expect_words(message, table)


@pytest.mark.parametrize("name", RULES)
def test_rules_beyond_the_schema(bench: Bench, name: str) -> None:
    key, words, changes = RULES[name]
    spec = bench.write(changes)
    message = bench.train_refused(spec)
    expect_place(message, spec, key)
    assert words in message, message


@pytest.mark.parametrize("name", TEXTS)
def test_texts_that_are_no_spec(bench: Bench, name: str) -> None:
    key, words, change = TEXTS[name]
    spec = bench.write({})
    line = line_of(spec.read_text(), key)
    spec.write_text(spec.read_text().replace(*change))
    message = bench.train_refused(spec)
    found = re.match(re.escape(f"bitrift-train: error: {spec}:") + r"(\d+): ", message)
    assert found and line <= int(found[1]) <= line + 1, message
    assert key in message and words in message, message


def test_ranks_do_not_start_for_a_wrong_spec(bench: Bench) -> None:
    spec = bench.write({"parallel": {"kind": "data", "ranks": 2}, "model": {"name": "alexnet"}})
    expect_place(bench.train_refused(spec), spec, "model")
    good = bench.write({"parallel": {"kind": "data", "ranks": 2}})
    call("train", good, "-o", bench.work / "out.h5", env=bench.environment)
    assert bench.started.exists(), "the sign that mpirun was started does not work"


def test_no_card_is_one_line(bench: Bench) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a card")
    for key, changes in {
        "device": {"device": "cuda"},
        "parallel.device": {"parallel": {"kind": "data", "ranks": 2, "device": "cuda"}},
    }.items():
        spec = bench.write(changes)
        message = bench.train_refused(spec)
        expect_place(message, spec, key)
        assert "no CUDA device" in message
    plain = bench.write({})
    message = bench.refused("train", plain, "-o", bench.work / "out.h5", "--device", "cuda")
    assert "no CUDA device" in message and "use device cpu" in message


BASE_CASES = {f"{name} {key}": (name, key, changes) for name, keys in TABLES.items() for key, changes in keys.items()}
BASE_CASES |= {name: ("RULES", RULES[name][0], RULES[name][2]) for name in ("ranks over stages", "heads")}


@pytest.mark.parametrize("case", BASE_CASES)
def test_mistakes_in_the_base_of_a_campaign(tmp_path: Path, case: str) -> None:
    table, key, changes = BASE_CASES[case]
    campaign = json.loads((Path(__file__).parents[3] / "campaigns" / "quickstart.json").read_text())
    campaign["base"]["train"] = SPEC | changes
    spec = tmp_path / "campaign.json"
    spec.write_text(json.dumps(campaign, indent=1))
    command = [CAMPAIGNS, "campaign", "run", spec, "-o", tmp_path / "folder"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    full = "base.train." + key
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert f"{spec}:{line_of(spec.read_text(), full)}: {full}: " in done.stderr, done.stderr
    expect_words(done.stderr, table)
    assert list(tmp_path.iterdir()) == [spec]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two replicas that differ in their batch norm."""
    folder = tmp_path_factory.mktemp("saved")
    model = {"name": "mlp", "hidden": [8], "norm": "batch"}
    spec = write_spec(folder / "spec.json", model, SGD)
    options = [*STRATEGIES["data2"], "--semantics", "horovod"]
    run("train", spec, "-o", folder / "saved.h5", "--steps", 1, *options)
    return folder / "saved.h5"


def alter_spec(**changes: Any) -> Any:
    def work(file: h5py.File) -> None:
        spec = json.loads(file.attrs["spec"])
        file.attrs["spec"] = json.dumps(spec | changes)

    return work


def reshape(file: h5py.File) -> None:
    del file["model/fc1.weight"]
    file["model/fc1.weight"] = np.zeros((8, 63), np.float32)


def reshape_replica(file: h5py.File) -> None:
    del file["replica/1/model/bn1.running_mean"]
    file["replica/1/model/bn1.running_mean"] = np.zeros(9, np.float32)


def stray_replica(file: h5py.File) -> None:
    file["replica/2/model/bn1.running_mean"] = np.zeros(8, np.float32)


def set_attribute(name: str, value: object) -> Any:
    return lambda file: file.attrs.__setitem__(name, value)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (alter_spec(model={"name": "resnet19"}), ["attribute 'spec'", "model.name", "resnet19"]),
        (alter_spec(batch_size=63), ["attribute 'spec'", "parallel", "multiple of 2"]),
        (alter_spec(model={"name": "alexnet"}), ["attribute 'spec'", "model", "63x63"]),
        (alter_spec(model={"name": "mlp", "hidden": [9], "norm": "batch"}), ["model/bn1.bias", "[8]", "[9]"]),
        (alter_spec(model={"name": "mlp", "hidden": [8, 8], "norm": "batch"}), ["missing"]),
        (alter_spec(optimizer={"name": "adam", "learning_rate": 1}), ["optimizer/exp_avg", "missing"]),
        (alter_spec(precision="fp64"), ["float32", "float64"]),
        (alter_spec(bogus=1), ["attribute 'spec'", "bogus"]),
        (set_attribute("spec", "{"), ["attribute 'spec'", "not valid JSON"]),
        (set_attribute("spec", "{}" * 3), ["attribute 'spec'", "not valid JSON"]),
        (lambda file: file.attrs.__delitem__("spec"), ["schema"]),
        (reshape, ["model/fc1.weight", "[8, 63]", "[8, 64]"]),
        (reshape_replica, ["replica/1/model/bn1.running_mean", "[9]", "[8]"]),
        (stray_replica, ["replica/2/model/bn1.running_mean"]),
        (lambda file: file.__delitem__("replica"), ["2 replicas differ", "group replica is missing"]),
        (set_attribute("replicas", "two"), ["replicas", "two"]),
        (set_attribute("replicas", "1"), ["replicas", "at least 2"]),
        (set_attribute("replicas", "-2"), ["replicas", "-2"]),
        (lambda file: file.attrs.__delitem__("replicas"), ["replica/1/model/bn1.running_mean", "not part"]),
    ],
)
def test_checkpoints_that_do_not_fit_their_spec(saved: Path, tmp_path: Path, work: Any, words: list[str]) -> None:
    path = Path(shutil.copy(saved, tmp_path / "altered.h5"))
    with h5py.File(path, "r+") as file:
        work(file)
    out = tmp_path / "out.h5"
    done = call("resume", path, "-o", out, *STRATEGIES["data2"], "--semantics", "horovod")
    errors = [line for line in done.stderr.splitlines() if ": info: " not in line]
    assert done.returncode == 2 and len(errors) == 1, done.stderr
    for word in [str(path), *words]:
        assert word in errors[0], (word, errors[0])
    assert not out.exists() and done.stdout == ""
