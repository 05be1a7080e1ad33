"""What sections hand to the templates: tables, charts and maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from bitrift.report import charts, words


@dataclass(frozen=True)
class Head:
    """The head of a column."""

    text: str
    number: bool = False


@dataclass(frozen=True)
class Cell:
    """What a cell shows, and by what it sorts where that is another thing."""

    text: str
    sort: float | str | None = None
    css: str = ""
    range: str = ""


@dataclass(frozen=True)
class Table:
    """The first cell of a row is its head."""

    caption: str
    heads: list[Head]
    rows: list[list[Cell]]


@dataclass(frozen=True)
class Row:
    """A row of a chart or a map."""

    label: str
    track: Markup
    group: str = ""


@dataclass(frozen=True)
class Chart:
    """Rows over one axis."""

    rows: list[Row]
    scale: Markup


@dataclass(frozen=True)
class Map:
    """A chart of shaded cells, and the same as a table."""

    title: str
    text: str
    rows: list[Row]
    scale: Markup
    table: Table = field(default_factory=lambda: Table("", [], []))
    legend: Markup = field(default_factory=Markup)
    fields: Markup = field(default_factory=Markup)
    """The bit fields below the names of the columns, where those are bits."""


def text(value: str) -> Cell:
    """A cell of words."""
    return Cell(value)


def prose(value: str) -> Cell:
    """A cell that may be broken into lines."""
    return Cell(value, css="prose")


def short(value: str) -> Cell:
    """The same for a few words."""
    return Cell(value, css="short")


def number(value: int) -> Cell:
    """A cell with a count."""
    return Cell(words.count(value), value, "n")


def share(value: float, css: str = "n") -> Cell:
    """A cell with a rate in percent."""
    return Cell(words.percent(value), value, css)


def rate(estimate: float, ends: Sequence[float], count: int | None = None) -> Cell:
    """A rate with its interval, and how many trials had the outcome."""
    interval = f"[{words.points(ends[0])}, {words.points(ends[1])}]"
    trials = "" if count is None else f" ({words.count(count)})"
    return Cell(words.points(estimate), estimate, "n", f"{interval}{trials}")


def chart(rows: Sequence[tuple[str, str, Sequence[charts.Mark]]], unit: str, *, around_zero: bool = False) -> Chart:
    """rows: group (shown where it changes), label, marks. around_zero: as wide on both sides of 0."""
    marks = [mark for _, _, row in rows for mark in row]
    low = min([0.0, *(mark.low for mark in marks)])
    high = max([0.0, *(mark.high for mark in marks)])
    if around_zero:
        low, high = -max(-low, high), max(-low, high)
    axis = charts.Axis.over(low, high)
    shown: list[Row] = []
    last = ""
    for group, label, row in rows:
        shown.append(Row(label, charts.track(axis, row), group if group != last else ""))
        last = group
    return Chart(shown, charts.scale(axis, unit))
