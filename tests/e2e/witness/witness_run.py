"""A run of bitrift-train walked again in plain PyTorch: torch.nn modules, torch.optim, schedules and autocast of torch.

It starts from a checkpoint read with h5py or the library of its format, makes its own batches from the sample indices
of a trace, and shares no code with bitrift. What docs/training.md defines itself (cosine, loss scaling of float16
gradients) is written out here.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import data_reference as reference
import numpy as np
import torch
import torch.nn.functional as F
from format_support import FORMATS, file_of, read_native
from torch import Tensor
from train_support import read_idx, read_trace, run
from witness_dropout import Context
from witness_models import loss_of, make_model

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
DTYPES = {"fp64": torch.float64, "bf16": torch.bfloat16, "fp16": torch.float16}
NARROW = (torch.bfloat16, torch.float16)
Batch = tuple[Tensor, Tensor]


class Digits:
    """Batches of the shipped digits: resized, cropped and flipped as docs/data.md says."""

    classes = 10

    def __init__(self, spec: dict[str, Any], seed: int) -> None:
        self.spec, self.seed = spec, seed
        self.train = self.read("train", spec["train_samples"])
        self.test = self.read("t10k", spec["test_samples"])
        self.shape = list(self.train[0].shape[1:])

    def read(self, split: str, count: int) -> Batch:
        pixels = torch.from_numpy(read_idx(f"{split}-images-idx3-ubyte")[:count].copy())
        labels = torch.from_numpy(read_idx(f"{split}-labels-idx1-ubyte")[:count].astype(np.int64))
        images = pixels.unsqueeze(1).to(torch.float32).div(255)
        if size := self.spec.get("resize"):
            images = F.interpolate(images, size=(size, size), mode="bilinear", antialias=True)
        return images, labels

    def train_batch(self, rows: list[int], epoch: int) -> Batch:
        images = []
        for sample in rows:
            image = self.train[0][sample]
            if padding := self.spec.get("crop_padding"):
                place = reference.crop_place(self.seed, epoch, sample, (2 * padding + 1) ** 2)
                image = reference.padded_crop(image, padding, place)
            if self.spec.get("flip") and reference.flipped(self.seed, epoch, sample):
                image = image.flip(2)
            images.append(image)
        return torch.stack(images), self.train[1][rows]

    def test_batch(self) -> Batch:
        return self.test


class Jargon:
    """Batches of the shipped text by bytes: the next token, or masked tokens where the spec has a mask_fraction."""

    def __init__(self, spec: dict[str, Any], seed: int, context: int) -> None:
        path = Path(__file__).resolve().parents[3] / "data" / "jargon" / "jargon.txt.gz"
        text = np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8).astype(np.int64)
        split = len(text) - math.floor(0.1 * len(text) + 0.5)
        self.text = {"train": text[:split], "test": text[split:]}
        self.spec, self.seed, self.shape = spec, seed, [context]
        self.masked = "mask_fraction" in spec
        self.classes = 257 if self.masked else 256

    def sample(self, split: str, i: int, seed: int, epoch: int) -> tuple[list[int], list[int]]:
        context = self.shape[0]
        tokens = self.text[split][i * context : (i + 1) * context + 1].tolist()
        if not self.masked:
            return tokens[:-1], tokens[1:]
        asked = max(1, math.floor(self.spec["mask_fraction"] * context + 0.5))
        return reference.masked_sample(np.asarray(tokens[:context]), i, asked, 256, seed, epoch)

    def train_batch(self, rows: list[int], epoch: int) -> Batch:
        pairs = [self.sample("train", i, self.seed, epoch) for i in rows]
        return torch.tensor([pair[0] for pair in pairs]), torch.tensor([pair[1] for pair in pairs])

    def test_batch(self) -> Batch:
        pairs = [self.sample("test", i, 0, 0) for i in range(self.spec["test_samples"])]
        return torch.tensor([pair[0] for pair in pairs]), torch.tensor([pair[1] for pair in pairs])


def make_data(spec: dict[str, Any]) -> Digits | Jargon:
    if spec["data"]["name"] == "digits":
        return Digits(spec["data"], spec["seed"])
    return Jargon(spec["data"], spec["seed"], spec["model"]["context"])


def make_optimizer(spec: dict[str, Any], model: torch.nn.Module, lr: float) -> torch.optim.Optimizer:
    """The torch.optim class of a spec's `optimizer`; one tensor after the other, as it does by itself on a CPU."""
    decay = {"weight_decay": spec["weight_decay"]} if "weight_decay" in spec else {}
    if spec["name"] == "sgd":
        keys = {key: spec[key] for key in ("momentum", "nesterov") if key in spec}
        return torch.optim.SGD(model.parameters(), lr=lr, foreach=False, **keys, **decay)
    kind = torch.optim.AdamW if spec["name"] == "adamw" else torch.optim.Adam
    return kind(model.parameters(), lr=lr, foreach=False, **decay)


