"""serve(): what a script hands over, and how one run of it goes."""

from __future__ import annotations

import hashlib
import inspect
import math
import random as python_random
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from os import PathLike
from typing import Any, Protocol

import numpy as np
import torch

import bitrift.torch
from bitrift.kept_state import several
from bitrift.runner import ranks
from bitrift.runner.protocol import last_line, number
from bitrift.runner.state import Snapshot, digest, digest_each
from bitrift.runner.strikes import Fault, Strikes
from bitrift.runner.watch import Watch

TEST_METRICS = ("test_loss", "test_accuracy", "test_capped_loss")
TRAIN_METRICS = ("train_loss", "train_accuracy")
BETTER_KEYS = {"lower": "lower_is_better", "higher": "higher_is_better"}
"""The keys of an evaluation that hold a script's own metrics, by direction."""
MOST_METRICS = 16
_TAKEN = frozenset({*TEST_METRICS, *TRAIN_METRICS, "test_targets", "epoch", "step", "golden"})
_METRIC = re.compile(r"[A-Za-z_][A-Za-z0-9_.@/-]{0,63}")


@dataclass(frozen=True)
class Script:
    """The callables of a script, as serve() describes them."""

    load: Callable[[str], Any]
    train_epoch: Callable[..., Any]
    evaluate: Callable[[], Any]
    state: Callable[[], Any]
    save: Callable[..., Any] | None = None
    shuffle: tuple[Any, ...] = ()
    threads: int = 1
    better: Mapping[str, str] = field(default_factory=dict)


class Session(Protocol):
    """What asks for runs: a campaign's driver, or a call of `python -m bitrift.runner`."""

    def serve(self, script: Script) -> None:
        """Answers every request, then ends the process."""


_session: Session | None = None


def begin(session: Session) -> None:
    """Makes serve() answer this session instead of returning."""
    global _session
    _session = session


def is_served() -> bool:
    """Whether serve() answers a campaign or an audit in this process, and does not return."""
    return _session is not None


def serve(
    *,
    train_epoch: Callable[..., Any],
    evaluate: Callable[[], Any],
    model: torch.nn.Module | Mapping[str, torch.nn.Module] | None = None,
    optimizer: Any = None,
    scheduler: Any = None,
    ema: Any = None,
    scaler: Any = None,
    sampler: Any = None,
    random: bool = False,
    load: Callable[[str], Any] | None = None,
    state: Callable[[], Any] | None = None,
    save: Callable[..., Any] | None = None,
    shuffle: Iterable[Any] = (),
    threads: int = 1,
    better: Mapping[str, str] | None = None,
) -> None:
    """Answers the runs of a campaign; returns at once where there is none.

    train_epoch: trains one epoch. Called with the number of completed epochs if it takes an argument. It may return
        the mean loss, or a dict with train_loss, train_accuracy, or steps (if no torch.optim.Optimizer counts them).
        If it is a generator of step losses, a run ends at the first one that is NaN or infinite.
    evaluate: returns the test loss, (test_loss, test_accuracy), or a dict with test_loss or metrics of your own that
        `better` names, and optionally test_accuracy, test_capped_loss and test_targets (docs/exec-runner.md). Each
        call must return the same metrics.
    better: for each metric of your own, the direction that is better: {"perplexity": "lower", "bleu": "higher"}.
    model, optimizer, scheduler, ema, scaler, sampler, random: what bitrift.torch.save() and load_into() take, and what
        the digest covers. A sampler is seeded like those of `shuffle`.
    load: loads a file. By default bitrift.torch.load_into(path, model, optimizer, ...). May return the completed
        epochs, alone or as `epoch` of a dict. What it raises means that it refuses the file.
    state: everything that training changes, and that decides whether two runs ended equally: models, optimizers,
        schedulers, tensors, arrays, or dicts and lists of them. By default all that is given as model to scaler. Return
        the objects themselves: before each run they are brought back to what they are when serve() is called.
    save: writes a file that load() takes; only `python -m bitrift audit` calls it, on all ranks, with the path and, if
        it takes a second argument, the number of completed epochs. By default bitrift.torch.save() on rank 0; without a
        default if load is given.
    shuffle: what orders the batches by a seed of its own: DataLoaders, samplers or generators. What draws from
        PyTorch's, NumPy's or Python's default generator needs no mention.
    threads: of PyTorch in each process; fixed, because it affects the arithmetic.

    Raises TypeError if neither model nor both load and state are given, ValueError for a wrong `better`.
    """
    if load is None or state is None:
        if model is None:
            raise TypeError("serve(): give model (and optimizer), or both load and state")
        parts = {"optimizer": optimizer, "scheduler": scheduler, "ema": ema, "scaler": scaler}
        kept = parts | {"sampler": sampler, "random": random}
        save = save or (None if load else _saver(model, kept))
        load = load or _loader(model, kept)
        state = state or (lambda: {"model": model} | parts)
    orders = (*shuffle, *several(sampler).values())
    directions = _checked_directions(better or {})
    if _session is not None:
        _session.serve(Script(load, train_epoch, evaluate, state, save, orders, threads, directions))


