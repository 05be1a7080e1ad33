"""Numbers that are struck while a script computes them (docs/compute-faults.md, "In your own script")."""

from __future__ import annotations

import functools
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bitrift.errors import BadInput
from bitrift.runner import ranks
from bitrift.runner.watch import NotComputed, Watch, first_tensor

_INTEGERS = {torch.float64: torch.int64, torch.float32: torch.int32}
_INTEGERS |= {torch.float16: torch.int16, torch.bfloat16: torch.int16}
_PERMANENT = "permanent"
_BECOMES = {"zero": 0.0, "nan": math.nan, "inf": math.inf}
_MOST_NAMES = 20
"""How many names of layers or parameters a message lists."""


@dataclass(frozen=True)
class Fault:
    """A fault as rows have it: `row` is the object under "compute" (docs/journal.md)."""

    row: Mapping[str, Any]
    site: str
    tensor: str
    step: int
    replica: int
    micro_batch: int
    element: int
    bit: int
    effect: str = "flip"
    """Or what the number becomes: "zero", "nan", "inf"."""
    lasting: int | None = 1
    """None: to the end of the run."""
    every: int = 1
    elements: int = 1
    stride: int = 1

    @staticmethod
    def of(row: Mapping[str, Any]) -> Fault:
        parts = dict(row)
        if parts.get("lasting") == _PERMANENT:
            parts["lasting"] = None
        return Fault(row, **parts)

    @property
    def of_layer(self) -> bool:
        """Whether it strikes an output of a module or the gradient of one, and not a tensor of a parameter."""
        return self.site in ("activation", "gradient")

    def places(self, size: int) -> list[int]:
        """The elements that it strikes in a tensor of this many, in order."""
        return [(self.element + i * self.stride) % size for i in range(self.elements)]

    def strikes(self, step: int) -> bool:
        turn, rest = divmod(step - self.step, self.every)
        return turn >= 0 and rest == 0 and (self.lasting is None or turn < self.lasting)

    def flip(self, values: torch.Tensor) -> dict[str, Any]:
        """Alters the elements in place. What was read back of the first one, without how often."""
        size, width = values.numel(), 8 * values.element_size()
        integers = _INTEGERS.get(values.dtype)
        kind = str(values.dtype).removeprefix("torch.")
        missing = f"element {self.element}" if self.element >= size else ""
        missing = f"bit {self.bit}" if integers is None or self.bit >= width else missing
        missing = f"group of {self.elements}" if self.elements > size else missing
        if integers is None or missing:
            raise NotComputed(f"{self.site} of {self.tensor}: there is no {missing} among {size} elements of {kind}")
        numbers = self.places(size)
        if len(set(numbers)) < len(numbers):
            raise NotComputed(f"{self.site} of {self.tensor}: the stride returns to an element, and flips its bit back")
        flat = values.detach().reshape(-1)  # shares memory with `values` where that is possible
        places = torch.tensor(numbers, device=flat.device)
        bits = flat.view(integers)
        old = int(bits[self.element])
        if self.effect == "flip":
            # The highest bit of a signed integer is negative.
            bits[places] = bits[places] ^ (-(1 << self.bit) if self.bit == width - 1 else 1 << self.bit)
        else:
            flat[places] = _BECOMES[self.effect]
        if flat.data_ptr() != values.data_ptr():
            values.detach().copy_(flat.view_as(values))
        patterns = [f"0x{value % (1 << width):0{width // 4}x}" for value in (old, int(bits[self.element]))]
        return {"dtype": kind, "old": patterns[0], "new": patterns[1]}


