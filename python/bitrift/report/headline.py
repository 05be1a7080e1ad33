"""What was found, in sentences that a reader can repeat, and as a few numbers in tiles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bitrift.campaign import judged_metrics
from bitrift.report import words
from bitrift.report.facts import Facts, Json

LEAST_HITS = 3
"""Fewer crashes or SDCs have no common cause that is worth a headline."""
LEAST_HARMLESS = 30
"""Fewer trials without harm say little: up to 9.5 % of such faults can still do harm (one-sided, 95 %)."""
MOST_TRIALS = 0.6
"""A cause that has a larger share of the trials explains nothing."""
MOST_HITS = 0.8
"""The share of the hits that a cause must have."""
_NAMES = {"crash": ("crash", "crashes"), "SDC": ("SDC", "SDCs")}
_FIELDS = {"exponent": "exponents", "sign": "signs", "mantissa": "mantissas"}


@dataclass(frozen=True)
class Cause:
    """Where the hits of an outcome are: trials whose fault has a value of a dimension."""

    dimension: str
    value: str
    hits: int
    of: int


@dataclass(frozen=True)
class Tile:
    """A number with its name."""

    label: str
    value: str
    note: str
    css: str = ""


def _places(frame: Any) -> Any:
    """Trials with texts in place of categories, and their bit: "" unless every fault is one bit of one element."""
    single = bool((frame["faults"] == 1).all() and frame["bits"].map(_is_one_bit).all())
    bits = frame["bits"].map(lambda one: str(one[0]) if single else "")
    names = ("arm", "stratum", "outcome", "field", "role", "layer")
    return frame.assign(bit=bits, **{name: frame[name].astype(object).fillna("") for name in names})


def _is_one_bit(bits: Any) -> bool:
    return isinstance(bits, tuple) and len(bits) == 1


def _by_arm(frame: Any, chosen: Any) -> list[int]:
    """How many of the chosen trials each arm has."""
    return [int(chosen[part.index].sum()) for _, part in frame.groupby("arm", observed=True)]


def _causes(frame: Any, outcome: str) -> Iterable[Cause]:
    hit = frame["outcome"] == outcome
    total = int(hit.sum())
    for dimension in ("bit", "field", "role", "layer", "stratum"):
        values = frame[dimension]
        for value, trials in values.value_counts().items():
            hits = int((hit & (values == value)).sum())
            if value and trials <= MOST_TRIALS * len(frame) and hits >= MOST_HITS * total:
                yield Cause(dimension, str(value), hits, total)


def cause_of(frame: Any, outcome: str) -> Cause | None:
    """The narrowest description of the faults that have this outcome; all of them before most of them."""
    if max(_by_arm(frame, frame["outcome"] == outcome)) < LEAST_HITS:  # every fault runs in every arm
        return None
    found = list(_causes(frame, outcome))
    size = {id(one): int((frame[one.dimension] == one.value).sum()) for one in found}
    return min(found, key=lambda one: (one.hits < one.of, size[id(one)]), default=None)


def _faults(cause_dimension: str, value: str, flips: bool) -> str:
    """The faults of a value, as the subject of a sentence."""
    what = "Flips" if flips else "Faults"
    if cause_dimension == "bit":
        return f"{what} of bit {value}"
    if cause_dimension == "field":
        return f"{what} in {_FIELDS.get(value, value)}"
    if cause_dimension == "stratum":
        return f"{what} of the stratum {value}"
    return f"{what} in {cause_dimension} {value}"


def _in_each_arm(frame: Any, chosen: Any) -> tuple[int, str]:
    """The number of chosen trials of each arm, where arms agree; otherwise of all arms."""
    counts = _by_arm(frame, chosen)
    if len(counts) > 1 and len(set(counts)) == 1:
        return counts[0], " of each arm"
    return sum(counts), ""


def _hits(frame: Any, cause: Cause, outcome: str) -> str:
    if cause.hits == cause.of:
        count, where = _in_each_arm(frame, frame["outcome"] == outcome)
        return f"all {words.counted(count, *_NAMES[outcome])}{where}"
    return f"{cause.hits} of {words.counted(cause.of, *_NAMES[outcome])}"


def _harm(frame: Any, flips: bool) -> list[str]:
    """What causes crashes and SDCs, or how many there are."""
    causes = {outcome: cause_of(frame, outcome) for outcome in _NAMES}
    crash, sdc = causes["crash"], causes["SDC"]
    if crash and sdc and (crash.dimension, crash.value) == (sdc.dimension, sdc.value):
        said = " and ".join(_hits(frame, one, name) for name, one in (("crash", crash), ("SDC", sdc)))
        return [f"{_faults(crash.dimension, crash.value, flips)} cause {said}."]
    lines = [
        f"{_faults(one.dimension, one.value, flips)} cause {_hits(frame, one, outcome)}."
        for outcome, one in causes.items()
        if one
    ]
    for outcome, one in causes.items():
        hit = frame["outcome"] == outcome
        if one is not None or not hit.any():
            continue
        (count, where), (trials, same) = _in_each_arm(frame, hit), _in_each_arm(frame, frame["arm"] != "")
        if where != same:
            count, trials, where = int(hit.sum()), len(frame), ""
        end = (
            ("crashes" if count == 1 else "crash")
            if outcome == "crash"
            else f"end{'s' if count == 1 else ''} in an SDC"
        )
        lines.append(f"{count:,} of {words.counted(trials, 'trial')}{where} {end}.")
    return lines


def _bound(facts: Facts, dimension: str, value: str) -> str:
    """How much harm is still possible, where the lines of the table are those of the dimension."""
    highs = [
        1 - group["rates"]["masked"]["anytime"][0]
        for group in facts.summary["groups"]
        if group["key"].get(dimension) == value
    ]
    if not highs or [name for name in facts.summary["by"] if name != "strategy"] != [dimension]:
        return ""
    return f" (at most {words.percent(max(highs))} of them do)"


def _harmless(facts: Facts, frame: Any, flips: bool) -> list[str]:
    """The largest part of the faults that never did harm."""
    harmed = frame["outcome"] != "masked"
    if not harmed.any():
        return [f"No fault did harm in {words.counted(len(frame), 'trial')}."]
    for dimension in ("field", "role", "stratum"):
        values = frame[dimension]
        clean = [
            str(value)
            for value in values.value_counts().index
            if value
            and max(_by_arm(frame, values == value)) >= LEAST_HARMLESS
            and not (harmed & (values == value)).any()
        ]
        if clean:  # the first has the most trials
            value = clean[0]
            trials, where = _in_each_arm(frame, values == value)
            said = f"{words.counted(trials, 'trial')}{where}"
            what = "flip" if flips else "fault"
            subject = {
                "field": f"{value} {what}",
                "role": f"{what} in role {value}",
                "stratum": f"{what} of the stratum {value}",
            }
            return [f"No {subject[dimension]} did harm in {said}{_bound(facts, dimension, value)}."]
    return []


def _worst(facts: Facts, metric: str) -> Any:
    """The coarsest resolution of a metric among the arms; None: no change would be seen in one of them."""
    values = [words.number(one["resolution"].get(metric)) for one in facts.summary["arms"].values()]
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def headline(facts: Facts) -> list[str]:
    """Sentences: what causes harm, what does not, and what would not be seen. Only where trials count."""
    frame = _places(facts.counted_trials)
    flips = bool((frame["bit"] != "").all())
    lines = _harm(frame, flips) + _harmless(facts, frame, flips)
    metric, better = next(iter(judged_metrics(facts.summary["judging"]).items()))
    unseen = words.resolution(metric, better, _worst(facts, metric))
    if _worst(facts, metric) is None:
        lines.append(f"{unseen[:1].upper()}{unseen[1:]}.")
    else:
        lines.append(f"{unseen[:1].upper()}{unseen[1:]} would not be seen.")
    if facts.unfinished():
        lines[0] = f"So far: {lines[0][:1].lower()}{lines[0][1:]}"
    return lines


def _spread(values: Sequence[float]) -> str:
    """One rate, or the lowest and the highest."""
    low, high = words.points(min(values)), words.percent(max(values))
    return high if low == words.points(max(values)) else f"{low} to {high}"


def _rate_tile(groups: Sequence[Json], outcome: str) -> Tile:
    rates = [group["rates"][outcome] for group in groups]
    ends = (min(one["anytime"][0] for one in rates), max(one["anytime"][1] for one in rates))
    counts = sorted({(group["counts"][outcome], group["trials"]) for group in groups})
    shown = f"{counts[0][0]:,} of {words.counted(counts[0][1], 'trial')}" if len(counts) == 1 else ""
    if shown and len(groups) > 1:
        shown += " in each line" if any("stratum" in group["key"] for group in groups) else " in each arm"
    if not shown:
        hits = sum(group["counts"][outcome] for group in groups)
        trials = sum(group["trials"] for group in groups)
        shown = f"{hits:,} of {words.counted(trials, 'trial')} in all"
    note = f"{words.interval(ends)}; {shown}"
    return Tile(outcome, _spread([one["estimate"] for one in rates]), note, outcome.lower())


def _resolution_tile(facts: Facts) -> Tile:
    metric, better = next(iter(judged_metrics(facts.summary["judging"]).items()))
    value = _worst(facts, metric)
    name = words.METRIC_NAMES.get(metric, metric)
    if value is None:
        return Tile("resolution", "none", f"no change of {name} would be called SDC")
    direction, size = words.change(metric, better, value)
    return Tile("resolution", size, f"smaller {direction} of {name} alone are not seen")


def _alarms_tile(facts: Facts) -> Tile:
    """The false alarms of the arm whose held-out runs allow the most."""
    arms: Json = facts.summary["arms"]
    name = max(arms, key=lambda arm: arms[arm]["false_sdc"]["at_most"])
    worst, stated = arms[name]["false_sdc"], words.level(arms[name]["level"])
    runs = worst["held_out"]["runs"]
    if not runs:
        return Tile("false alarms", "not measured", f"no held-out run; stated level {stated}")
    alike = all(arm["false_sdc"]["held_out"] == worst["held_out"] for arm in arms.values())
    where = "" if len(arms) == 1 else " in each arm" if alike else f" in {name}"
    note = f"{worst['held_out']['called']} of {words.counted(runs, 'held-out run')}{where}; stated level {stated}"
    return Tile("false alarms", f"\u2264 {words.percent(worst['at_most'])}", note)


def tiles(facts: Facts) -> list[Tile]:
    """masked, SDC, crash, resolution, false alarms: over all arms."""
    groups: list[Json] = facts.report["by_arm"]["groups"]
    if not groups:
        return []
    rates = [_rate_tile(groups, outcome) for outcome in ("masked", "SDC", "crash")]
    return [*rates, _resolution_tile(facts), _alarms_tile(facts)]