def _checked_directions(better: Mapping[str, str]) -> dict[str, str]:
    for name, direction in better.items():
        if name in _TAKEN or not _METRIC.fullmatch(name):
            raise ValueError(f"serve(): better: {name!r} cannot name a metric of your own; use letters, digits and _")
        if direction not in BETTER_KEYS:
            raise ValueError(f"serve(): better[{name!r}] is {direction!r}; give 'lower' or 'higher'")
    if len(better) > MOST_METRICS:
        raise ValueError(f"serve(): better names {len(better)} metrics; there may be {MOST_METRICS}")
    return dict(better)


def _loader(model: Any, kept: dict[str, Any]) -> Callable[[str], Any]:
    def load(path: str | PathLike[str]) -> Any:
        return bitrift.torch.load_into(path, model, **kept)

    return load


def _saver(model: Any, kept: dict[str, Any]) -> Callable[..., Any]:
    def save(path: str | PathLike[str], epoch: int) -> None:
        if ranks.number() == 0:
            bitrift.torch.save(path, model, **kept, epoch=epoch)

    return save


def seed_all(*words: object) -> int:
    """Seeds Python, NumPy and PyTorch on all devices with a number that follows from these words, and returns it."""
    text = "/".join(map(str, words)).encode()
    seed = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1
    python_random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)  # noqa: NPY002 (scripts draw from this generator)
    torch.manual_seed(seed)
    return seed


def make_deterministic(threads: int) -> None:
    """Switches on everything that makes equal runs give equal bits."""
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


@dataclass(frozen=True)
class Request:
    """One run, as the driver asks for it (docs/campaign.md, "Worker protocol")."""

    checkpoint: str
    epochs: int
    order_seed: int = 0
    golden: bool = False
    base: str = ""
    """If given: the loaded state is compared with that of this file, see Trainer.unreached()."""
    strikes: tuple[Fault, ...] = ()
    """Numbers that are struck while they are computed."""
    in_campaign: bool = False
    """Whether the driver of a campaign asks; see Strikes."""


class NonFinite(Exception):
    """The first loss or metric that is NaN or infinite ends a run."""


@dataclass
class Progress:
    """What a run has done so far, on this rank."""

    epoch: int = 0
    steps: int = 0
    last_loss: float | None = None
    test_targets: int | None = None
    evaluations: list[dict[str, Any]] = field(default_factory=list)


