"""The section of the page about guards: what they noticed, and what those that act repaired."""

from __future__ import annotations

from bitrift.report.facts import Facts, Json
from bitrift.report.layout import Cell, Head, Table, number, rate, text

_OUTCOMES = {"SDC": "SDCs", "crash": "crashes", "masked": "masked faults"}


def _share(share: Json, key: str) -> Cell:
    if not share["runs"]:
        return Cell("none", None, "n")
    return rate(share["share"], share["interval"], share[key])


def _alarms(detectors: list[Json]) -> Table:
    rows = []
    for one in detectors:
        row = [text(one["arm"]), text(one["beside"])]
        row += [_share(one["outcomes"][name], "alarms") for name in _OUTCOMES] + [_share(one["clean"], "alarms")]
        median = one["median_steps"]
        row.append(Cell("no alarm", None, "n") if median is None else Cell(f"{median:g}", median, "n"))
        rows.append(row)
    heads = [Head("arm"), Head("beside"), *(Head(f"alarms on {name} %", True) for name in _OUTCOMES.values())]
    heads += [Head("alarms on clean runs %", True), Head("steps to the alarm", True)]
    return Table("Runs with an alarm, in percent, with intervals and counts", heads, rows)


def _actions(detectors: list[Json]) -> Table:
    rows = []
    for one in detectors:
        actions = one["actions"]
        row = [text(one["arm"]), text(one["guards"]["on_alarm"])]
        for outcome in ("SDC", "crash"):
            row += [_share(actions["recovered"][outcome], "count"), number(actions["exactly"][outcome]["count"])]
        row += [_share(actions[name], "count") for name in ("harmed", "clean_acted", "clean_harmed")]
        rows.append(row)
    heads = [Head("arm"), Head("action")]
    for outcome in ("SDCs", "crashes"):
        heads += [Head(f"{outcome} recovered %", True), Head("exactly", True)]
    heads += [Head("masked faults harmed %", True), Head("acted on clean runs %", True)]
    heads.append(Head("clean runs beyond the limits %", True))
    return Table("What became of the same faults, in percent, with intervals and counts", heads, rows)


def _roles(detectors: list[Json]) -> Table:
    roles = list(dict.fromkeys(role for one in detectors for role in one["actions"]["roles"]))
    rows = []
    for one in detectors:
        known = one["actions"]["roles"]
        cells = [_share(known[role], "count") if role in known else Cell("none", None, "n") for role in roles]
        rows.append([text(one["arm"]), *cells])
    heads = [Head("arm"), *(Head(f"{role} %", True) for role in roles)]
    return Table("Faults that end as an SDC or a crash without guards and masked with them, by role", heads, rows)


def guards(facts: Facts) -> Json:
    """The scoreboard; nothing where no arm has guards beside one without."""
    found = facts.report["guards"]
    if not found or "refused" in found:
        return {"guards": None}
    detectors: list[Json] = found["detectors"]
    acting = [one for one in detectors if "actions" in one]
    roles = _roles(acting)
    return {
        "guards": {
            "alarms": _alarms(detectors),
            "actions": _actions(acting) if acting else None,
            "roles": roles if acting and len(roles.heads) > 2 else None,
            "unpaired": found["unpaired"],
        }
    }
