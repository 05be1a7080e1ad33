"""Figures of a campaign, made with plotly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

_STATISTICS = ("outcome", "estimate", "low", "high", "count", "n", "method")


def map_figure(cells: pd.DataFrame, outcome: str) -> go.Figure:
    """A heat map for each arm and state: layers by bits, as `Campaign.map` gives them. outcome: for the title.

    Cells without a trial are blank; the text of a cell gives its interval and numbers of trials and bits.
    """
    graph_objects, subplots = _plotly()
    keys = [name for name in ("arm", "base", "state") if name in cells.columns]
    groups = list(cells.groupby(keys, sort=False, observed=True))
    titles = [", ".join(map(str, key)) for key, _ in groups]
    figure = subplots.make_subplots(rows=max(1, len(groups)), cols=1, subplot_titles=titles or None)
    for row, (_, group) in enumerate(groups, start=1):
        layers = list(dict.fromkeys(group["layer"]))
        bits = sorted(set(group["bit"]), reverse=True)
        by_place = {(cell.layer, cell.bit): cell for cell in group.itertuples()}
        lines = [[by_place.get((layer, bit)) for bit in bits] for layer in layers]
        figure.add_trace(
            graph_objects.Heatmap(
                x=[str(bit) for bit in bits],
                y=layers,
                z=[[_estimate(cell) for cell in line] for line in lines],
                text=[[_cell_text(cell) for cell in line] for line in lines],
                hovertemplate="%{y}, bit %{x}<br>%{text}<extra></extra>",
                coloraxis="coloraxis",
                xgap=1,
                ygap=1,
            ),
            row=row,
            col=1,
        )
        figure.update_xaxes(title_text="bit", type="category", row=row, col=1)
        figure.update_yaxes(type="category", autorange="reversed", row=row, col=1)
    figure.update_layout(
        title=f"Rate of {'SDC or crash' if outcome == 'harmed' else outcome} by layer and bit",
        coloraxis={"colorscale": "Viridis", "cmin": 0, "cmax": 1, "colorbar": {"title": "rate"}},
        height=160 + max(1, len(groups)) * 260,
    )
    return cast("go.Figure", figure)


def rates_figure(rates: pd.DataFrame) -> go.Figure:
    """A point with its interval for each group and outcome, as `Campaign.rates` gives them."""
    graph_objects, _ = _plotly()
    keys = [name for name in rates.columns if name not in _STATISTICS]
    figure = graph_objects.Figure()
    for outcome, lines in rates.groupby("outcome", sort=False, observed=True):
        figure.add_trace(
            graph_objects.Scatter(
                name=str(outcome),
                x=[", ".join(str(getattr(line, key)) for key in keys) for line in lines.itertuples()],
                y=lines["estimate"],
                error_y={
                    "type": "data",
                    "symmetric": False,
                    "array": lines["high"] - lines["estimate"],
                    "arrayminus": lines["estimate"] - lines["low"],
                },
                text=[f"{line.count} of {line.n} trials" for line in lines[["count", "n"]].itertuples(index=False)],
                mode="markers",
            )
        )
    figure.update_layout(
        title=f"Rates by {', '.join(keys)}",
        yaxis={"title": "rate", "rangemode": "tozero", "tickformat": ".1%"},
        xaxis={"type": "category"},
        scattermode="group",
    )
    return cast("go.Figure", figure)


def _estimate(cell: Any) -> float | None:
    return None if cell is None or math.isnan(cell.estimate) else float(cell.estimate)


def _cell_text(cell: Any) -> str:
    if cell is None:
        return "no bit"
    if cell.n == 0:
        return f"no trial; {cell.bits} bits"
    interval = f"{cell.estimate:.1%} [{cell.low:.1%}, {cell.high:.1%}]"
    return f"{interval}<br>{cell.count} of {cell.n} trials; {cell.bits} bits"


def _plotly() -> tuple[Any, Any]:
    try:
        import plotly.graph_objects as graph_objects
        from plotly import subplots
    except ImportError as error:
        raise ImportError("figures of a campaign are made with plotly: pip install plotly") from error
    return graph_objects, subplots
