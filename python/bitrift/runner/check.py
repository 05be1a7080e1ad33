"""`python -m bitrift.runner SCRIPT --checkpoint FILE --check`: what would stop or spoil a campaign, and its cure."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NoReturn

import torch

from bitrift.audit.pieces import Kind, in_short, keep, pieces_of
from bitrift.audit.process import digest_of
from bitrift.runner import ranks
from bitrift.runner.protocol import last_line
from bitrift.runner.serving import Request, Script, Trainer, returned_epoch, test_metrics
from bitrift.runner.state import weights_in

MUCH_OUTPUT = 1 << 18
"""Bytes that a run may print; a campaign keeps the last 16 MiB of a worker's output."""
_RESET = frozenset({Kind.DEFAULT_GENERATOR, Kind.GRADIENTS, Kind.MODE, Kind.EPOCH})
"""What the worker resets or seeds before each run."""


@dataclass(frozen=True)
class Finding:
    """Something that would stop or spoil a campaign."""

    said: str
    cure: str


@dataclass
class Run:
    """A run of the check: its result, what it began with, and how much it printed."""

    result: dict[str, Any]
    begun: dict[str, str]
    kinds: dict[str, Kind]
    printed: int


@dataclass
class Check:
    """The session of the check."""

    options: argparse.Namespace
    out: IO[str]
    iterators: list[str] = field(default_factory=list)
    broke: bool = False
    """An exception ended a run: other ranks may still be in one of its collective calls."""

    def serve(self, script: Script) -> NoReturn:
        """Prints what any rank finds, and ends the process: 0 nothing, 1 something."""
        from bitrift.runner.__main__ import PEERS_END_S, check_ranks, end

        check_ranks(self.options.ranks)
        began = time.perf_counter()
        found = self.findings(script)
        several, leads = ranks.count() > 1, ranks.number() == 0
        if self.broke and several:
            # If all ranks met the same error, rank 0 says it, and the others are ended. If rank 0 only saw another rank
            # end, that one has said why by then.
            time.sleep(PEERS_END_S * (0.6 if leads else 1))
        elif several:
            found = _different(one for own in ranks.gather(found) for one in own)
        if leads or self.broke:
            for one in found:
                print(f"{one.said}\n  {one.cure}", file=self.out)
        if not found and leads:
            seconds = time.perf_counter() - began
            print(f"nothing found that would stop or spoil a campaign ({seconds:.1f} s)", file=self.out)
            print("  python -m bitrift audit resume says whether the script resumes as if never stopped", file=self.out)
        end(1 if found else 0, self.out)

    def findings(self, script: Script) -> list[Finding]:
        """What is wrong, in the order in which it would show."""
        self._script = script
        self._trainer = Trainer(script)
        loaders = [one for one in gc.get_objects() if issubclass(type(one), torch.utils.data.DataLoader)]
        found = list(_persistent(loaders, self._name_of))
        try:
            first, second, other = self._run(0), self._run(0), self._run(1)
            for one in (first, second, other):
                if one.result["status"] == "rejected":
                    return [*found, _refused(one.result["detail"])]
            if not any(ranks.gather(bool(found))):  # persistent workers explain a difference
                found += self._repeats(first, second)
            found += _no_steps(first)
            found += _orders(first, other, loaders, self._name_of)
            with _counted_output():
                _, returned = self._trainer.load(str(self.options.checkpoint), 0)
                found += _no_epoch(returned) if self._trainer.takes_epoch else ()
                found += self._metrics()
            found += _output(first, second)
        except Exception as error:
            self.broke = True
            found.append(_raised(error))
        return found

    def _run(self, order: int) -> Run:
        begun: dict[str, str] = {}
        kinds: dict[str, Kind] = {}

        def look() -> None:
            for name, one in self._pieces().items():
                begun[name], kinds[name] = digest_of(one.state), one.kind

        with _counted_output() as printed:
            result = self._trainer.run(Request(str(self.options.checkpoint), 1, order), look)
        return Run(result, begun, kinds, printed[0])

    def _pieces(self) -> dict[str, Any]:
        script = self._script
        functions: list[Callable[..., Any]] = [script.train_epoch, script.evaluate, script.load, script.state]
        pieces, self.iterators = pieces_of(functions, Path(self.options.script).resolve().parent, script.state())
        return keep(pieces)

    def _name_of(self, value: Any) -> str:
        names = getattr(self._script.train_epoch, "__globals__", {})
        return next((name for name, one in names.items() if one is value), type(value).__name__)

    def _repeats(self, first: Run, second: Run) -> Iterator[Finding]:
        """Two runs of the same file must be equal."""
        differs = next(filter(None, ranks.gather(_difference(first.result, second.result))), "")
        if not differs:
            return
        seeded = tuple(f"{self._name_of(one)}." for one in self._script.shuffle)  # before each run
        hidden = [
            name
            for name, digest in second.begun.items()
            if first.begun.get(name) != digest and second.kinds[name] not in _RESET and not name.startswith(seeded)
        ]
        said = f"two runs of the same file differ: {differs}"
        if not any(ranks.gather(any(name in first.begun for name in hidden))) and self._repeats_later(second):
            yield Finding(
                said,
                "only the first run of a process differs: something is made when it is first used, and draws random "
                "numbers for it; call train_epoch() and evaluate() once before serve()",
            )
            return
        generators = [name for name in hidden if second.kinds[name] is Kind.GENERATOR]
        others = [name for name in hidden if name not in generators]
        if generators:
            yield Finding(said, f"pass {', '.join(generators)}, or the loader that has it, to serve() as shuffle=")
        if others:
            yield Finding(
                said,
                f"the first run changed {in_short(others)}, which nothing resets: set it in load(), or make it where "
                "an epoch begins (a gradient must not wait for the next epoch)",
            )
        if not hidden:
            seen = f", such as {', '.join(self.iterators)}, which keeps its position" if self.iterators else ""
            yield Finding(
                said,
                f"something that is not in state() lives on from run to run{seen}: make it in each epoch; or threads "
                "or processes of the script race",
            )

    def _repeats_later(self, second: Run) -> bool:
        """Whether a third run is equal to the second, on all ranks."""
        return not any(ranks.gather(_difference(second.result, self._run(0).result)))

    def _metrics(self) -> Iterator[Finding]:
        """The metrics of the loaded base, and with all weights 0, which must be worse: it knows nothing of the data.

        Negated weights would not do: they leave a network of two layers with an odd activation as it is.
        """
        base = _numbers(self._script.evaluate(), self._script.better)
        with torch.no_grad():
            for weight in weights_in(self._script.state()):
                weight.zero_()
        broken = _numbers(self._script.evaluate(), self._script.better)
        none = (0.0, 0.0)
        loss = (base["test_loss"], broken["test_loss"]) if "test_loss" in base and "test_loss" in broken else none
        accuracy = None
        if "test_accuracy" in base and "test_accuracy" in broken:
            accuracy = base["test_accuracy"], broken["test_accuracy"]
        shown = ", ".join(f"{name} is {value:.4g} and {broken.get(name, value):.4g}" for name, value in base.items())
        if base == broken:
            yield Finding(
                f"the metrics do not change when all weights are 0 ({shown})",
                "let evaluate() use the model that load() fills, and state() return it: it may be a copy, an average "
                "of the weights, or a result that was computed before",
            )
        elif loss[1] < loss[0] and (accuracy is None or accuracy[1] >= accuracy[0]):
            yield Finding(
                f"the metrics are better when all weights are 0 ({shown})",
                "return (test_loss, test_accuracy) in this order, or a dict; a better model must have a lower loss, "
                "and the base must be trained",
            )
        elif accuracy is not None and accuracy[1] > accuracy[0] and loss[1] >= loss[0]:
            yield Finding(
                f"the accuracy is higher when all weights are 0 ({shown})",
                "return the share that is right, not the error rate",
            )
        elif turned := [name for name, better in self._script.better.items() if _improves(base, broken, name, better)]:
            other, word = ("higher", "more") if self._script.better[turned[0]] == "lower" else ("lower", "less")
            yield Finding(
                f"{turned[0]} is better when all weights are 0 ({shown})",
                f'if {word} of it is better, give serve() better={{"{turned[0]}": "{other}"}}; '
                "the base must be trained",
            )
        elif accuracy is not None and not 0 <= accuracy[0] <= 1:
            yield Finding(
                f"test_accuracy is {accuracy[0]:.4g}", "return a share from 0 to 1, not percent: divide it by 100"
            )


