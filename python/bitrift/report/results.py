"""The sections of the page about results: rates, maps, comparisons, single trials."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bitrift.report import charts, words
from bitrift.report.charts import Mark
from bitrift.report.facts import Facts, Json
from bitrift.report.glossary import REASONS
from bitrift.report.layout import Cell, Chart, Head, Map, Row, Table, chart, number, prose, rate, text

MOST_CHART_ROWS = 80
MOST_CELLS = 4000
OUTCOMES = ("masked", "SDC", "crash")


def _groups(facts: Facts) -> list[Json]:
    groups: list[Json] = facts.summary["groups"]
    return sorted(groups, key=facts.place)


def _dimensions(summary: Json) -> list[str]:
    return ["arm" if name == "strategy" else name for name in summary["by"]]


def _rates_chart(groups: Sequence[Json], dimensions: Sequence[str]) -> Chart:
    rows = []
    for group in groups:
        label = " ".join(group["key"].get(name, "") for name in dimensions[1:]) or "all faults"
        marks = [
            Mark(
                outcome.lower(),
                100 * group["rates"][outcome]["estimate"],
                100 * group["rates"][outcome]["anytime"][0],
                100 * group["rates"][outcome]["anytime"][1],
                f"{group['key']['arm']}, {label}: {outcome} {words.percent(group['rates'][outcome]['estimate'])}, "
                f"{words.interval(group['rates'][outcome]['anytime'])}",
            )
            for outcome in ("SDC", "crash")
        ]
        rows.append((group["key"]["arm"], label, marks))
    return chart(rows, "%")


def _rate_cells(group: Json) -> list[Cell]:
    """Each rate with its interval and, since it is weighted, the number of trials with this outcome."""
    return [
        rate(group["rates"][name]["estimate"], group["rates"][name]["anytime"], group["counts"][name])
        for name in OUTCOMES
    ]


def _rates(groups: Sequence[Json], dimensions: Sequence[str]) -> Table:
    rows = []
    for group in groups:
        row = [text(group["key"].get(name, "")) for name in dimensions] + [number(group["trials"])]
        row += _rate_cells(group)
        if harmful := group.get("harmful"):
            low, high = harmful["interval"]
            known = f"{words.points(low)} to" if low > 0 else "at most"
            row.append(Cell(f"{known} {words.points(high)}", high, "n"))
        else:
            row.append(Cell("not given", None, "n"))
        rows.append(row)
        for one in group.get("apart", []):
            names = [text(group["key"].get(name, "")) for name in dimensions[:-1]]
            last = text(f"{group['key'].get(dimensions[-1], '')}, stratum {one['stratum']}")
            rows.append([*names, last, number(one["trials"]), *_rate_cells(one), Cell("", None, "n")])
    heads = [Head(name) for name in dimensions] + [Head("trials", True)]
    heads += [Head(f"{name} %", True) for name in (*OUTCOMES, "harmful")]
    return Table(
        "Weighted rates in percent, with intervals and, in parentheses, the number of trials that ended so", heads, rows
    )


def _reasons(facts: Facts, groups: Sequence[Json]) -> Table:
    counts: dict[str, dict[str, int]] = {}
    for group in groups:
        for reason, known in group["reasons"].items():
            by_arm = counts.setdefault(reason, {})
            arm = facts.arm(group)
            by_arm[arm] = by_arm.get(arm, 0) + known
    order = [*REASONS, *sorted(set(counts) - set(REASONS))]
    rows = [
        [
            text(reason.replace("_", " ")),
            *(number(counts[reason].get(arm, 0)) for arm in facts.arms),
            prose(REASONS.get(reason, "")),
        ]
        for reason in order
        if reason in counts
    ]
    heads = [Head("reason"), *(Head(arm, True) for arm in facts.arms), Head("meaning")]
    return Table("How trials ended, counted (not weighted)", heads, rows)


def _variations(facts: Facts) -> Table:
    rows = [
        [
            text(one["arm"] or one["model"]),
            text(f"{one['levels']} {one['between']}"),
            text(one["outcome"]),
            Cell(words.percent(one["mean"]), one["mean"], "n"),
            Cell(f"{100 * one['deviation']:.2f}", one["deviation"], "n"),
            Cell(words.p_value(one["p"]), words.number(one["p"]), "n"),
        ]
        for one in facts.summary.get("variations", [])
    ]
    heads = [Head("arm"), Head("between"), Head("outcome"), Head("mean rate", True)]
    heads += [Head("deviation in points", True), Head("p", True)]
    return Table("Differences between data orders and bases", heads, rows)


def rates(facts: Facts) -> Json:
    """Rates with intervals, as a chart and as a table."""
    groups, dimensions = _groups(facts), _dimensions(facts.summary)
    shown, cut, where = groups, dimensions, ""
    if len(groups) > MOST_CHART_ROWS:
        shown, cut = sorted(facts.report["by_arm"]["groups"], key=facts.place), _dimensions(facts.report["by_arm"])
        where = f"One row for each {words.listed(cut)}; the table has the others."
    return {
        "rates_text": f"{facts.report['population']['rates']} Lines are grouped by {words.listed(dimensions)}.",
        "rates_chart": _rates_chart(shown, cut) if len(shown) <= MOST_CHART_ROWS else None,
        "rates_where": where,
        "rates": _rates(groups, dimensions),
        "reasons": _reasons(facts, groups),
        "variations": _variations(facts),
    }


def _magnitude(norm: float | None) -> float | None:
    """How dark a relative error is: 1e-8 and less is nearly white, 1 and more is full."""
    if norm is None:
        return None
    if not math.isfinite(norm) or norm >= 1:
        return 1.0
    return 0.08 + 0.92 * max(0.0, (math.log10(norm) + 8) / 8) if norm > 0 else 0.04


def _propagation_map(arm: str, stratum: str, groups: Sequence[Json]) -> Map:
    steps = [group["step"] for group in groups]
    reach = {(group["step"], one["tensor"]): one for group in groups for one in group["tensors"]}
    tensors = list(dict.fromkeys(one["tensor"] for group in groups for one in group["tensors"]))
    rows, table = [], []
    for tensor in tensors:
        row = []
        for group in groups:
            one = reach.get((group["step"], tensor))
            where = f"{tensor} after {words.counted(group['step'], 'step')}: "
            if one is None:
                row.append(charts.Cell(None, f"{where}not altered"))
                continue
            norm = words.number(one["median_norm"])
            said = f"altered in {one['trials']} of {words.counted(group['trials'], 'trial')}"
            row.append(charts.Cell(_magnitude(norm), f"{where}{said}, median error {words.decimal(norm)}"))
            worst = words.number(one["max_norm"])
            table.append(
                [
                    text(tensor),
                    number(group["step"]),
                    Cell(f"{one['trials']} of {group['trials']}", one["trials"] / max(group["trials"], 1), "n"),
                    Cell(words.decimal(norm), _sortable(norm), "n"),
                    Cell(words.decimal(worst), _sortable(worst), "n"),
                    number(one["nonfinite"]),
                ]
            )
        rows.append(Row(tensor, charts.cells(row)))
    heads = [Head("tensor"), *(Head(name, True) for name in ("step", "altered in", "median error", "largest error"))]
    title = f"{arm}, {stratum}"
    return Map(
        title,
        "Columns: optimizer steps since the resume. The darker a cell, the larger the median norm-wise relative error "
        "of the tensor; dashed: not altered.",
        rows,
        charts.columns([str(step) for step in steps]),
        Table(f"{title}: altered tensors", [*heads, Head("not finite in", True)], table),
        charts.legend([_magnitude(10.0**power) or 0.0 for power in range(-8, 1)], ["1e-8", "1e-4", "1 and more"]),
    )


def _sortable(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else min(max(value, -1e300), 1e300)


def propagation(facts: Facts) -> Json:
    """How far faults reached, tensor by tensor; nothing where the campaign records none."""
    found = facts.report["propagation"]
    command = f"bitrift analyze {words.command([facts.folder])} --view propagation"
    if not found or "refused" in found:
        said = f"Propagation is not shown: {found['refused']}" if found else ""
        return {"propagation": None, "no_propagation": said or "This campaign did not record how far faults propagate."}
    by_cell: dict[tuple[str, str], list[Json]] = {}
    for group in found["groups"]:
        by_cell.setdefault((group["arm"], group["stratum"]), []).append(group)
    maps, cells = [], 0
    for (arm, stratum), groups in sorted(by_cell.items(), key=lambda item: (facts.arms.index(item[0][0]), item[0][1])):
        cells += sum(len(group["tensors"]) for group in groups)
        if cells > MOST_CELLS:
            break
        maps.append(_propagation_map(arm, stratum, groups))
    left = len(by_cell) - len(maps)
    more = f" {left} further maps are left out; {command} prints all." if left else ""
    said = (
        "How far the faults of a stratum reached: the state of each trial was compared with the golden run's, tensor "
        "by tensor, after the same number of steps."
    )
    return {"propagation": {"text": said + more, "maps": maps}, "no_propagation": ""}


def _difference(pair: Json) -> tuple[str, str, list[Mark]]:
    low, high = (100 * end for end in pair["interval"])
    value = 100 * pair["difference"]
    mark = Mark("difference", value, low, high, pair["answer"])
    return pair["outcome"], f"{pair['second']} against {pair['first']}", [mark]


def _comparison(facts: Facts, one: Json) -> Json:
    if "refused" in one:
        return {"refused": f"Arms are not compared: {one['refused']}."}
    pairs: list[Json] = one["pairs"]
    rows = [
        [
            text(f"{pair['second']} against {pair['first']}"),
            text(pair["outcome"]),
            number(pair["pairs"]),
            number(pair["both"]),
            number(pair["first_only"]),
            number(pair["second_only"]),
            Cell(
                f"{100 * pair['difference']:+.2f}",
                pair["difference"],
                "n",
                f"[{100 * pair['interval'][0]:+.2f}, {100 * pair['interval'][1]:+.2f}]",
            ),
            Cell(words.p_value(pair["adjusted_p"]), pair["adjusted_p"], "n"),
            text({"differ": "they differ", "equivalent": "equal within the margin"}.get(pair["verdict"], "open")),
        ]
        for pair in pairs
    ]
    heads = [Head("arms"), Head("outcome"), *(Head(name, True) for name in ("pairs", "both", "first only"))]
    heads += [Head(name, True) for name in ("second only", "difference in points", "adjusted p")] + [Head("answer")]
    which = "all pairs of arms" if one["all_pairs"] else f"{one['arms'][0]} with each other arm of its base"
    other = (
        ""
        if one["all_pairs"]
        else f" For another arm: bitrift compare {words.command([facts.folder])} --arm FIRST,SECOND."
    )
    said = (
        f"Every fault runs in every arm, so arms are compared trial by trial: {which}. Two rates are called equal if "
        f"the whole interval of their difference lies within {words.margin(one['margin'])}. An open answer needs more "
        f"trials. Holm's procedure covers the {len(pairs)} comparisons together.{other}"
    )
    answers = [pair["answer"] for pair in pairs] if len(pairs) <= 12 else []
    answers = answers or [pair["answer"] for pair in pairs if pair["verdict"] != "open"][:12]
    return {
        "refused": "",
        "text": said,
        "answers": answers,
        "chart": chart([_difference(pair) for pair in pairs[:MOST_CHART_ROWS]], "points", around_zero=True),
        "table": Table("Comparisons over the same faults", heads, rows),
    }


def comparisons(facts: Facts) -> Json:
    """Differences between arms that start from the same base."""
    several = len(facts.arms) > 1
    none = (
        "Arms are compared with others of the same base, and each base has one arm only."
        if several
        else "There is only one arm."
    )
    return {
        "comparisons": [_comparison(facts, one) for one in facts.report["comparisons"]],
        "no_comparison": none,
    }


def _metrics(trial: Json) -> str:
    shown = []
    for name in dict.fromkeys(("test_accuracy", "test_capped_loss", "test_loss", *trial["golden"])):
        if trial[name] is not None and not name.startswith("train_"):
            golden = words.metric(trial["golden"][name])
            shown.append(f"{words.METRIC_NAMES.get(name, name)} {words.metric(trial[name])} (golden run {golden})")
    return ", ".join(shown) or "no metric at the horizon"


def _trial(facts: Facts, trial: Json) -> Json:
    parts = [f"{trial['outcome']}, {trial['reason'].replace('_', ' ')}"]
    if trial["detail"]:
        parts.append(trial["detail"])
    if trial["p_value"] is not None:
        parts.append(f"p-value {words.p_value(trial['p_value'])}")
    if change := words.number(trial["change"]):
        parts.append(f"largest change of a number {words.decimal(change)}")
    parts.append(_metrics(trial))
    others = [arm for arm in trial["arms"] if arm != trial["arm"]]
    if others:
        parts.append(f"also {trial['outcome']} under {words.listed(others)}")
    return {
        "id": trial["id"],
        "fault": trial["fault"].replace(" -> ", " \u2192 "),
        "end": "; ".join(parts) + ".",
        "command": f"bitrift campaign replay {words.command([facts.folder, trial['id']])}",
    }


def strangest(facts: Facts) -> Json:
    """Single trials that a reader wants to see."""
    kinds = [
        ("worst", "The worst SDCs", "No trial ended in an SDC."),
        ("rare", "Crashes, the rarest reason first", "No trial crashed."),
    ]
    if facts.report["population"]["numbers"]:
        none = "No masked trial is known to have changed the value of a number."
        kinds.append(("unharmed", "Masked although a number changed the most", none))
    found = facts.report["strangest"]
    return {
        "strangest": [
            {"title": title, "none": none, "trials": [_trial(facts, one) for one in found[key]]}
            for key, title, none in kinds
        ]
    }