class Trainer:
    """Makes runs of a script, each as if its process were new."""

    def __init__(self, script: Script) -> None:
        make_deterministic(script.threads)
        self._script = script
        self._clean = Snapshot(script.state())
        self.takes_epoch = arguments_of(script.train_epoch) > 0
        self._loaded_base: dict[int, dict[str, bytes]] = {}  # by order seed
        self._compared: dict[str, bool] | None = None  # whether each part of the loaded state differs from the base's
        self._watch = Watch(None)
        self._tested: set[str] = set()
        """The metrics of the first evaluation."""

    def run(
        self,
        request: Request,
        before_steps: Callable[[], None] = lambda: None,
        watch_on: Callable[[Any], Watch] | None = None,
    ) -> dict[str, Any]:
        """The result of a run, without its id and what changed in the file; equal on all ranks.

        before_steps is called when the file is loaded; watch_on makes what watches the steps, of the script's state.
        Raises what train_epoch, evaluate and state raise.
        """
        began = time.perf_counter()
        self._compared = None
        expected = self._expected(request)
        progress = Progress()
        refusal, returned = self.load(request.checkpoint, request.order_seed)
        if refusal:
            return self._result(progress, "rejected", refusal, began)
        progress.epoch = epoch_of(returned)
        self._compare(request, expected, returned)
        problem = ""
        state = self._script.state()
        strikes = Strikes(request.strikes, state, request.in_campaign)
        self._watch = watch_on(state) if watch_on else strikes
        before_steps()
        with self._watch:
            try:
                if request.epochs == 0:
                    self._evaluate(request, progress, {})
                for _ in range(request.epochs):
                    self._train_epoch(request, progress)
            except NonFinite as found:
                problem = str(found)
        result = self._result(progress, "nonfinite" if problem else "done", problem, began)
        return result | ({"altered_values": strikes.altered()} if request.strikes else {})

    def load(self, checkpoint: str, order_seed: int) -> tuple[str, Any]:
        """Has the script load a file as in a new process; why a rank refuses it, or "", and what it returned."""
        self._clean.restore()
        seed_all("load", order_seed)
        refusal, returned = "", None
        try:
            returned = self._script.load(checkpoint)
        except Exception as error:
            refusal = last_line(error)
        return next((one for one in ranks.gather(refusal) if one), ""), returned

    def digests(self, returned: Any) -> dict[str, bytes]:
        """What load() left behind: a digest for each tensor and number of the state, and the epoch it returned."""
        return digest_each(self._script.state()) | {"returned epoch": repr(epoch_of(returned)).encode()}

    def _expected(self, request: Request) -> dict[str, bytes] | None:
        """The digests of the loaded base. Equal requests make all ranks load the base at the same moment."""
        if not request.base or request.golden:
            return None
        if request.order_seed not in self._loaded_base:
            refusal, returned = self.load(request.base, request.order_seed)
            self._loaded_base[request.order_seed] = {} if refusal else self.digests(returned)
        return self._loaded_base[request.order_seed]

    def _compare(self, request: Request, expected: dict[str, bytes] | None, returned: Any) -> None:
        if not request.base:
            return
        found = self.digests(returned)
        if expected is None:  # a golden run loads the base
            self._loaded_base[request.order_seed] = found
            return
        names = found.keys() | expected.keys()
        everyone = ranks.gather({name for name in names if found.get(name) != expected.get(name)})
        # Another rank may have parts that this one has not.
        self._compared = dict.fromkeys(names, False) | dict.fromkeys(set().union(*everyone), True)

    def unreached(self, changed: list[str]) -> list[str] | None:
        """Which of the tensors that differ in the file did not change the loaded state; None if not compared.

        A script may load under other names, fused or transposed. So all of them reach it if anything differs, except
        one whose own name is in the state and is equal there.
        """
        if self._compared is None:
            return None
        if not any(self._compared.values()):
            return changed
        return [name for name in changed if not self._compared.get(name, True)]

    def _train_epoch(self, request: Request, progress: Progress) -> None:
        seed = seed_all("epoch", request.order_seed, progress.epoch)
        for one in self._script.shuffle:
            seed_order(one, seed)
        before, taken = progress.steps, self._watch.taken
        with self._watch.epoch():
            outcome = self._script.train_epoch(*([progress.epoch] if self.takes_epoch else []))
            metrics = self._follow(outcome, progress) if inspect.isgenerator(outcome) else _train_metrics(outcome)
        progress.steps = before + int(metrics.pop("steps", self._watch.taken - taken))
        if request.golden and progress.steps == before:
            raise ValueError(
                "train_epoch took no step of a torch.optim.Optimizer; if it trains by other means, let it return "
                "{'steps': N}"
            )
        progress.epoch += 1
        self._evaluate(request, progress, metrics)

    def _follow(self, losses: Iterable[Any], progress: Progress) -> dict[str, float]:
        """Takes the steps of a generator; their mean loss."""
        total, count, before = 0.0, 0, progress.steps
        taken = self._watch.taken
        for loss in losses:
            progress.last_loss = ranks.mean(float(loss))
            count += 1
            progress.steps = before + (self._watch.taken - taken or count)
            if not math.isfinite(progress.last_loss):
                raise NonFinite(f"loss of step {before + count} is {number(progress.last_loss)}")
            total += progress.last_loss
        steps = {} if self._watch.taken > taken else {"steps": count}
        return ({"train_loss": total / count} if count else {}) | steps

    def _evaluate(self, request: Request, progress: Progress, training: dict[str, float]) -> None:
        seed_all("evaluate", request.order_seed, progress.epoch)
        better = self._script.better
        found = test_metrics(self._script.evaluate(), better)
        if "test_targets" in found:
            progress.test_targets = int(found["test_targets"])
        tested = {name: float(found[name]) for name in (*TEST_METRICS, *better) if name in found}
        self._tested = self._tested or set(tested)
        if set(tested) != self._tested:
            raise ValueError(
                f"evaluate() returned {', '.join(sorted(tested))}, and {', '.join(sorted(self._tested))} before; "
                "it must return the same metrics every time"
            )
        metrics = training | tested
        evaluation: dict[str, Any] = {name: value for name, value in metrics.items() if name not in better}
        for direction, key in BETTER_KEYS.items():
            if own := {name: tested[name] for name in better if better[name] == direction and name in tested}:
                evaluation[key] = own
        progress.evaluations.append({"epoch": progress.epoch, "step": progress.steps} | evaluation)
        bad = [name for name, value in metrics.items() if not math.isfinite(value)]
        everywhere = [name for one in ranks.gather(bad) for name in one]
        if everywhere:
            raise NonFinite(f"{everywhere[0]} after step {progress.steps} is not finite")

    def _result(self, progress: Progress, status: str, detail: str, began: float) -> dict[str, Any]:
        if status == "rejected":
            seconds = time.perf_counter() - began
            return _REJECTED | {"status": status, "detail": detail, "seconds": seconds}
        final, finite = digest(self._script.state())
        found = ranks.gather((progress.evaluations, final, finite))
        result: dict[str, Any] = {
            "status": status,
            "detail": detail,
            "replicas": [[_numbers(one) for one in evaluations] for evaluations, _, _ in found],
            "steps": progress.steps,
            "nonfinite_state": not all(one for _, _, one in found),
            "final_digest": found[0][1],
            "replica_digests": [one for _, one, _ in found],
            "last_loss": "" if progress.last_loss is None else progress.last_loss.hex(),
            "seconds": time.perf_counter() - began,
        }
        if progress.test_targets is not None:
            result["test_targets"] = progress.test_targets
        if status == "nonfinite":
            result["nonfinite_step"] = progress.steps
        return result