def _different(findings: Iterable[Finding]) -> list[Finding]:
    """The first with each cure."""
    by_cure: dict[str, Finding] = {}
    for one in findings:
        by_cure.setdefault(one.cure, one)
    return list(by_cure.values())


def _numbers(found: Any, better: Mapping[str, str]) -> dict[str, float]:
    return {name: float(value) for name, value in test_metrics(found, better).items() if name != "test_targets"}


def _improves(base: Mapping[str, float], broken: Mapping[str, float], name: str, better: str) -> bool:
    if name not in base or name not in broken:
        return False
    return broken[name] < base[name] if better == "lower" else broken[name] > base[name]


def _persistent(loaders: list[Any], name_of: Callable[[Any], str]) -> Iterator[Finding]:
    for one in loaders:
        if one.num_workers > 0 and one.persistent_workers:
            yield Finding(
                f"{name_of(one)} has persistent workers, whose generators cannot be reset between runs",
                "set persistent_workers=False, or num_workers=0",
            )


def _refused(detail: str) -> Finding:
    return Finding(
        f"load() refuses the checkpoint: {detail}", "give the file that the script writes, or correct load()"
    )


def _no_steps(first: Run) -> Iterator[Finding]:
    if first.result["status"] == "done" and first.result["steps"] == 0:
        yield Finding(
            "train_epoch took no step of a torch.optim.Optimizer",
            "if it trains by other means, let it return {'steps': N}",
        )


