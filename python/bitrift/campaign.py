"""Folders of campaigns: their rows, outcomes and rates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, cast

from bitrift import _core

Path = str | PathLike[str]


@dataclass(frozen=True)
class Outcome:
    """How one trial ended (docs/outcomes.md)."""

    arm: str
    stratum: str
    draw: int
    """Rows of equal stratum and draw carry the same fault, under different arms."""
    outcome: str
    """masked, SDC or crash."""
    reason: str
    bitwise_equal: bool
    steps_to_recover: int | None
    """For the reason reconverged; None otherwise."""


def read_journal(folder: Path) -> list[dict[str, Any]]:
    """The rows of a campaign's journal that count, in file order, as docs/journal.md describes them.

    Controls, envelope runs and canaries are among them (`kind`). Raises Error(not_found | bad_file).
    """
    return cast(list[dict[str, Any]], json.loads(_core.read_journal(folder)))


def outcomes(folder: Path) -> list[Outcome]:
    """The outcome of every trial, in file order.

    Raises Error(not_found | bad_file), Error(conflict | bad_input) when the campaign's controls are missing or
    disagree, and Error(conflict) when its canaries misbehave.
    """
    return [Outcome(**entry) for entry in json.loads(_core.outcomes(folder))]


def summary(folder: Path, by: Sequence[str] = ("strategy", "field")) -> dict[str, Any]:
    """Rates with intervals, in the form of summary.json (docs/statistics.md). Nothing is written.

    by: any of strategy, role, field, stratum; strategy is added when it is missing. Raises as `outcomes` does.
    """
    return cast(dict[str, Any], json.loads(_core.summary(folder, list(by))))


def table(folder: Path, by: Sequence[str] = ("strategy", "field")) -> str:
    """The same as text, as `bitrift analyze` prints it. Raises as `summary` does."""
    return _core.table(folder, list(by))
