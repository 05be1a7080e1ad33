"""Which numbers the steps of a script compute: the population of faults that strike them."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from bitrift.runner import ranks, tensors
from bitrift.runner.serving import Request, Trainer
from bitrift.runner.watch import NotComputed, Watch, first_tensor

_FORMATS = {torch.float64: "float64", torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


@dataclass
class Output:
    """What a layer returned in one forward pass; 0 elements: nothing of its own that can be struck."""

    elements: int
    dtype: str
    gradients: int = 0
    """How often a gradient of the loss with respect to it came back."""


@dataclass
class Step:
    """The tensors of one optimizer step on this rank, by layer or parameter."""

    outputs: dict[str, list[Output]]
    parameters: dict[str, tuple[int, str, bool]]
    """Elements and format of each, and whether it had a gradient and was updated."""


class Recorder(Watch):
    """The tensors of each step.

    Numbers that several modules return count as those of the innermost: a container returns what its last layer does,
    one that flattens returns a view of its input, and one that does nothing the input itself. What a layer changes in
    place are other numbers.
    """

    def __init__(self, state: Any) -> None:
        super().__init__(state)
        self.steps: list[Step] = []
        self._outputs: dict[str, list[Output]] = {}
        self._gradients: set[str] = set()
        self._updated: set[int] = set()
        self._seen: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}  # by id; with the version

    def __enter__(self) -> Recorder:
        super().__enter__()
        for name, module in self.layers.items():
            self.keep(module.register_forward_hook(functools.partial(self._output, name)))
        for name, value in self.parameters.items():
            if value.requires_grad:
                hook = functools.partial(self._has_gradient, name)
                self.keep(value.register_post_accumulate_grad_hook(hook))
        return self

    def begin_epoch(self) -> None:
        self._outputs = {}

    def _output(self, name: str, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        if not self.trains():
            return
        y = self._own_output(name, output)
        found = Output(0, "") if y is None else Output(y.numel(), _FORMATS[y.dtype])
        self._outputs.setdefault(name, []).append(found)
        if y is not None and y.requires_grad:
            y.register_hook(functools.partial(_came_back, found))  # type: ignore[no-untyped-call]

    def _own_output(self, name: str, output: Any) -> torch.Tensor | None:
        """The tensor that a layer returned, if it can be struck and no layer within it returned the same."""
        try:
            y, _ = first_tensor(name, output)
        except NotComputed:
            return None
        base = y._base
        whole = y if base is None or base.numel() != y.numel() else base
        known = self._seen.get(id(whole))
        self._seen[id(whole)] = weakref.ref(whole), y._version
        same = known is not None and known[0]() is whole and known[1] == y._version
        return None if same or y.dtype not in _FORMATS or y.numel() == 0 else y

    def _has_gradient(self, name: str, parameter: torch.Tensor) -> None:
        gradient = parameter.grad
        if gradient is not None and gradient.layout == torch.strided and gradient.dtype in _FORMATS:
            self._gradients.add(name)

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        self._updated |= {id(value) for group in optimizer.param_groups for value in group["params"]}

    def end_step(self) -> None:
        parameters = {
            name: (size, _FORMATS[value.dtype], name in self._gradients and id(value) in self._updated)
            for name, value in self.parameters.items()
            if value.dtype in _FORMATS and not tensors.is_composed(value) and (size := ranks.local_shard(value).numel())
        }
        self.steps.append(Step(self._outputs, parameters))
        self._outputs, self._gradients, self._updated, self._seen = {}, set(), set(), {}


def _came_back(output: Output, gradient: torch.Tensor) -> None:
    output.gradients += 1


def computations(trainer: Trainer, base: str) -> dict[str, Any]:
    """record::ComputeMap of a script that trains one epoch from the base. Collective.

    Raises ValueError if the base is refused, the script runs compiled code, no optimizer of torch.optim takes a step,
    steps differ in more than their last one, or ranks differ.
    """
    watch: list[Recorder] = []

    def record(state: Any) -> Recorder:
        watch.append(Recorder(state))
        return watch[0]

    result = trainer.run(Request(base, epochs=1, golden=True), watch_on=record)
    if _compiled():
        raise ValueError(
            "it runs code of torch.compile, which does not call what strikes its numbers: start the campaign with "
            "TORCHDYNAMO_DISABLE=1 in its environment, which runs the same models uncompiled"
        )
    if result["status"] != "done":
        raise ValueError(f"a run from {base} without faults ends as {result['status']}: {result['detail']}")
    if watch[0].steps and watch[0].never_updated:
        raise ValueError(
            "an optimizer of its state takes no step in an epoch, while those of other models do: let state() return "
            "only optimizers that step"
        )
    found = map_of(watch[0].steps, ranks.count())
    _leave_out_uneven(found, {name for name, value in watch[0].parameters.items() if ranks.is_sharded(value)})
    if found["steps_per_epoch"] != result["steps"]:
        raise ValueError(
            f"train_epoch returned {result['steps']} steps, but its optimizers took {found['steps_per_epoch']}: let it "
            "return no 'steps'"
        )
    if any(one != found for one in ranks.gather(found)):
        if any("_fsdp_wrapped_module" in name for name in watch[0].layers):
            raise ValueError(
                "FullyShardedDataParallel cuts parameters at any element, so that its shards differ in size: use "
                "fully_shard, its successor"
            )
        raise ValueError("the ranks compute tensors of different sizes: give all of them batches of the same size")
    return found


def _leave_out_uneven(found: dict[str, Any], sharded: set[str]) -> None:
    """Removes the parameters whose shards differ in size. Collective."""
    sizes = ranks.gather({one["name"]: one["elements"] for one in found["parameters"]})
    uneven = {name for name in sharded if len({one.get(name) for one in sizes}) > 1}
    found["parameters"] = [one for one in found["parameters"] if one["name"] not in uneven]


def _compiled() -> bool:
    """Whether torch.compile has compiled anything in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and dynamo.counters["frames"]["total"] > 0


