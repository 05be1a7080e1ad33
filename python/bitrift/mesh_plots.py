"""Figures of what `bitrift mesh model` and `bitrift mesh table` print, made with Matplotlib."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from bitrift.errors import BadFile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIDE = 0.1  # of a link's middle, in distances between chips, at which each of its directions is drawn
_MOST_CHIPS = 4096  # of a mesh
_NEEDED = ("schedule", "bytes", "modelled_of_bound")


def load_figure(model: dict[str, Any], *, title: str | None = None) -> Figure:
    """A mesh whose links are coloured by the part of the allreduce for which they are occupied.

    model: as `bitrift mesh model --json` prints it. Each direction of a link is a line of its own, on the right as seen
    in that direction. A link that wraps around is drawn in two halves. Raises BadFile for other objects.
    """
    try:
        mesh, seconds = model["topology"], float(model["modelled"]["seconds"])
        rows, columns, dead = int(mesh["rows"]), int(mesh["columns"]), set(mesh["dead"])
        links = [(divmod(link["from"], columns), divmod(link["to"], columns)) for link in model["modelled"]["links"]]
        parts = [link["seconds"] / seconds for link in model["modelled"]["links"]]
        scheme = str(model["schedule"]["scheme"])
        if min(rows, columns) < 1 or rows * columns > _MOST_CHIPS:
            raise ValueError("no such mesh")
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        raise BadFile("this is not what `bitrift mesh model --json` prints") from None
    figure_class, lines = _matplotlib()
    figure = figure_class(figsize=(_inches(columns) + 1.5, _inches(rows) + 0.8), layout="constrained")
    axes = figure.add_subplot()
    for chip in range(rows * columns):
        row, column = divmod(chip, columns)
        axes.plot(column, row, marker="x" if chip in dead else "s", color="black" if chip in dead else "0.6", ms=4)
    segments: list[list[tuple[float, float]]] = []
    values: list[float] = []
    for (start, end), part in zip(links, parts, strict=True):
        for piece in _pieces(start, end):
            segments.append(piece)
            values.append(part)
    drawn = lines(segments, array=values, cmap="viridis", linewidths=3)
    drawn.set_clim(0, 1)
    axes.add_collection(drawn)
    axes.set(xlim=(-0.7, columns - 0.3), ylim=(rows - 0.3, -0.7), aspect="equal", xlabel="column", ylabel="row")
    axes.set_title(title or f"{scheme} on {rows}x{columns}, {rows * columns - len(dead)} chips alive")
    figure.colorbar(drawn, ax=axes, label="part of the time for which a link is occupied (modelled)")
    return cast("Figure", figure)


def efficiency_figure(table: str, *, title: str | None = None) -> Figure:
    """The part of the bound that each scheme reaches, by the size of the buffer.

    table: as `bitrift mesh table --csv` prints it. Raises BadFile for other text.
    """
    points: dict[str, list[tuple[float, float]]] = {}
    reader = csv.DictReader(io.StringIO(table))
    if not set(_NEEDED) <= set(reader.fieldnames or ()):
        raise BadFile("this is not what `bitrift mesh table --csv` prints")
    try:
        for row in reader:
            points.setdefault(row["schedule"], []).append((float(row["bytes"]), float(row["modelled_of_bound"])))
    except (TypeError, ValueError):
        raise BadFile(f"line {reader.line_num}: this is not what `bitrift mesh table --csv` prints") from None
    figure_class, _ = _matplotlib()
    figure = figure_class(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for (scheme, places), marker in zip(points.items(), "osD^vPX*" * len(points), strict=False):
        axes.plot(*zip(*sorted(places), strict=True), marker=marker, label=scheme)
    axes.set(xscale="log", ylim=(0, 1), xlabel="bytes of each chip's buffer", ylabel="bound / time (modelled)")
    axes.set_title(title or "Part of the bound that an allreduce reaches")
    axes.grid(visible=True, alpha=0.3)
    if points:
        axes.legend()
    return cast("Figure", figure)


def figure_of(text: str, *, title: str | None = None) -> Figure:
    """`load_figure` of JSON, or `efficiency_figure` of anything else."""
    if not text.lstrip().startswith("{"):
        return efficiency_figure(text, title=title)
    try:
        return load_figure(json.loads(text), title=title)
    except ValueError as error:
        if isinstance(error, BadFile):
            raise
        raise BadFile(f"not valid JSON: {error}") from None


def _inches(chips: int) -> float:
    return min(max(3.0, 0.45 * chips), 12.0)


def _pieces(start: Sequence[int], end: Sequence[int]) -> list[list[tuple[float, float]]]:
    """The line of a direction of a link; two halves, over the edges of the mesh, where it wraps around."""
    down, right = end[0] - start[0], end[1] - start[1]
    wraps = abs(down) + abs(right) > 1
    if wraps:
        down, right = -_sign(down), -_sign(right)
    # With rows counted downwards, the right-hand side of a step (right, down) is (-down, right).
    shift = (-down * _SIDE, right * _SIDE)

    def line(place: Sequence[int], first: float, last: float) -> list[tuple[float, float]]:
        return [(place[1] + shift[0] + right * at, place[0] + shift[1] + down * at) for at in (first, last)]

    return [line(start, 0.15, 0.5), line(end, -0.5, -0.15)] if wraps else [line(start, 0.15, 0.85)]


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _matplotlib() -> tuple[Any, Any]:
    try:
        from matplotlib.collections import LineCollection
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures of meshes are made with Matplotlib: pip install matplotlib") from error
    return Figure, LineCollection