def cosine(schedule: dict[str, Any], base: float, step: int) -> float:
    """docs/training.md, "Cosine"."""
    warm, least = schedule.get("warmup_steps", 0), schedule.get("min_learning_rate", 0.0)
    if step < warm:
        return base * ((step + 1) / (warm + 1))
    t = min(1.0, (step - warm) / (schedule["steps"] - warm))
    return least + (base - least) * (0.5 * (1 + math.cos(math.pi * t)))


class Scaler:
    """torch.amp.GradScaler's arithmetic by its three formulas: it refuses float16 gradients itself."""

    def __init__(self, wanted: str | float, saved: dict[str, np.ndarray]) -> None:
        self.dynamic = wanted == "dynamic"
        self.scale = torch.tensor(float(saved["progress/loss_scale"]), dtype=torch.float32)
        self.good = int(saved["progress/growth_tracker"]) if self.dynamic else 0
        self.skipped = 0

    def unscale(self, parameters: list[torch.nn.Parameter]) -> bool:
        """Whether all gradients are finite."""
        inverse = self.scale.double().reciprocal().float()
        for parameter in parameters:
            assert parameter.grad is not None
            parameter.grad.mul_(inverse)
        return all(bool(parameter.grad.isfinite().all()) for parameter in parameters if parameter.grad is not None)

    def update(self, finite: bool) -> None:
        self.skipped += not finite
        if not self.dynamic:
            return
        self.good = self.good + 1 if finite else 0
        if not finite:
            self.scale = self.scale * 0.5
        elif self.good == 2000:
            self.scale, self.good = self.scale * 2, 0