class Strikes(Watch):
    """The faults of one run on this rank.

    state: where the models are, as Script.state() returns it. Raises BadInput if a fault names a layer or a parameter
    that they do not have, or a replica without a rank. In a campaign a number that does not exist is not struck, which
    its driver notices.
    """

    def __init__(self, faults: Sequence[Fault], state: Any, in_campaign: bool = False) -> None:
        super().__init__(state)
        self._calls: Counter[str] = Counter()  # forward or backward passes of this step, by name
        self._entered = 0  # the last step whose first forward pass has begun
        self._updates: list[Fault] = []
        self._before: list[tuple[list[Fault], torch.Tensor, torch.Tensor]] = []
        self._altered: dict[int, dict[str, Any]] = {}  # by position in `faults`
        self._sizes: dict[int, int] = {}  # of the tensor that was struck first, by the same
        self._faults = list(faults)
        self._in_campaign = in_campaign
        if not in_campaign:
            for fault in faults:
                self._check(fault)

    def __enter__(self) -> Strikes:
        super().__enter__()
        mine = [fault for fault in self._faults if fault.replica == ranks.number()]
        if not mine:
            return self
        for name in {fault.tensor for fault in mine if fault.of_layer} & self.layers.keys():
            own = [fault for fault in mine if fault.of_layer and fault.tensor == name]
            self.keep(self.layers[name].register_forward_hook(functools.partial(self._output, name, own)))
        known = [fault for fault in mine if fault.tensor in self.parameters and not fault.of_layer]
        gradients = [fault for fault in known if fault.site == "weight_gradient"]
        for name in dict.fromkeys(fault.tensor for fault in gradients):
            own = [fault for fault in gradients if fault.tensor == name]
            hook = functools.partial(self._gradient_is_complete, name, own)
            self.keep(self.parameters[name].register_post_accumulate_grad_hook(hook))
        if stored := [fault for fault in known if fault.site == "parameter"]:
            hook = functools.partial(self._before_forward, stored)
            self.keep(torch.nn.modules.module.register_module_forward_pre_hook(hook))
        self._updates = [fault for fault in known if fault.site == "update"]
        return self

    def altered(self) -> list[dict[str, Any]]:
        """What was struck on all ranks, by fault, as rows have it. Collective."""
        everyone = ranks.gather(self._altered)
        return [one[number] for number in range(len(self._faults)) for one in everyone if number in one]

    def _check(self, fault: Fault) -> None:
        known: Mapping[str, Any] = self.layers if fault.of_layer else self.parameters
        if fault.tensor not in known:
            what = "module" if fault.of_layer else "parameter"
            listed = ", ".join(list(known)[:_MOST_NAMES]) + (", ..." if len(known) > _MOST_NAMES else "")
            raise BadInput(f"the script's models have no {what} {fault.tensor}; there are {listed}")
        changes = fault.site in ("weight_gradient", "update")
        if changes and not self.parameters[fault.tensor].requires_grad:
            raise BadInput(f"{fault.tensor} is not trained: it has no gradient and no update")
        if fault.replica >= ranks.count():
            raise BadInput(f"there is no replica {fault.replica}; there are 0 to {ranks.count() - 1}")

    def _strike(self, fault: Fault, values: torch.Tensor) -> None:
        number, values = self._faults.index(fault), ranks.local_shard(values)
        if self._sizes.setdefault(number, values.numel()) != values.numel():
            return  # a batch of another size, at the end of an epoch
        try:
            with torch.no_grad():
                found = fault.flip(values.detach())
        except NotComputed as error:
            return self._cannot(error)
        first = {"compute": dict(fault.row)} | found | {"times": 0}
        self._altered.setdefault(number, first)["times"] += 1

    def _cannot(self, error: NotComputed) -> None:
        """Raises it, except in a campaign, where it would be a crash of the training."""
        if not self._in_campaign:
            raise error
        print(f"bitrift.runner: error: {error}", file=sys.stderr)

    def begin_epoch(self) -> None:
        ranks.reshard(self.layers.values())
        self._calls.clear()

    def _before_forward(self, faults: list[Fault], *_: Any) -> None:
        if not self.trains() or self._entered == self.step:
            return
        self._entered = self.step
        for fault in faults:
            if fault.strikes(self.step):
                self._strike(fault, self.parameters[fault.tensor])

    def _output(self, name: str, faults: list[Fault], module: torch.nn.Module, inputs: Any, output: Any) -> Any:
        if not self.trains():
            return None
        number = self._calls[name]
        self._calls[name] += 1
        due = [fault for fault in faults if fault.micro_batch == number and fault.strikes(self.step)]
        if not due:
            return None
        try:
            y, put_back = first_tensor(name, output)
        except NotComputed as error:
            return self._cannot(error)
        for fault in due:
            if fault.site == "activation":
                y = y.clone()
                self._strike(fault, y)
            elif y.requires_grad:
                y.register_hook(functools.partial(self._gradient, fault))  # type: ignore[no-untyped-call]
        return put_back(y)

    def _gradient(self, fault: Fault, gradient: torch.Tensor) -> torch.Tensor:
        altered = gradient.detach().clone()
        self._strike(fault, altered)
        return altered

    def _gradient_is_complete(self, name: str, faults: list[Fault], parameter: torch.Tensor) -> None:
        key = f"gradient of {name}"
        self._calls[key] += 1
        if self._calls[key] != 1 or parameter.grad is None:
            return
        for fault in faults:
            if fault.strikes(self.step):
                self._strike(fault, parameter.grad)

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        own = {id(value) for group in optimizer.param_groups for value in group["params"]}
        due = [fault for fault in self._updates if fault.strikes(self.step)]
        for name in dict.fromkeys(fault.tensor for fault in due):
            value = self.parameters[name]
            if id(value) in own:
                here = [fault for fault in due if fault.tensor == name]
                part = ranks.local_shard(value.detach())
                self._before.append((here, part, part.clone()))

    def after_update(self) -> None:
        with torch.no_grad():
            for faults, value, before in self._before:
                added = value - before
                struck = torch.zeros(added.numel(), dtype=torch.bool, device=added.device)
                for fault in faults:
                    self._strike(fault, added)
                    struck[torch.tensor(fault.places(added.numel()), device=added.device)] = True
                value.copy_(torch.where(struck.view_as(added), before + added, value))
        self._before = []

    def end_step(self) -> None:
        self._calls.clear()