def map_of(steps: list[Step], replicas: int) -> dict[str, Any]:
    """The same of the steps of one epoch on a rank."""
    if not steps:
        raise ValueError("train_epoch took no step of a torch.optim.Optimizer, so there is no step to strike")
    first = shape_of(steps[0])
    different = [number for number, step in enumerate(steps, 1) if shape_of(step) != first]
    if different and different[0] < len(steps):
        raise ValueError(
            f"step {different[0]} of an epoch computes other tensors than step 1: "
            f"{difference(first, shape_of(steps[different[0] - 1]))}. All steps of an epoch but its last one must "
            "compute the same tensors: pad sequences to one length, give batches one size, and let the optimizers of "
            "one model step together"
        )
    layers = []
    for name, outputs in steps[0].outputs.items():
        if outputs[0].elements == 0 or len({(one.elements, one.dtype) for one in outputs}) > 1:
            continue  # the latter is used in places of different sizes
        layer: dict[str, Any] = {"name": name, "elements": outputs[0].elements, "dtype": outputs[0].dtype}
        if len(outputs) > 1:
            layer["passes"] = len(outputs)
        if any(one.gradients == 0 for one in outputs):
            layer["differentiable"] = False
        layers.append(layer)
    parameters = [
        {"name": name, "elements": elements, "dtype": dtype} | ({} if trained else {"trained": False})
        for name, (elements, dtype, trained) in steps[0].parameters.items()
    ]
    found: dict[str, Any] = {"steps_per_epoch": len(steps), "replicas": replicas}
    if different:
        found["short_steps"] = 1
    return found | {"layers": layers, "parameters": parameters}


def shape_of(step: Step) -> dict[str, Any]:
    """Everything about a step that decides which faults exist, by words for a message."""
    outputs: dict[str, Any] = {
        f"layer {name}": [(one.elements, one.dtype, one.gradients > 0) for one in outputs]
        for name, outputs in step.outputs.items()
    }
    return outputs | {f"parameter {name}": value for name, value in step.parameters.items()}


def difference(first: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The first thing in which two steps differ."""
    for name in [*first, *other]:
        if first.get(name) != other.get(name):
            return f"{name} has {_sizes(other.get(name))}, and {_sizes(first.get(name))} before"
    return ""


def _sizes(found: Any) -> str:
    if found is None:
        return "no numbers"
    if isinstance(found, tuple):
        return f"{found[0]} elements of {found[1]}" + ("" if found[2] else " that are not trained")
    return " and ".join(f"{one[0]} elements of {one[1]}" + ("" if one[2] else " without a gradient") for one in found)