def chosen(found: Mapping[str, Any], better: Mapping[str, str], source: str) -> dict[str, float]:
    """A framework's values of the metrics that `better` names. Raises KeyError that says what `source` has instead."""
    if missing := sorted(set(better) - set(found)):
        raise KeyError(f"{source} no {missing[0]}, but {', '.join(found) or 'nothing'}: name one of these in better=")
    return {name: float(found[name]) for name in better}


# What a run has to say whose file was refused.
_REJECTED: dict[str, Any] = {
    "replicas": [],
    "steps": 0,
    "nonfinite_state": False,
    "final_digest": "",
    "replica_digests": [],
    "last_loss": "",
}


def _numbers(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _numbers(value) if isinstance(value, dict) else number(value) if isinstance(value, float) else value
        for key, value in evaluation.items()
    }


def arguments_of(function: Callable[..., Any]) -> int:
    """How many arguments a function takes by position."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in kinds for one in inspect.signature(function).parameters.values())


def epoch_of(loaded: Any) -> int:
    """The number of completed epochs that load() returned; 0 where it returned none."""
    epoch = returned_epoch(loaded) or 0
    # What a fault made of it may be too large for the journal.
    return max(-(2**53), min(2**53, int(epoch))) if math.isfinite(epoch) else 0


def returned_epoch(loaded: Any) -> Any:
    """The completed epochs, which load() may return alone or in a dict; None where it returned none."""
    if isinstance(loaded, Mapping):
        return loaded.get("epoch")
    return loaded if isinstance(loaded, Real) and not isinstance(loaded, bool) else None


def test_metrics(found: Any, better: Mapping[str, str]) -> dict[str, Any]:
    """What evaluate() returned, by name. Raises ValueError for unknown names, and if nothing can be judged."""
    if isinstance(found, Mapping):
        named = dict(found)
    else:
        try:
            values = tuple(found)
        except TypeError:
            values = (found,)
        named = dict(zip(TEST_METRICS, values, strict=False))
    unknown = sorted(set(named) - {*TEST_METRICS, "test_targets", *better})
    if unknown:
        raise ValueError(
            f"evaluate() returned {', '.join(unknown)}; it may return {', '.join(TEST_METRICS)}, and metrics of your "
            f'own whose direction serve() is told: better={{"{unknown[0]}": "lower"}} or "higher"'
        )
    if "test_loss" not in named and not any(name in named for name in better):
        raise ValueError(
            "evaluate() returned no test_loss; give the loss, (test_loss, test_accuracy), or a dict with test_loss or "
            "a metric of your own that serve(better=...) names"
        )
    return named


def _train_metrics(outcome: Any) -> dict[str, Any]:
    if outcome is None:
        return {}
    if not isinstance(outcome, Mapping):
        return {"train_loss": float(outcome)}
    unknown = sorted(set(outcome) - {*TRAIN_METRICS, "steps"})
    if unknown:
        raise ValueError(
            f"train_epoch() returned {', '.join(unknown)}; it may return train_loss, train_accuracy, steps"
        )
    return {name: int(value) if name == "steps" else float(value) for name, value in outcome.items()}


def seed_order(one: Any, seed: int) -> None:
    """Seeds what orders the batches: a generator, a sampler with a seed, or the parts of a DataLoader or of a sampler
    that wraps others.
    """
    if isinstance(one, torch.Generator):
        one.manual_seed(seed)
    elif isinstance(getattr(one, "seed", None), int):
        one.seed = seed  # as DistributedSampler keeps it
    else:
        for name in ("generator", "sampler", "batch_sampler"):
            part = getattr(one, name, None)
            if part is not None and part is not one:
                seed_order(part, seed)