def _no_epoch(returned: Any) -> Iterator[Finding]:
    if returned_epoch(returned) is None:
        yield Finding(
            "train_epoch takes the number of completed epochs, but load() returns none: every run begins with epoch 0",
            "save the number, and return it from load()",
        )


def _raised(error: BaseException) -> Finding:
    said = last_line(error)
    if "deterministic" in said and "use_deterministic_algorithms" in said:
        return Finding(
            f"an operator has no deterministic version: {said[:300]}",
            "replace the operator, or train on the CPU: a campaign needs runs that repeat bit for bit",
        )
    return Finding(f"a run fails: {said[:300]}", "the script must train and evaluate from this checkpoint")


def _difference(first: dict[str, Any], second: dict[str, Any]) -> str:
    """Where two results differ, in words; "" if they do not."""
    if first["status"] != second["status"]:
        return f"one ends with {first['status']}, the other with {second['status']}"
    if first["steps"] != second["steps"]:
        return f"one takes {first['steps']} steps, the other {second['steps']}"
    several = len(first["replicas"]) > 1
    for rank, (evaluations, others) in enumerate(zip(first["replicas"], second["replicas"], strict=True)):
        for one, other in zip(evaluations, others, strict=True):
            for name in one.keys() & other.keys():
                if one[name] != other[name]:
                    return f"{name} is {one[name]} and {other[name]}" + (f" on rank {rank}" if several else "")
    return "the state at the end" if first["replica_digests"] != second["replica_digests"] else ""


def _orders(first: Run, other: Run, loaders: list[Any], name_of: Callable[[Any], str]) -> Iterator[Finding]:
    """Clean runs in other data orders are what trials are judged against."""
    if first.result["final_digest"] != other.result["final_digest"]:
        return
    own = [name_of(one) for one in loaders if one.generator is not None]
    cure = (
        f"pass {', '.join(own)} to serve() as shuffle="
        if own
        else "shuffle the training data in every epoch, and set no fixed seed there"
    )
    yield Finding("runs in two data orders are equal: the batches come in the same order", cure)


def _output(first: Run, second: Run) -> Iterator[Finding]:
    if second.printed > MUCH_OUTPUT:
        yield Finding(
            f"a run prints {second.printed / 2**20:.1f} MiB", "print less: a campaign keeps the last 16 MiB of a worker"
        )
    elif second.printed > 1.5 * first.printed + 4096:
        yield Finding(
            f"the second run prints {second.printed} bytes, the first {first.printed}: the output grows",
            "do not print what is collected from run to run",
        )


@contextlib.contextmanager
def _counted_output() -> Iterator[list[int]]:
    """Keeps what is written to stdout and stderr from the terminal; the list holds the bytes afterwards."""
    written: list[int] = []
    kept = [os.dup(one) for one in (1, 2)]
    with tempfile.TemporaryFile() as file:
        for one in (1, 2):
            os.dup2(file.fileno(), one)
        try:
            yield written
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            written.append(os.fstat(file.fileno()).st_size)
            for one, saved in zip((1, 2), kept, strict=True):
                os.dup2(saved, one)
                os.close(saved)