class Witness:
    """One replica of a run: model, optimizer, schedule and scaler as they stand in a checkpoint.

    replica: whose tensors are taken where the file has some under /replica.
    """

    def __init__(self, spec: dict[str, Any], saved: dict[str, np.ndarray], replica: int = 0) -> None:
        self.spec, self.saved = spec, saved
        self.precision = spec.get("precision", "fp32")
        self.dtype = DTYPES.get(self.precision, torch.float32)
        self.data = make_data(spec)
        self.context = Context(seed=spec["seed"])
        self.model = make_model(spec["model"], self.data.shape, self.data.classes, self.context).to(self.dtype)
        self.parameters = list(self.model.parameters())
        # What a parallel wrapper of the model replaces.
        self.forward: torch.nn.Module = self.model
        self.no_sync: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
        self.optimizer = make_optimizer(spec["optimizer"], self.model, float(saved["progress/learning_rate"]))
        self.restore(replica)
        scale = spec.get("loss_scale", "dynamic" if self.precision.endswith("fp16") else None)
        self.scaler = None if scale is None else Scaler(scale, saved)
        self.done = int(saved["progress/step"])
        self.per_epoch = spec["data"]["train_samples"] // spec["batch_size"]
        self.schedule = self.make_schedule(spec.get("schedule", {"name": "constant"}))

    def restore(self, replica: int) -> None:
        def value_of(name: str) -> Tensor:
            value = self.saved.get(f"replica/{replica}/{name}", self.saved.get(name))
            assert value is not None, name
            return torch.from_numpy(np.asarray(value).copy())

        names = [name.removeprefix("model/") for name in self.saved if name.startswith("model/")]
        state = {name: value_of(f"model/{name}") for name in names}
        if self.precision == "bf16":  # numpy has no such type: h5py reads it widened
            state = {name: v.to(self.dtype) if v.is_floating_point() else v for name, v in state.items()}
        ours = self.model.state_dict()
        for name, value in state.items():
            assert value.dtype == ours[name].dtype, name  # load_state_dict would convert in silence
        self.model.load_state_dict(state, strict=True)
        owners = dict(self.model.named_parameters())
        for path in self.saved:
            if path.startswith("optimizer/"):
                _, slot, key = path.split("/")
                value = value_of(path)
                keep = slot == "step" or self.precision != "bf16"
                self.optimizer.state[owners[key]][slot] = value if keep else value.to(self.dtype)

    def make_schedule(self, spec: dict[str, Any]) -> Any:
        if spec["name"] == "cosine":
            base = float(self.saved["progress/base_learning_rate"])
            self.optimizer.param_groups[0]["lr"] = 1.0
            self.optimizer.param_groups[0]["initial_lr"] = 1.0
            rate = functools.partial(cosine, spec, base)
            return torch.optim.lr_scheduler.LambdaLR(self.optimizer, rate, last_epoch=self.done - 1)
        if spec["name"] == "step":
            assert self.done < self.per_epoch, "StepLR counts epochs from its beginning"
            return torch.optim.lr_scheduler.StepLR(self.optimizer, spec["every"], spec["gamma"])
        if spec["name"] == "plateau":
            mode = "max" if spec["monitor"] == "test_accuracy" else "min"
            keys = {key: spec[key] for key in ("factor", "patience", "threshold", "cooldown")}
            schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
                self.optimizer, mode, min_lr=spec["min_learning_rate"], **keys
            )
            schedule.best = float(self.saved["progress/plateau_best"])
            schedule.num_bad_epochs = int(self.saved["progress/plateau_bad"])
            schedule.cooldown_counter = int(self.saved["progress/plateau_cooldown"])
            return schedule
        return None

    @property
    def lr(self) -> float:
        return float(self.optimizer.param_groups[0]["lr"])

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        if not self.precision.startswith("autocast-"):
            return contextlib.nullcontext()
        return torch.autocast("cpu", DTYPES[self.precision.removeprefix("autocast-")])

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        with self.autocast():
            output = self.forward(inputs.to(self.dtype) if inputs.is_floating_point() else inputs)
            if self.dtype in NARROW:
                output = output.float()
            return loss_of(output, targets)

    def backward(self, step: dict[str, Any], rows: list[int], parts: int = 1) -> float:
        """Gradients of these rows of a step, in equal micro-batches; the mean loss."""
        self.model.train()
        self.optimizer.zero_grad()
        losses = []
        size = len(rows) // parts
        for first in range(0, len(rows), size):
            own = rows[first : first + size]
            self.context.step, self.context.samples = self.done, own
            last = first + size == len(rows)
            with contextlib.nullcontext() if last else self.no_sync():
                loss = self.loss(*self.data.train_batch(own, step["epoch"]))
                share = loss if parts == 1 else loss / parts
                (share if self.scaler is None else share * self.scaler.scale).backward()
            losses.append(loss.item())
        return sum(losses) / parts

    def update(self) -> None:
        """Takes the step that the gradients ask for."""
        finite = True
        if self.scaler is not None:
            finite = self.scaler.unscale(self.parameters)
            self.scaler.update(finite)
        if finite:
            if clip := self.spec["optimizer"].get("clip_norm"):
                torch.nn.utils.clip_grad_norm_(self.parameters, clip)
            self.optimizer.step()
        self.done += 1

    def move_rate(self, evaluation: dict[str, Any] | None) -> None:
        """After a step, with the evaluation of the epoch that it ended."""
        kind = self.spec.get("schedule", {}).get("name")
        ended = self.done % self.per_epoch == 0
        if kind == "cosine" or (kind == "step" and ended):
            self.schedule.step()
        elif kind == "plateau" and ended:
            assert evaluation is not None
            self.schedule.step(evaluation[self.spec["schedule"]["monitor"]])

    def test_losses(self) -> dict[str, float]:
        """The means over the whole test set, of one batch."""
        self.model.eval()
        inputs, targets = self.data.test_batch()
        with torch.no_grad(), self.autocast():
            output = self.model(inputs.to(self.dtype) if inputs.is_floating_point() else inputs)
            logits = (output.float() if self.dtype in NARROW else output).flatten(0, -2)
            total = F.cross_entropy(logits, targets.flatten(), reduction="sum")
            each = F.cross_entropy(logits, targets.flatten(), reduction="none").double()
        capped = each.clamp(max=math.log(logits.shape[1])).sum()
        count = int((targets != -100).sum())
        return {"test_loss": total.item() / count, "test_capped_loss": capped.item() / count}

    def check_test_losses(self, evaluation: dict[str, Any]) -> None:
        for name, value in self.test_losses().items():
            assert same_number(evaluation[name], value), name

    def state(self) -> dict[str, np.ndarray]:
        """Model and optimizer by their paths in a file; bfloat16 as float32."""
        state = {f"model/{key}": value for key, value in self.model.state_dict().items()}
        for key, parameter in self.model.named_parameters():
            slots = self.optimizer.state[parameter].items()
            state |= {f"optimizer/{slot}/{key}": value for slot, value in slots if value is not None}
        narrow = {path for path, value in state.items() if value.dtype == torch.bfloat16}
        return {path: (v.float() if path in narrow else v).detach().numpy() for path, v in state.items()}

    def check_state(self, finished: dict[str, np.ndarray], replica: int = 0) -> None:
        check_state(self.state(), finished, replica)


