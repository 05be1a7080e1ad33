"""Charts as SVG without a script: they print, follow the page's colours, and need no library in the page.

Every row of a chart is a small SVG as wide as its column. Horizontal places are percentages of that width and lengths
of text and marks are pixels, so the same markup fits a phone and paper.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

HEIGHT = 22


@dataclass(frozen=True)
class Mark:
    """An estimate with its interval, in the unit of the axis."""

    series: str
    """CSS class: sdc, crash, masked, difference."""
    value: float
    low: float
    high: float
    text: str
    """What the mark says, for a pointer that rests on it."""


@dataclass(frozen=True)
class Axis:
    """A linear scale with round numbers."""

    low: float
    high: float
    step: float

    @classmethod
    def over(cls, low: float, high: float) -> Axis:
        """Covers both ends with 3 to 6 steps of 1, 2 or 5 times a power of ten."""
        span = max(high - low, 1e-9)
        power = 10.0 ** math.floor(math.log10(span / 4))
        step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= 5)
        return cls(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, step)

    def at(self, value: float) -> str:
        """A place on the axis in percent of its width."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return f"{100 * share:.2f}%"

    def ticks(self) -> list[float]:
        """Round numbers from end to end."""
        return [self.low + i * self.step for i in range(round((self.high - self.low) / self.step) + 1)]


def _grid(axis: Axis, height: int) -> str:
    lines = [
        f'<line class="{"zero" if abs(tick) < axis.step / 2 else "grid"}" x1="{axis.at(tick)}" x2="{axis.at(tick)}"'
        f' y1="0" y2="{height}"/>'
        for tick in axis.ticks()
    ]
    return "".join(lines)


def _shape(series: str, x: str, y: float) -> str:
    if series == "crash":  # a diamond: the shape says what the colour says
        return f'<svg x="{x}" y="{y}" class="at"><path class="dot" d="M0-5.5 5.5 0 0 5.5-5.5 0Z"/></svg>'
    if series == "masked":
        return f'<svg x="{x}" y="{y}" class="at"><rect class="dot" x="-4" y="-4" width="8" height="8"/></svg>'
    return f'<circle class="dot" cx="{x}" cy="{y}" r="4.5"/>'


def track(axis: Axis, marks: Sequence[Mark]) -> Markup:
    """One row of a chart: each mark on a line of its own, with its interval."""
    height = HEIGHT * len(marks)
    parts = [_grid(axis, height)]
    for position, mark in enumerate(marks):
        y = HEIGHT * position + HEIGHT / 2
        low, high = axis.at(mark.low), axis.at(mark.high)
        parts.append(
            f'<g class="mark {mark.series}"><title>{escape(mark.text)}</title>'
            f'<rect class="hit" x="0" y="{y - HEIGHT / 2}" width="100%" height="{HEIGHT}"/>'
            f'<line class="whisker" x1="{low}" x2="{high}" y1="{y}" y2="{y}"/>'
            f'<line class="whisker" x1="{low}" x2="{low}" y1="{y - 4}" y2="{y + 4}"/>'
            f'<line class="whisker" x1="{high}" x2="{high}" y1="{y - 4}" y2="{y + 4}"/>'
            f"{_shape(mark.series, axis.at(mark.value), y)}</g>"
        )
    return Markup(f'<svg class="track" width="100%" height="{height}" aria-hidden="true">{"".join(parts)}</svg>')


def scale(axis: Axis, unit: str) -> Markup:
    """The axis below the rows."""
    parts = []
    ticks = axis.ticks()
    for position, tick in enumerate(ticks):
        anchor = "start" if position == 0 else "end" if position == len(ticks) - 1 else "middle"
        label = f"{tick:.6g}".replace("-", "\u2212") + (f" {unit}" if position == len(ticks) - 1 else "")
        parts.append(f'<text x="{axis.at(tick)}" y="13" text-anchor="{anchor}">{escape(label)}</text>')
    return Markup(f'<svg class="scale" width="100%" height="18" aria-hidden="true">{"".join(parts)}</svg>')


@dataclass(frozen=True)
class Cell:
    """A cell of a map: how dark it is (0 to 1; None: no data), and what it says."""

    shade: float | None
    text: str
    few: bool = False
    """It rests on few trials, and is drawn at half the height."""


def cells(row: Sequence[Cell]) -> Markup:
    """One row of a map."""
    width = 100 / max(len(row), 1)
    parts = []
    for position, cell in enumerate(row):
        height = (HEIGHT - 2) // 2 if cell.few else HEIGHT - 2
        place = f'x="{position * width:.3f}%" width="{width:.3f}%" y="{(HEIGHT - height) // 2}" height="{height}"'
        look = 'class="cell none"' if cell.shade is None else f'class="cell" fill-opacity="{cell.shade:.3f}"'
        parts.append(f"<rect {look} {place}><title>{escape(cell.text)}</title></rect>")
    return Markup(f'<svg class="track" width="100%" height="{HEIGHT}" aria-hidden="true">{"".join(parts)}</svg>')


def legend(shades: Sequence[float], labels: Sequence[str]) -> Markup:
    """The colours of a map: a bar of shades in equal steps, with labels from its left to its right end."""
    width = 100 / len(shades)
    parts = [
        f'<rect class="shade" fill-opacity="{shade:.3f}" x="{position * width:.3f}%" width="{width:.3f}%" y="0"'
        f' height="10"/>'
        for position, shade in enumerate(shades)
    ]
    for position, label in enumerate(labels):
        anchor = "start" if position == 0 else "end" if position == len(labels) - 1 else "middle"
        place = 100 * position / max(len(labels) - 1, 1)
        parts.append(f'<text x="{place:.2f}%" y="23" text-anchor="{anchor}">{escape(label)}</text>')
    return Markup(f'<svg class="scale legend" width="100%" height="26" aria-hidden="true">{"".join(parts)}</svg>')


def brackets(names: Sequence[str]) -> Markup:
    """Names of columns that stand side by side, each once below a line as wide as its columns; "" has none."""
    width = 100 / max(len(names), 1)
    parts, start = [], 0
    for name, group in itertools.groupby(names):
        end = start + len(list(group))
        if name:
            middle = f"{(start + end) / 2 * width:.3f}%"
            narrow = " narrow" if (end - start) * width < 8 else ""
            parts.append(
                f'<line class="bracket" x1="{start * width + 0.3:.3f}%" x2="{end * width - 0.3:.3f}%" y1="3" y2="3"/>'
                f'<text class="field{narrow}" x="{middle}" y="16" text-anchor="middle">{escape(name)}</text>'
            )
        start = end
    return Markup(f'<svg class="scale" width="100%" height="20" aria-hidden="true">{"".join(parts)}</svg>')


def columns(labels: Sequence[str], every: int = 1) -> Markup:
    """The names of a map's columns; `every` leaves some out where they are narrow."""
    width = 100 / max(len(labels), 1)
    parts = [
        f'<text x="{(position + 0.5) * width:.3f}%" y="13" text-anchor="middle">{escape(label)}</text>'
        for position, label in enumerate(labels)
        if position % every == 0
    ]
    return Markup(f'<svg class="scale" width="100%" height="18" aria-hidden="true">{"".join(parts)}</svg>')
