"""The section of the page about ranks that failed: outcomes of recoveries, and how long they took."""

from __future__ import annotations

from bitrift.report import words
from bitrift.report.charts import Mark
from bitrift.report.facts import Facts, Json
from bitrift.report.layout import Cell, Chart, Head, Table, chart, number, rate, text

MOST_CHART_ROWS = 80
_OUTCOMES = {
    "recovered_bitwise": "recovered bitwise",
    "recovered_within_noise": "within noise",
    "recovered_degraded": "degraded",
    "lost": "lost",
}
_SERIES = {"recovered_bitwise": "masked", "lost": "crash"}
_PARTS = ("detect", "revoke", "agree", "shrink", "respawn", "state", "redo", "total")


def _outcomes(lines: list[Json], part: str) -> Table:
    rows = []
    for line in lines:
        row = [text(line["arm"]), text(line["phase"]), number(line["trials"])]
        for name in _OUTCOMES:
            found = line["rates"].get(name)
            row.append(rate(found["estimate"], found["interval"]) if found else Cell("no trial", None, "n"))
        rows.append(row)
    heads = [Head("arm"), Head(part), Head("trials", True)]
    heads += [Head(f"{name} %", True) for name in _OUTCOMES.values()]
    return Table("What became of runs in which ranks failed, in percent, with intervals", heads, rows)


def _chart(lines: list[Json]) -> Chart:
    rows = []
    for line in lines:
        marks = []
        for name, series in _SERIES.items():
            found = line["rates"][name]
            low, high = found["interval"]
            said = f"{words.percent(found['estimate'])}, {words.interval(found['interval'])}"
            said = f"{line['arm']}, {line['phase']}: {_OUTCOMES[name]} {said}"
            marks.append(Mark(series, 100 * found["estimate"], 100 * low, 100 * high, said))
        rows.append((line["arm"], line["phase"], marks))
    return chart(rows, "%")


def _milliseconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _times(recoveries: list[Json], part_of_run: str) -> Table:
    rows = []
    for one in recoveries:
        stage = "" if one["stage"] is None else f", stage {one['stage']}"
        row = [text(one["arm"]), text(one["phase"]), text(one["victim"] + stage), number(one["trials"])]
        for part in _PARTS:
            median, high = one[part]["median_ms"], one[part]["p95_ms"]
            if median is None:
                row.append(Cell("not known", None, "n"))
            else:
                row.append(Cell(f"{_milliseconds(median)} / {_milliseconds(high)}", median, "n"))
        for name in ("steps_lost", "steps_redone"):
            median, most = one[name]["median"], one[name]["max"]
            row.append(Cell(f"{median:g} / {most:g}", median, "n"))
        row.append(number(round(one["bytes_moved"]["median"])))
        rows.append(row)
    heads = [Head("arm"), Head(part_of_run), Head("victim"), Head("trials", True)]
    heads += [Head(f"{part} ms", True) for part in _PARTS]
    heads += [Head(name, True) for name in ("steps lost", "steps redone", "bytes moved")]
    return Table("How long recoveries took: median / 95th percentile", heads, rows)


def _goodput(lines: list[Json]) -> Table:
    rows = []
    for line in lines:
        row = [text(line["arm"]), text(line["storm"]), number(line["trials"])]
        if line["trials"]:
            share = line["goodput"]
            shown = (line["faults"]["mean"], 100 * share["median"], 100 * share["p5"])
            row += [Cell(f"{value:.1f}", value, "n") for value in shown]
        else:
            row += [Cell("no trial", None, "n")] * 3
        rows.append(row)
    heads = [Head("arm"), Head("storm"), Head("trials", True), Head("faults a trial", True)]
    heads += [Head("goodput %", True), Head("5th percentile %", True)]
    return Table("How much of the time was useful: the time without faults, in percent of the trial's", heads, rows)


def recovery(facts: Facts) -> Json:
    """Recoveries; nothing where no rank was to fail."""
    found = facts.report["process"]
    if not found:
        return {"recovery": None}
    lines = found["lines"]
    part = "storm" if found["goodput"] else "phase"
    tried = [line for line in lines if line["rates"]]
    unknown = sum(one["trials"] - one["detect"]["n"] for one in found["recoveries"])
    missing = (
        f" In {words.counted(unknown, 'trial')} it is not known when the failure began, so they have no time to detect "
        "it and no total."
        if unknown
        else ""
    )
    return {
        "recovery": {
            "outcomes": _outcomes(lines, part),
            "chart": _chart(tried) if 0 < len(tried) <= MOST_CHART_ROWS else None,
            "times": _times(found["recoveries"], part),
            "goodput": _goodput(found["goodput"]) if found["goodput"] else None,
            "missing": missing,
        }
    }
