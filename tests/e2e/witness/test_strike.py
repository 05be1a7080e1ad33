"""`--strike`: a number is struck while it is computed; hooks of plain PyTorch predict the run to the bit.

The prediction knows docs/compute-faults.md and PyTorch, and shares no code with bitrift.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from torch import Tensor
from train_support import LENET, call, read_trace, run, tensors, write_spec
from witness_run import Witness, same_number

INTEGERS = {torch.float64: torch.int64, torch.float32: torch.int32}
INTEGERS |= {torch.bfloat16: torch.int16, torch.float16: torch.int16}
RESNET = {"name": "resnet20", "width": "small"}
GPT = {"name": "gpt", "layers": 2, "heads": 2, "width": 16, "context": 16, "dropout": 0.1}
LLAMA = {"name": "llama", "layers": 2, "heads": 4, "kv_heads": 2, "width": 16, "context": 16, "tied": True}
SGD = {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9}
ADAMW = {"name": "adamw", "learning_rate": 0.002, "clip_norm": 0.5}
# A layer of bitrift-train ends where this module begins. Others are modules themselves.
NEXT = {"conv1": "conv2", "conv2": "fc1", "fc1": "fc2", "fc2": "fc3"}


def bits_of(value: Tensor) -> int:
    """The pattern of a number of no dimension."""
    width = 8 * value.element_size()
    return int(value.detach().clone().view(INTEGERS[value.dtype])) % (1 << width)


class Strike:
    """One fault, and what it has done."""

    def __init__(self, text: str) -> None:
        self.text = text
        site, rest = text.split(":", 1)
        self.tensor, rest = rest.rsplit("@", 1)
        rest, _, pattern = rest.partition("*")
        rest, _, duration = rest.partition("+")
        lasting, _, every = duration.partition("/")
        elements, _, stride = pattern.partition("/")
        step, places = rest.split(":")
        self.site, self.step = site, int(step)
        *numbers, what = places.split(".")
        self.replica, self.micro, self.element = (int(part) for part in numbers)
        self.becomes = {"zero": 0.0, "nan": np.nan, "inf": np.inf}.get(what)
        self.bit = int(what) if self.becomes is None else None
        self.lasting = None if lasting == "permanent" else int(lasting or 1)
        self.every, self.elements, self.stride = int(every or 1), int(elements or 1), int(stride or 1)
        self.seen: dict[str, Any] = {}

    def due(self, step: int) -> bool:
        turn, rest = divmod(step - self.step, self.every)
        return turn >= 0 and rest == 0 and (self.lasting is None or turn < self.lasting)

    def flip(self, values: Tensor) -> None:
        """Alters these values in place, and notes the first of them."""
        with torch.no_grad():
            for number in range(self.elements):
                place = np.unravel_index((self.element + number * self.stride) % values.numel(), values.shape)
                before = values[place].clone()
                if self.bit is None:
                    values[place] = self.becomes
                else:
                    sign = self.bit == 8 * values.element_size() - 1
                    mask = -(1 << self.bit) if sign else 1 << self.bit
                    values[place] = (before.view(INTEGERS[values.dtype]) ^ mask).view(values.dtype)
                if number == 0:
                    digits = 2 * values.element_size()
                    texts = [f"0x{bits_of(value):0{digits}x}" for value in (before, values[place])]
                    name = str(values.dtype).removeprefix("torch.")
                    first = {"dtype": name, "old": texts[0], "new": texts[1], "times": 0}
                    self.seen = self.seen or first
            self.seen["times"] += 1

    def places(self) -> list[int]:
        return [self.element + number * self.stride for number in range(self.elements)]


class Group:
    """Faults that strike one tensor at the same time, one after the other."""

    def __init__(self, text: str) -> None:
        self.each = [Strike(part) for part in text.split()]
        first = self.each[0]
        self.site, self.tensor, self.replica, self.micro = first.site, first.tensor, first.replica, first.micro
        self.due = first.due

    def flip(self, values: Tensor) -> None:
        for fault in self.each:
            fault.flip(values)

    def places(self) -> list[int]:
        return [place for fault in self.each for place in fault.places()]


class Struck(Witness):
    """A replica that meets faults."""

    def __init__(self, spec: dict[str, Any], saved: dict[str, np.ndarray], replica: int, fault: Group) -> None:
        super().__init__(spec, saved, replica)
        self.replica, self.fault = replica, fault
        self.number, self.forwards, self.training = 0, 0, False
        modules = dict(self.model.named_modules())
        if fault.site in ("activation", "gradient"):
            if fault.tensor in NEXT:
                modules[NEXT[fault.tensor]].register_forward_pre_hook(lambda _, x: (self.pass_on(x[0]),))
            else:
                modules[fault.tensor].register_forward_hook(lambda _, x, y: self.pass_on(y))
        self.model.register_forward_hook(lambda *_: self.count())

    def count(self) -> None:
        self.forwards += 1

    def mine(self) -> bool:
        return self.training and self.replica == self.fault.replica and self.fault.due(self.number)

    def pass_on(self, y: Tensor) -> Tensor:
        if not self.mine() or self.forwards != self.fault.micro:
            return y
        if self.fault.site == "activation":
            y = y.clone()
            self.fault.flip(y.data)
            return y

        def gradient(of: Tensor) -> Tensor:
            altered = of.clone()
            self.fault.flip(altered)
            return altered

        y.register_hook(gradient)
        return y

    def backward(self, step: dict[str, Any], rows: list[int], parts: int = 1) -> float:
        self.number, self.forwards, self.training = self.number + 1, 0, True
        if self.fault.site == "parameter" and self.mine():
            self.fault.flip(dict(self.model.named_parameters())[self.fault.tensor].data)
        loss = super().backward(step, rows, parts)
        self.training = False
        if self.fault.site == "weight_gradient" and self.replica == self.fault.replica and self.fault.due(self.number):
            gradient = dict(self.model.named_parameters())[self.fault.tensor].grad
            assert gradient is not None
            self.fault.flip(gradient)
        return loss

    def update(self) -> None:
        parameter = dict(self.model.named_parameters()).get(self.fault.tensor)
        strikes = self.fault.site == "update" and self.replica == self.fault.replica and self.fault.due(self.number)
        if not strikes:
            return super().update()
        assert parameter is not None
        before = parameter.detach().clone()
        super().update()
        added = parameter.detach() - before
        self.fault.flip(added)
        with torch.no_grad():
            for place in self.fault.places():
                at = np.unravel_index(place % added.numel(), added.shape)
                parameter[at] = before[at] + added[at]


def averaged(witnesses: list[Struck]) -> None:
    """Every parameter's mean gradient as PyTorch's DistributedDataParallel takes it."""
    for parameters in zip(*(one.parameters for one in witnesses), strict=True):
        terms = [parameter.grad * (1 / len(witnesses)) for parameter in parameters]
        total = terms[0].clone()
        for term in terms[1:]:
            total += term
        for parameter in parameters:
            parameter.grad = total.clone()


def spec_of(model: dict[str, Any], optimizer: dict[str, Any], **more: Any) -> dict[str, Any]:
    data = {"name": "jargon" if "context" in model else "digits", "train_samples": 96, "test_samples": 32}
    return {"model": model, "data": data, "optimizer": optimizer, "batch_size": 24, "epochs": 4, "seed": 31} | more


def struck_run(
    folder: Path, spec: dict[str, Any], text: str, layout: tuple[object, ...]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    (folder / "spec.json").write_text(json.dumps(spec))
    run("train", folder / "spec.json", "-o", folder / "start.h5", "--steps", 2, *layout)
    options = ["-o", folder / "end.h5", "--trace", folder / "trace.jsonl"]
    for one in text.split():
        options += ["--strike", one]
    result = run("resume", folder / "start.h5", "--steps", 4, *layout, *options)
    return result, read_trace(folder / "trace.jsonl")[1]


def check(folder: Path, spec: dict[str, Any], text: str, replicas: int, parts: int, layout: tuple[object, ...]) -> None:
    result, steps = struck_run(folder, spec, text, layout)
    fault = Group(text)
    saved, finished = tensors(folder / "start.h5"), tensors(folder / "end.h5")
    witnesses = [Struck(spec, saved, replica, fault) for replica in range(replicas)]
    for number, step in enumerate(steps, 1):
        share = len(step["indices"]) // replicas
        losses = [
            one.backward(step, step["indices"][r * share : (r + 1) * share], parts) for r, one in enumerate(witnesses)
        ]
        loss = sum(losses) / replicas
        assert same_number(float.fromhex(step["loss"]), loss), f"step {number}: {step['loss']}, {loss.hex()}"
        if replicas > 1:
            averaged(witnesses)
        for one in witnesses:
            one.update()
    for seen, one in zip(result["altered_values"], fault.each, strict=True):
        assert seen.pop("compute")["tensor"] == one.tensor
        assert seen == one.seen
        assert one.bit is None or int(seen["old"], 16) ^ int(seen["new"], 16) == 1 << one.bit
    for replica, witness in enumerate(witnesses):
        witness.check_state(finished, replica)


SERIAL: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    (LENET, SGD, "fp32", "activation:conv1@2:0.1.301.29"),
    (LENET, SGD, "fp32", "activation:fc3@2:0.0.17.31+2"),
    (LENET, SGD, "fp32", "gradient:fc1@3:0.1.200.29"),
    (LENET, SGD, "fp32", "weight_gradient:fc2.weight@1:0.0.4000.30"),
    (LENET, SGD, "fp32", "update:conv2.weight@2:0.0.77.29+permanent*5/8"),
    (LENET, ADAMW, "fp64", "gradient:conv2@2:0.0.99.60+2/2"),
    (LENET, ADAMW, "fp64", "update:fc3.bias@2:0.0.3.62"),
    (LENET, SGD, "bf16", "activation:fc1@2:0.1.60.13"),
    (LENET, SGD, "bf16", "update:fc1.weight@2:0.0.60.14"),
    (LENET, SGD, "autocast-bf16", "gradient:conv1@2:0.0.611.13*4"),
    (LENET, SGD, "autocast-bf16", "weight_gradient:conv1.weight@2:0.0.61.29"),
    (RESNET, SGD, "fp32", "activation:layer2.0@2:0.1.100.30"),
    (RESNET, SGD, "fp32", "gradient:layer1.1@2:0.0.100.28"),
    (GPT, ADAMW, "fp32", "activation:transformer.h.0@2:0.1.1000.29"),
    (GPT, ADAMW, "fp32", "gradient:transformer.h.1@2:0.0.1000.28"),
    (GPT, ADAMW, "fp32", "weight_gradient:transformer.wte.weight@2:0.0.1000.30"),
    (GPT, ADAMW, "autocast-bf16", "activation:transformer.h.1@2:0.1.1000.29"),
    (LENET, SGD, "fp32", "parameter:conv2.weight@2:0.0.77.29"),
    (LENET, SGD, "fp32", "activation:fc1@2:0.0.60.zero*30"),
    (LENET, ADAMW, "fp64", "gradient:conv2@2:0.1.99.zero+2*200/3"),
    (GPT, ADAMW, "fp32", "update:transformer.h.1.mlp.c_fc.weight@2:0.0.500.zero+permanent*100"),
    (LENET, SGD, "fp32", "parameter:fc2.bias@2:0.0.6.zero*20"),
    (LENET, SGD, "fp32", "activation:fc1@2:0.1.60.28 activation:fc1@2:0.1.60.13 activation:fc1@2:0.1.901.31"),
    (LENET, SGD, "fp32", "gradient:fc1@2:0.1.60.28 gradient:fc1@2:0.1.60.13 gradient:fc1@2:0.1.901.31"),
    (LENET, ADAMW, "fp32", "weight_gradient:fc2.bias@2:0.0.6.28 weight_gradient:fc2.bias@2:0.0.6.3"),
    (LENET, ADAMW, "fp32", "update:fc2.weight@2:0.0.6.27 update:fc2.weight@2:0.0.6.3 update:fc2.weight@2:0.0.9.22"),
    (LLAMA, ADAMW, "bf16", "update:model.norm.weight@2:0.0.6.12 update:model.norm.weight@2:0.0.6.3"),
    (LENET, SGD, "fp32", "parameter:fc2.bias@2:0.0.6.28 parameter:fc2.bias@2:0.0.6.3"),
    (LENET, ADAMW, "fp64", "parameter:fc1.weight@1:0.0.7679.60*3/7"),
    (GPT, ADAMW, "bf16", "parameter:transformer.h.1.mlp.c_fc.weight@3:0.0.500.12"),
    (LLAMA, ADAMW, "autocast-bf16", "parameter:model.embed_tokens.weight@2:0.0.1599.29"),
    (LLAMA, ADAMW, "fp32", "activation:model.embed_tokens@2:0.1.700.29"),
    (LLAMA, ADAMW, "fp32", "gradient:model.layers.0@2:0.0.1000.28"),
    (LLAMA, ADAMW, "fp32", "weight_gradient:model.embed_tokens.weight@2:0.0.900.29"),
    (LLAMA, ADAMW, "bf16", "activation:model.layers.1@2:0.1.1000.13"),
    (LLAMA, ADAMW, "bf16", "gradient:model.layers.1@2:0.0.500.12"),
    (LLAMA, ADAMW, "bf16", "update:model.layers.0.mlp.gate_proj.weight@2:0.0.60.12"),
    (LLAMA, ADAMW, "autocast-bf16", "weight_gradient:model.layers.1.self_attn.k_proj.weight@2:0.0.60.28"),
]


@pytest.mark.parametrize("model, optimizer, precision, text", SERIAL, ids=[f"{one[2]}-{one[3]}" for one in SERIAL])
def test_a_strike_is_what_a_hook_of_pytorch_would_do(
    tmp_path: Path, model: dict[str, Any], optimizer: dict[str, Any], precision: str, text: str
) -> None:
    check(tmp_path, spec_of(model, optimizer, precision=precision), text, 1, 2, ("--micro-batches", 2))


@pytest.mark.parametrize(
    "text",
    [
        "activation:conv2@2:1.0.100.29",
        "gradient:fc2@2:0.0.100.29",
        "weight_gradient:conv1.weight@2:1.0.5.30",
        "update:fc3.weight@3:1.0.100.29",  # from then on the replicas differ
        "parameter:fc3.weight@2:1.0.100.29",
    ],
)
def test_a_strike_on_one_of_two_replicas(tmp_path: Path, text: str) -> None:
    check(tmp_path, spec_of(LENET, SGD), text, 2, 1, ("--parallel", "data", "--ranks", 2))


@pytest.mark.parametrize(
    "text",
    [
        "activation:conv1@2:0.1.100.29",
        "gradient:conv2@2:0.0.50.29",
        "update:fc3.weight@2:0.0.9.27",
        "parameter:fc2.weight@2:0.0.9.28",
    ],
)
def test_a_strike_in_a_stage_of_a_pipeline(tmp_path: Path, text: str) -> None:
    check(tmp_path, spec_of(LENET, SGD), text, 1, 2, ("--parallel", "pipeline", "--ranks", 3, "--micro-batches", 2))


UNTIED = {key: value for key, value in LLAMA.items() if key != "tied"}


@pytest.mark.parametrize(
    "layout, text",
    [
        (("data", "--ranks", 2), "activation:model.layers.1@2:1.0.100.29"),
        (("data", "--ranks", 2), "weight_gradient:model.embed_tokens.weight@2:1.0.5.30"),
        (("pipeline", "--ranks", 3, "--micro-batches", 2), "gradient:model.layers.0@2:0.1.100.29"),
    ],
)
def test_a_strike_on_ranks_of_a_llama(tmp_path: Path, layout: tuple[object, ...], text: str) -> None:
    data = layout[0] == "data"
    spec = spec_of(LLAMA if data else UNTIED, {"name": "adamw", "learning_rate": 0.002})
    check(tmp_path, spec, text, 2 if data else 1, 1 if data else 2, ("--parallel", *layout))


def test_a_parameter_before_the_first_step_is_the_bit_in_the_file(tmp_path: Path) -> None:
    """As if the checkpoint had been altered, which h5py does here."""
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(spec_of(LENET, SGD)))
    run("train", spec, "-o", tmp_path / "start.h5", "--steps", 2)
    strike = "parameter:conv2.weight@1:0.0.333.28"
    run("resume", tmp_path / "start.h5", "--steps", 4, "-o", tmp_path / "struck.h5", "--strike", strike)
    with h5py.File(tmp_path / "start.h5", "r+") as file:
        weights = file["model/conv2.weight"]
        values = weights[()]
        values.view(np.uint32).reshape(-1)[333] ^= 1 << 28
        weights[...] = values
    run("resume", tmp_path / "start.h5", "--steps", 4, "-o", tmp_path / "altered.h5")
    struck, altered = tensors(tmp_path / "struck.h5"), tensors(tmp_path / "altered.h5")
    assert struck.keys() == altered.keys()
    assert all(struck[key].tobytes() == altered[key].tobytes() for key in struck)


def test_loss_scaling_scales_what_is_struck(tmp_path: Path) -> None:
    spec = spec_of(LENET, SGD, precision="fp16", loss_scale=256)
    check(tmp_path, spec, "weight_gradient:fc2.weight@2:0.0.40.13", 1, 2, ("--micro-batches", 2))


def refused(*words: object) -> str:
    done = call(*words)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("bitrift-train: error: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def spec_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    folder = tmp_path_factory.mktemp("refused")
    spec = write_spec(folder / "spec.json", LENET, {"name": "sgd", "learning_rate": 0.05})
    return lambda *words: refused("train", spec, "-o", folder / "end.h5", "--steps", 3, *words)


@pytest.mark.parametrize(
    "text, says",
    [
        ("activation", "no ':' after the site"),
        ("output:conv1@1:0.0.0.1", "'output' is not a site (activation, gradient, weight_gradient, update, parameter)"),
        ("parameter:conv1.weight@1:0.0.0.1+2", "a second time would flip it back"),
        ("activation:conv1", "no '@' after the tensor"),
        ("activation:conv1@0:0.0.0.1", "'0' is not a valid step (the least is 1)"),
        ("activation:conv1@1:0.0.0", "no '.' after the element"),
        ("activation:conv1@1:0.0.x.1", "'x' is not a valid element"),
        ("activation:conv1@1:0.0.0.1+0", "'0' is not a valid number of times (the least is 1)"),
        ("activation:conv1@1:0.0.0.1?", "'1?' is not a valid bit"),
        ("update:fc1.bias@1:0.1.0.1", "a step has one update for all micro-batches"),
        ("activation:conv9@1:0.0.0.1", "there are conv1, conv2, fc1, fc2, fc3"),
        ("update:conv1@1:0.0.0.1", "there are conv1.weight, conv1.bias,"),
        ("activation:fc3@1:1.0.0.1", "there is no replica 1; there are 0 to 0"),
        ("activation:fc3@1:0.2.0.1", "there is no micro-batch 2; there are 0 to 0"),
        ("activation:fc3@1:0.0.999999.1", "there is no element 999999; there are 0 to"),
        ("activation:fc3@1:0.0.0.32", "there is no bit 32; there are 0 to 31"),
        ("update:fc3.bias@1:0.0.0.3*11", "strikes 11 elements, but there are 10"),
        ("update:fc3.bias@1:0.0.0.3*3/5", "strikes 3 elements, but there are 2 that are 5 apart"),
        ("activation:fc3@4:0.0.0.1", "there is no step 4; the run takes 3"),
    ],
)
def test_a_number_that_does_not_exist_is_refused(spec_file: Callable[..., str], text: str, says: str) -> None:
    said = spec_file("--strike", text)
    assert says in said and text in said


def test_what_does_not_go_with_a_strike(spec_file: Callable[..., str]) -> None:
    strike = ("--strike", "update:fc1.bias@1:0.0.0.1")
    two = ("--parallel", "data", "--ranks", 2)
    assert "given twice" in spec_file(*strike, *strike)
    assert "cannot be combined with --on-failure shrink" in spec_file(*strike, *two, "--on-failure", "shrink")
    assert "updates only a part of the parameters" in spec_file(*strike, *two, "--shard-optimizer")
    assert "which differs from then on" in spec_file(*strike, *two, "--check-replicas")
    stored = ("--strike", "parameter:fc1.bias@1:0.0.0.1")
    assert "which differs from then on" in spec_file(*stored, *two, "--check-replicas")


def test_a_strike_that_the_run_does_not_reach_is_reported(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.json", LENET, {"name": "sgd", "learning_rate": 1e30})
    late = "update:fc1.bias@6:0.0.0.1"
    words = ("train", spec, "-o", tmp_path / "end.h5", "--steps", 6, "--json", "--strike", late)
    done = call(*words, "--strike", "update:fc1.bias@1:0.0.0.1")
    assert done.returncode == 1, done.stderr
    result = json.loads(done.stdout)
    assert result["status"] == "nonfinite" and result["steps"] < 6
    assert [altered["compute"]["step"] for altered in result["altered_values"]] == [1]
    assert f"a number was to be struck at {late}, which the run never reached" in done.stderr
