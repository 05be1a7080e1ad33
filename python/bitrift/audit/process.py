"""One training of an audit, in a process of its own: what it does is recorded step by step for another process."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, cast

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from bitrift.audit.pieces import Kept, Kind, Piece, keep, pieces_of
from bitrift.runner import ranks, tensors
from bitrift.runner.serving import (
    Script,
    arguments_of,
    epoch_of,
    make_deterministic,
    seed_all,
    seed_order,
    test_metrics,
)

EPOCH = "number of the epoch"
MOST_UPDATES = 100
"""Updates after the save whose tensors are compared one by one; later ones are compared at the end of the training."""


@dataclass(frozen=True)
class Request:
    """What a process does, in this order."""

    output: Path
    """The records of rank R go to this name with .R after it."""
    seed: str
    load: Path | None = None
    transplant: Path | None = None
    """Record whose pieces `take` are put in place of the loaded ones."""
    take: tuple[str, ...] = ()
    before: int = 0
    save: Path | None = None
    after: int = 0
    seed_epochs: bool = False

    def to_json(self) -> str:
        """For the command line of another process."""
        return json.dumps({key: str(one) if isinstance(one, Path) else one for key, one in vars(self).items()})

    @staticmethod
    def from_json(text: str) -> Request:
        """What to_json() returned."""
        values = json.loads(text)
        for key in ("output", "load", "transplant", "save"):
            values[key] = Path(values[key]) if values[key] else None
        return Request(**values | {"take": tuple(values["take"])})


def session_of(text: str, count: int, folder: Path) -> Any:
    """The session of a request, which is the text of Request.to_json() or SaveRequest.to_json()."""
    if "save_request" in json.loads(text):
        from bitrift.audit.save import SaveRequest
        from bitrift.audit.saving import SaveSession

        return SaveSession(SaveRequest.from_json(text), count, folder)
    return Audit(Request.from_json(text), count, folder)


@dataclass
class Update:
    """One step of an optimizer."""

    rates: dict[str, list[float]]
    tensors: dict[str, bytes]


@dataclass
class Record:
    """What a training was at its save, or after its load, and what it did from there on."""

    epoch: int = 0
    begun: dict[str, str] = field(default_factory=dict)
    """Digests of the pieces before anything was trained or loaded."""
    saved: dict[str, Kept] = field(default_factory=dict)
    iterators: list[str] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    epochs: list[dict[str, float]] = field(default_factory=list)
    end: dict[str, Kept] = field(default_factory=dict)


class Audit:
    """The session of one process of an audit."""

    def __init__(self, request: Request, count: int, folder: Path) -> None:
        self._request, self._count, self._folder = request, count, folder
        self.seed = request.seed
        self._record = Record()
        self._recording = False
        self._optimizers: dict[int, str] = {}
        self._modules: dict[str, torch.nn.Module] = {}

    def serve(self, script: Script) -> NoReturn:
        """Trains as asked, writes the record and ends the process."""
        from bitrift.runner.__main__ import check_ranks, end

        check_ranks(self._count)
        make_deterministic(script.threads)
        self._train(script)
        path = self._request.output.with_name(f"{self._request.output.name}.{ranks.number()}")
        torch.save(self._record, path)
        ranks.gather(None)
        end(0)

    def broke(self, detail: str) -> None:
        """An exception ended the script; of several ranks the first one counts."""
        with open(f"{self._request.output}.failed", "a", encoding="utf-8") as file:
            file.write(detail + "\n")

    def _train(self, script: Script) -> None:
        request, record = self._request, self._record
        register_optimizer_step_post_hook(self._count_update)
        record.begun = {name: digest_of(one.state) for name, one in keep(self._pieces(script)).items()}
        epoch = 0
        if request.load is not None:
            epoch = epoch_of(script.load(str(request.load)))
        if request.transplant is not None:
            epoch = self._transplant(script, epoch)
        for _ in range(request.before):
            self._train_epoch(script, epoch)
            epoch += 1
        if request.save is not None:
            self._save(script, str(request.save), epoch)
        pieces = self._pieces(script)
        record.epoch, record.saved = epoch, keep(pieces) | {EPOCH: Kept(EPOCH, Kind.EPOCH, epoch)}
        self._recording = True
        for _ in range(request.after):
            self._train_epoch(script, epoch)
            epoch += 1
        self._recording = False
        record.end = keep(self._pieces(script)) | {EPOCH: Kept(EPOCH, Kind.EPOCH, epoch)}

    def _save(self, script: Script, path: str, epoch: int) -> None:
        if script.save is None:
            raise TypeError(
                "an audit needs the script's way to save: pass save= to bitrift.runner.serve(), beside load="
            )
        script.save(path, *[epoch][: arguments_of(script.save) - 1])
        ranks.gather(None)  # nobody loads or ends before all of it is written

    def _pieces(self, script: Script) -> dict[str, Piece]:
        """The pieces of this moment: a script may make objects when it first needs them."""
        functions: list[Callable[..., Any]] = [script.train_epoch, script.evaluate, script.load, script.state]
        functions += [script.save] if script.save else []
        pieces, self._record.iterators = pieces_of(functions, self._folder, script.state())
        self._modules = pieces_modules(pieces)
        return pieces

    def _transplant(self, script: Script, epoch: int) -> int:
        request = self._request
        path = request.transplant.with_name(f"{request.transplant.name}.{ranks.number()}") if request.transplant else ""
        kept = torch.load(path, weights_only=False).saved
        for name, piece in self._pieces(script).items():
            if name in request.take and name in kept and piece.write is not None:
                piece.write(kept[name].state)
        return int(kept[EPOCH].state) if EPOCH in request.take else epoch

    def _train_epoch(self, script: Script, epoch: int) -> None:
        if self._request.seed_epochs:
            seed = seed_all("epoch", 0, epoch)
            for one in script.shuffle:
                seed_order(one, seed)
        outcome: Any = script.train_epoch(*([epoch] if arguments_of(script.train_epoch) else []))
        metrics: dict[str, float] = {}
        if inspect.isgenerator(outcome):
            losses = [float(one) for one in cast(Iterable[Any], outcome)]
            if self._recording:
                self._record.losses += losses
        elif isinstance(outcome, Mapping):
            metrics = {str(name): float(one) for name, one in outcome.items()}
        elif outcome is not None:
            metrics = {"train_loss": float(outcome)}
        if self._request.seed_epochs:
            seed_all("evaluate", 0, epoch + 1)
        found = test_metrics(script.evaluate(), script.better)
        metrics |= {str(name): float(one) for name, one in found.items()}
        if self._recording:
            self._record.epochs.append(metrics)

    def _count_update(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        if not self._recording:
            return
        name = self._optimizers.setdefault(id(optimizer), f"optimizer {len(self._optimizers) + 1}")
        rates = {name: [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]}
        digests = {}
        if len(self._record.updates) < MOST_UPDATES:
            for module, one in self._modules.items():
                for key, parameter in one.named_parameters():
                    digests[f"{module}/{key}"] = _digest_tensor(parameter)
        self._record.updates.append(Update(rates, digests))


def pieces_modules(pieces: Mapping[str, Piece]) -> dict[str, torch.nn.Module]:
    """The modules whose parameters are pieces."""
    return {name: one.owner for name, one in pieces.items() if one.kind is Kind.PARAMETERS and one.owner is not None}


def _digest_tensor(tensor: torch.Tensor) -> bytes:
    total = hashlib.blake2b(digest_size=16)
    for values in tensors.flat(tensor):
        total.update(values.view(torch.uint8).numpy().data)
    return total.digest()


def digest_of(state: Any) -> str:
    """128 bits over a piece's state, with its types and shapes."""
    total = hashlib.blake2b(digest_size=16)
    _add(total, state)
    return total.hexdigest()


def _add(total: hashlib.blake2b, value: Any) -> None:
    if isinstance(value, torch.Tensor):
        total.update(f"{value.dtype}{tuple(value.shape)}".encode() + _digest_tensor(value))
    elif isinstance(value, Mapping):
        for key, one in value.items():
            total.update(repr(key).encode() + b":")
            _add(total, one)
    elif isinstance(value, (list, tuple)):
        total.update(f"{type(value).__name__}{len(value)}".encode())
        for one in value:
            _add(total, one)
    elif hasattr(value, "tobytes"):
        total.update(f"{value.dtype}{value.shape}".encode() + value.tobytes())
    else:
        total.update(repr(value).encode() + b";")
