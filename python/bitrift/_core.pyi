from collections.abc import Sequence
from os import PathLike
from typing import Any

version: str

def list_tensors(path: str | PathLike[str]) -> str: ...
def plan(path: str | PathLike[str], model: str, command: Sequence[str]) -> str: ...
def inject(
    path: str | PathLike[str], output: str | PathLike[str] | None, model: str, command: Sequence[str]
) -> str: ...
def replay(
    path: str | PathLike[str],
    output: str | PathLike[str] | None,
    manifest: str | PathLike[str],
    force: bool,
    by_name: bool,
) -> str: ...
def replay_text(
    path: str | PathLike[str], output: str | PathLike[str] | None, manifest: str, force: bool, by_name: bool
) -> str: ...
def undo(path: str | PathLike[str]) -> int: ...
def diff(first: str | PathLike[str], second: str | PathLike[str]) -> str: ...
def read_journal(folder: str | PathLike[str]) -> str: ...
def report(folder: str | PathLike[str]) -> str: ...
def outcomes(
    folder: str | PathLike[str],
    kinds: list[str],
    rule: int,
    horizon: int | None,
    metrics: list[str] | None,
    level: float | None,
) -> str: ...
def trials(
    folder: str | PathLike[str], kinds: list[str], rule: int, horizon: int | None, metrics: list[str] | None
) -> list[tuple[str, str, Any, Any]]: ...
def compare(folder: str | PathLike[str], arms: list[str], outcomes: list[str], margin: float) -> str: ...
def propagation(folder: str | PathLike[str], by_tensor: bool) -> str: ...
def vulnerability_map(
    folder: str | PathLike[str], outcome: str, interval: str, simultaneous: bool, where: list[str]
) -> str: ...
def detectors(folder: str | PathLike[str]) -> str: ...
def summary(
    folder: str | PathLike[str],
    by: list[str] | None,
    interval: str,
    simultaneous: bool,
    effects: bool,
    rule: int,
    horizon: int | None,
    metrics: list[str] | None,
    where: list[str],
) -> str: ...
def table(
    folder: str | PathLike[str],
    by: list[str] | None,
    interval: str,
    simultaneous: bool,
    effects: bool,
    rule: int,
    horizon: int | None,
    metrics: list[str] | None,
    where: list[str],
) -> str: ...
def wilson(successes: float, n: float, confidence: float) -> tuple[float, float]: ...
def clopper_pearson(successes: int, n: int, confidence: float) -> tuple[float, float]: ...
def anytime(successes: int, n: int, confidence: float, population: int | None) -> tuple[float, float]: ...