def check_state(state: dict[str, np.ndarray], finished: dict[str, np.ndarray], replica: int = 0) -> None:
    """Every tensor has the bits of the file, and the file has no other tensors."""
    for path, value in state.items():
        found = finished.get(f"replica/{replica}/{path}", finished.get(path))
        assert found is not None, path
        assert found.dtype == value.dtype and found.tobytes() == value.tobytes(), path
    assert {path for path in finished if path.startswith(("model/", "optimizer/"))} == set(state)


def same_number(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def run_and_trace(
    folder: Path,
    spec: dict[str, Any],
    first: int,
    second: int,
    *options: object,
    alter: Callable[[Path], None] = lambda file: None,
    kind: str = "hdf5",
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], list[dict], list[dict]]:
    """Trains `first` steps and resumes `second`: tensors of both files, traced steps and evaluations of the resumed.

    alter: changes the file in between. kind: the format of both files.
    """
    path = folder / "spec.json"
    path.write_text(json.dumps(spec))
    start, end = file_of(folder, "start", kind), file_of(folder, "end", kind)
    trace, options = folder / "trace.jsonl", (*options, *FORMATS[kind][1])
    run("train", path, "-o", start, "--steps", first, *options, timeout=300)
    alter(start)
    run("resume", start, "--steps", second, "-o", end, "--trace", trace, *options, timeout=300)
    _, steps, evaluations = read_trace(trace)
    assert len(steps) == second
    return read_native(start), read_native(end), steps, evaluations


def walk(witness: Witness, steps: list[dict], evaluations: list[dict], parts: int = 1) -> None:
    """All steps of a trace: the same loss and learning rate at each."""
    by_step = {evaluation["step"]: evaluation for evaluation in evaluations}
    for number, step in enumerate(steps, 1):
        assert float.fromhex(step["lr"]) == witness.lr, f"learning rate of step {step['step']}"
        loss = witness.backward(step, step["indices"], parts)
        assert same_number(float.fromhex(step["loss"]), loss), f"step {step['step']}: {step['loss']}, {loss.hex()}"
        witness.update()
        witness.move_rate(by_step.get(number))


def check_run(
    folder: Path, spec: dict[str, Any], first: int = 3, second: int = 20, parts: int = 1, kind: str = "hdf5"
) -> Witness:
    """bitrift-train and the witness on the same serial run, in micro-batches: losses, rates, test loss, final state."""
    options = () if parts == 1 else ("--micro-batches", parts)
    saved, finished, steps, evaluations = run_and_trace(folder, spec, first, second, *options, kind=kind)
    witness = Witness(spec, saved)
    walk(witness, steps, evaluations, parts)
    witness.check_state(finished)
    assert float(finished["progress/learning_rate"]) == witness.lr
    witness.check_test_losses(evaluations[-1])
    return witness
