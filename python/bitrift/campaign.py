"""Folders of campaigns: their rows, outcomes and rates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, cast

from bitrift import _core
from bitrift.errors import BadInput
from bitrift.manifests import fault_of, numbers_of

Path = str | PathLike[str]
Where = Mapping[str, str | int | Sequence[str | int]]
Names = str | Sequence[str]
"""One name, or several."""
IntervalKind = Literal["anytime", "wilson", "clopper_pearson"]
OUTCOMES = ("masked", "SDC", "crash")


@dataclass(frozen=True)
class Outcome:
    """How one trial ended (docs/outcomes.md)."""

    arm: str
    stratum: str
    draw: int
    """Rows of equal stratum and draw carry the same fault, under different arms."""
    kind: str
    """trial; held_out, jitter or canary where asked for."""
    outcome: str
    """masked, SDC or crash."""
    reason: str
    course: str
    """sharp, slow or relapsed: how an SDC developed; empty otherwise and after a single evaluation."""
    p_value: float | None
    """Share of the run and its arm's clean runs that are at least as harmful; None where metrics did not decide."""
    bitwise_equal: bool
    steps_to_recover: int | None
    """For the reason reconverged; None otherwise."""
    recovered: bool = False
    """Ranks failed, and the run continued to its end."""


def read_journal(folder: Path) -> list[dict[str, Any]]:
    """The rows of a campaign's journal that count, in file order, as docs/journal.md describes them.

    Controls, envelope runs and canaries are among them (`kind`). Patterns of faults are integers, and numbers that are
    not finite are floats. A rank that was to fail is a fault {"process": {...}}. Raises NotFound and BadFile.
    """
    rows = cast(list[dict[str, Any]], numbers_of(json.loads(_core.read_journal(folder))))
    return [{**row, "faults": [fault_of(fault) for fault in row.get("faults", [])]} for row in rows]


def outcomes(
    folder: Path,
    kinds: Names = ("trial",),
    *,
    horizon: int | None = None,
    metrics: Names | None = None,
    level: float | None = None,
) -> list[Outcome]:
    """The outcome of every trial, in file order.

    kinds: of rows: trial, held_out, jitter, canary.  horizon: judge at this
    evaluation, the first being 1. metrics, level: instead of the campaign's own. Raises NotFound and BadFile, Conflict
    or BadInput when the campaign's controls are missing, disagree or calibrate nothing, and Conflict when its canaries
    misbehave or its clean runs contradict the stated level.
    """
    chosen = None if metrics is None else names_of(metrics)
    text = _core.outcomes(folder, names_of(kinds), horizon, chosen, level)
    return [Outcome(**entry) for entry in json.loads(text)]


def summary(
    folder: Path,
    by: Names | None = None,
    *,
    interval: IntervalKind = "anytime",
    simultaneous: bool = False,
    effects: bool = False,
    horizon: int | None = None,
    metrics: Names | None = None,
    where: Where | None = None,
) -> dict[str, Any]:
    """Rates with intervals, in the form of summary.json (docs/statistics.md). Nothing is written.

    by: one or several of arm, base, role, field, stratum, state, layer, tensor, bit, scope, plane, precision, guard;
    arm is added when it is missing. None: as `bitrift analyze`, by arm and field, or by arm and stratum where the
    strata are fault models. interval: anytime holds at every look, wilson and clopper_pearson at one. simultaneous: all
    intervals hold together. effects: also the shares of trials that lose more than 0.1 to 10 points of test accuracy.
    where: only what has one of these values in each dimension, such as {"role": "momentum", "bit": [30, 31]}; for
    tensor they are patterns. layer, tensor and bit need the base checkpoint in the folder. horizon, metrics and what is
    raised: as `outcomes`.
    """
    grouped = None if by is None else names_of(by)
    chosen = None if metrics is None else names_of(metrics)
    text = _core.summary(folder, grouped, interval, simultaneous, effects, horizon, chosen, conditions(where))
    return cast(dict[str, Any], numbers_of(json.loads(text)))


def table(
    folder: Path,
    by: Names | None = None,
    *,
    interval: IntervalKind = "anytime",
    simultaneous: bool = False,
    effects: bool = False,
    horizon: int | None = None,
    metrics: Names | None = None,
    where: Where | None = None,
) -> str:
    """The same as text, as `bitrift analyze` prints it. Raises as `summary` does."""
    grouped = None if by is None else names_of(by)
    chosen = None if metrics is None else names_of(metrics)
    return _core.table(folder, grouped, interval, simultaneous, effects, horizon, chosen, conditions(where))


def names_of(value: Names) -> list[str]:
    """The names of an argument that takes one or several."""
    return [value] if isinstance(value, str) else list(value)


def outcome_named(name: str, *others: str) -> str:
    """The outcome of this name in upper or lower case, or one of the other words. Raises BadInput."""
    known = (*OUTCOMES, *others)
    for one in known:
        if one.lower() == str(name).lower():
            return one
    raise BadInput(f"outcome {name!r}: give one of {', '.join(known)}", "outcome")


def conditions(where: Where | None) -> list[str]:
    """`where` as `bitrift analyze --where` takes it: a text for each value."""
    texts = []
    for key, wanted in (where or {}).items():
        values = [wanted] if isinstance(wanted, str | int) else wanted
        texts += [f"{key}={value}" for value in values]
    return texts


def judged_metrics(judging: Any) -> dict[str, str]:
    """The judged metrics of a summary, each with the direction that is better: lower or higher."""
    found: dict[str, str] = {}
    for one in judging["metrics"]:
        found |= one if isinstance(one, dict) else {one: "higher" if one.endswith("accuracy") else "lower"}
    return found
