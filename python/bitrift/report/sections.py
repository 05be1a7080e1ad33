"""The sections of the page about the campaign as a whole: verdict, checks, limits, provenance."""

from __future__ import annotations

import json
from typing import Any

from bitrift.campaign import judged_metrics
from bitrift.report import headline, words
from bitrift.report.facts import Facts, Json
from bitrift.report.layout import Cell, Head, Table, number, prose, share, short, text


def _misbehaves(facts: Facts) -> bool:
    return any(check["state"] == "misbehaves" for check in facts.report["checks"])


def alarm(facts: Facts) -> Json | None:
    """Why no verdict is given; None where it is."""
    if problems := facts.report["problems"]:
        why = "Canaries misbehave" if _misbehaves(facts) else "Clean runs are called SDC more often than stated"
        return {
            "title": "No verdict can be given.",
            "text": f"{why}, so no rate of this campaign can be trusted.",
            "lines": problems,
        }
    if refused := facts.report["refused"]:
        begun = any(facts.report["runs"].values())
        return {
            "title": "No verdict can be given." if begun else "No verdict can be given yet: the campaign has no rows.",
            "text": f"bitrift analyze refuses this campaign: {refused}",
            "lines": [],
        }
    if not facts.judged:
        awaited = [check for check in facts.report["checks"] if check["state"] == "not run"]
        return {
            "title": "No verdict can be given yet.",
            "text": f"{words.counted(len(awaited), 'canary', 'canaries')} of "
            f"{words.count(len(facts.report['checks']))} must run first.",
            "lines": [],
        }
    return None


def _subject(facts: Facts, key: Json, arm: str, *, first: bool) -> str:
    """A fault, as the subject of a sentence."""
    population = facts.report["population"]
    stratum = key.get("stratum", "")
    fault = population["faults"][stratum] if first or stratum else "such a fault"
    scope = population["scopes"][arm]
    subject = f"{fault}, {scope}" if scope else fault
    return f"{subject}," if ", " in subject else subject


def _verdict(facts: Facts, group: Json, subject: str) -> Json:
    rates = group["rates"]
    basis = [f"This rests on {words.counted(group['trials'], 'trial')}."]
    if group["waiting"]:
        basis.append(
            f"{words.counted(group['waiting'], 'more trial')} ended before an earlier draw and will count later."
        )
    if group["share_seen"] == 0:
        basis.append("Strata without a trial are of unknown size, so the ranges are as wide as they can be.")
    elif group["share_seen"] < 1:
        unseen = words.percent(1 - group["share_seen"])
        basis.append(f"Strata with {unseen} of the faults have no trial yet; the ranges allow for that.")
    return {
        "arms": [facts.arm(group)],
        "scope": facts.report["population"]["scopes"][facts.arm(group)],
        "subject": subject,
        "trials": group["trials"],
        "sdc": words.percent(rates["SDC"]["estimate"]),
        "sdc_range": words.interval(rates["SDC"]["anytime"]),
        "crash": words.percent(rates["crash"]["estimate"]),
        "crash_range": words.interval(rates["crash"]["anytime"]),
        "basis": " ".join(basis),
    }


def _verdicts(facts: Facts) -> list[Json]:
    groups = sorted(facts.report["by_arm"]["groups"], key=facts.place)
    verdicts: list[Json] = []
    for group in groups:
        subject = _subject(facts, group["key"], facts.arm(group), first=not verdicts)
        one = _verdict(facts, group, subject)
        same = next((known for known in verdicts if "stratum" not in group["key"] and _agree(known, one)), None)
        if same is None:
            verdicts.append(one)
        else:
            same["arms"] += one["arms"]
    seen = {facts.arm(group) for group in groups}
    for one in verdicts:
        one["under"] = words.listed(one["arms"])
        if len(one["arms"]) > 1:
            one["basis"] = one["basis"].replace("trials.", "trials in each arm.", 1)
    verdicts += [{"under": arm, "trials": 0} for arm in facts.arms if arm not in seen]
    return verdicts


def _agree(first: Json, second: Json) -> bool:
    """Whether a reader sees the same in both, except for the arm."""
    return all(first[key] == second[key] for key in first.keys() - {"arms", "subject"})


def _lead(facts: Facts) -> str:
    arms = facts.arms
    ran = f"Every fault runs in {'the arm' if len(arms) == 1 else f'each of {len(arms)} arms'}: {words.listed(arms)}."
    if not facts.trials:
        return "No trial has run yet." if facts.report["merged"] else f"No trial can be shown: {facts.unfinished()}."
    if not facts.judged:
        which = "which is" if facts.trials == 1 else "which are"
        return f"The journal holds {words.counted(facts.trials, 'trial')}, {which} not judged."
    summary = facts.summary
    reason = facts.unfinished()
    if reason:
        preliminary = "All rates below are preliminary, and their intervals hold already."
        state = f"The campaign is not finished: {reason}. {preliminary}"
    elif summary["planned"] == 1:
        state = "The campaign is finished: its planned trial counts."
    else:
        state = f"The campaign is finished: all {summary['planned']:,} planned trials count."
    if not summary["trials"]:
        return f"{state} No trial counts yet."
    return f"{state} {ran}"


def _compared(facts: Facts) -> str:
    pairs = [pair for one in facts.report["comparisons"] for pair in one.get("pairs", [])]
    if not pairs:
        return "No arms were compared." if len(facts.arms) > 1 else "There is one arm, so nothing was compared."
    differ = [pair["answer"] for pair in pairs if pair["verdict"] == "differ"]
    equal = sum(pair["verdict"] == "equivalent" for pair in pairs)
    known = f" In {equal} of them, the two rates are equal within the margin." if equal else ""
    if not differ:
        return f"None of {words.counted(len(pairs), 'comparison')} between arms shows a difference.{known}"
    more = f" So do {len(differ) - 3} others." if len(differ) > 3 else ""
    return " ".join(differ[:3]) + more + known


def _audits(facts: Facts) -> list[Json]:
    """What an audit of the script's resume found, arms with the same findings together."""
    groups: dict[str, list[str]] = {}
    for arm, found in facts.audit.items():
        groups.setdefault(json.dumps(found, sort_keys=True), []).append(arm)
    lines = []
    for known, arms in groups.items():
        found, under = json.loads(known), words.listed(arms)
        if found["problem"]:
            lines.append({"right": False, "text": f"The resume under {under} could not be audited: {found['problem']}"})
        elif found["equal"]:
            text_ = f"An audit found that a resume under {under} equals an uninterrupted training bit for bit."
            lines.append({"right": True, "text": text_})
        else:
            pieces = [f"{one['piece']} ({one['detail']})" for one in found["missing"]]
            missing = f" Missing: {'; '.join(pieces)}." if pieces else ""
            text_ = f"A resume of the script under {under} is not an uninterrupted training.{missing}"
            lines.append({"right": False, "text": f"{text_} All rates are those of this resume."})
    return lines


def verdict(facts: Facts) -> Json:
    """The verdict in words."""
    page: Json = {"alarm": alarm(facts), "lead": _lead(facts), "judged": facts.judged and facts.summary["trials"] > 0}
    page["audits"] = _audits(facts)
    page["drills"] = ", ".join(str(drill) for drill in facts.identity.get("drills", []))
    page["verdicts"], page["compared"], page["confidence"], page["headline"], page["tiles"] = [], "", "", [], []
    if page["judged"]:
        page["headline"] = headline.headline(facts)
        page["tiles"] = headline.tiles(facts)
        page["verdicts"] = _verdicts(facts)
        page["compared"] = _compared(facts)
        page["confidence"] = words.level(facts.summary["confidence"])
    return page


def _clean_runs(facts: Facts) -> Table:
    rows = []
    assurance = facts.summary["arms"] if facts.judged else {}
    for arm in facts.arms:
        known = assurance.get(arm)
        row = [text(arm), *(number(facts.runs(arm, kind)) for kind in ("control", "envelope", "held_out", "jitter"))]
        if known:
            found = known["false_sdc"]
            row += [number(found["held_out"]["called"]), share(found["at_most"])]
            row.append(Cell(words.level(known["level"]), known["level"], "n"))
            distance = words.number(found["jitter_distance"])
            row.append(Cell("not measured" if distance is None else f"{distance:.2g}", distance, "n"))
        else:
            row += [Cell("not judged", None, "n")] * 4
        rows.append(row)
    counts = ("controls", "envelope runs", "held-out runs", "jitter runs")
    heads = [
        Head("arm"),
        *(Head(name, True) for name in counts),
        Head("held-out runs called SDC or crash", True),
        Head("false alarms at most", True),
        Head("stated level", True),
        Head("units from golden to jitter run", True),
    ]
    return Table("Runs in which nothing is wrong", heads, rows)


_CHECKS = {
    "holds": "as required",
    "misbehaves": "not as required",
    "unjudged": "not judged yet",
    "not run": "not run yet",
}
_CHECK_STYLES = {"holds": "right", "misbehaves": "wrong", "unjudged": "", "not run": ""}


def _canaries(facts: Facts) -> Table:
    rows = [
        [
            text(check["arm"]),
            prose(check["altered"]),
            short(check["landing"]),
            short(check["required"]),
            short(check["found"].replace("_", " ")),
            Cell(_CHECKS[check["state"]], None, _CHECK_STYLES[check["state"]]),
        ]
        for check in facts.report["checks"]
    ]
    heads = ("arm", "what happens", "it happened", "required outcome", "outcome", "check")
    return Table("Canaries", [Head(name) for name in heads], rows)


def checks(facts: Facts) -> Json:
    """Controls, clean runs and canaries."""
    return {"clean_runs": _clean_runs(facts), "canaries": _canaries(facts)}


def _untried(facts: Facts) -> list[str]:
    """In which arms and strata no trial counts yet."""
    arms_of: dict[tuple[str, ...], list[str]] = {}
    for arm in facts.arms:
        if strata := tuple(name for name, trials in facts.report["counted"][arm].items() if not trials):
            arms_of.setdefault(strata, []).append(arm)
    lines = [
        f"Under {words.listed(arms)}, no trial counts yet in {words.listed(strata)}."
        for strata, arms in arms_of.items()
    ]
    if not lines:
        return ["In every arm, every stratum has a trial that counts."]
    return [*lines, "Estimates leave such strata out; intervals allow them any rate."]


def _limits(facts: Facts) -> list[str]:
    summary = facts.summary
    lines = list(facts.report["population"]["limits"])
    lines.append("Harm that shows only after the horizon, or in a metric that is not judged, is not seen.")
    lines += _untried(facts)
    if left_out := summary.get("left_out"):
        lines.append(f"No fault is drawn from {words.listed(left_out)}, which the script does not load in every arm.")
    lines.append(
        f"Each interval holds with {words.level(summary['confidence'])} confidence by itself. Among many intervals, "
        "some miss the true rate."
    )
    return lines


def _assurance(facts: Facts) -> Table:
    rows = []
    arms = facts.summary["arms"]
    standard = judged_metrics({"metrics": list(words.METRIC_NAMES)})
    better = standard | judged_metrics(facts.summary["judging"])
    for arm in facts.arms:
        if known := arms.get(arm):
            values = known["resolution"]
            blind = "; ".join(words.resolution(one, better.get(one, "lower"), value) for one, value in values.items())
            level = share(known["level_with_confidence"])
            rows.append([text(arm), number(known["envelope_runs"]), level, prose(blind)])
    heads = [
        Head("arm"),
        Head("envelope runs", True),
        Head("level with confidence", True),
        Head("blind to changes of one metric alone"),
    ]
    return Table("What each arm can resolve", heads, rows)


def limits(facts: Facts) -> Json:
    """What the campaign can and cannot see."""
    judging = facts.summary["judging"]
    metrics = words.listed(words.METRIC_NAMES.get(name, name) for name in judged_metrics(judging))
    replica = "the worst replica" if judging["judge"] == "worst" else "replica 0"
    text_ = (
        f"Trials are judged {words.counted(judging['step'], 'optimizer step')} after the resume, at evaluation "
        f"{judging['horizon']} of {judging['evaluations']}, by {metrics} of {replica}. A trial is an SDC if it ranks "
        "as worse than the envelope runs of its arm and is worse than its own golden run."
    )
    return {"judging": text_, "limits": _limits(facts), "assurance": _assurance(facts)}


def _machine(provenance: Json) -> str:
    parts = [provenance.get("processor"), provenance.get("system"), provenance.get("host")]
    known = [str(part) for part in parts if part]
    if cores := provenance.get("cores"):
        known.insert(1, words.counted(cores, "core"))
    return ", ".join(known) or "not recorded"


def _bases(facts: Facts) -> str:
    bases: dict[str, Any] = facts.identity.get("bases", {})
    if not bases:
        return "not recorded"
    return "; ".join(f"{stem}: {base.get('digest', '?')} ({base.get('source', '?')})" for stem, base in bases.items())


def provenance(facts: Facts) -> Json:
    """Where the numbers come from."""
    made: Json = facts.identity.get("provenance", {})
    trainer = {key: value for key, value in facts.identity.get("trainer", {}).items() if key != "command"}
    times = facts.report["times"]
    version = " ".join(str(made[key]) for key in ("bitrift", "commit") if key in made)
    build = ", ".join(str(made[key]) for key in ("compiler", "build_type") if key in made)
    merged, unknown = facts.report["merged"], "not known before the shards are merged"
    known = f"{words.time(times['first'])} to {words.time(times['last'])}"
    rows = [
        ("Command", words.command(made["command"]) if made.get("command") else "not recorded"),
        ("bitrift", f"{version} ({build})" if version else "not recorded"),
        ("Training", ", ".join(f"{key} {value}" for key, value in sorted(trainer.items())) or "not recorded"),
        ("Machine", _machine(made)),
        ("Base digest", _bases(facts)),
        ("Seed", str(facts.identity.get("seed", facts.spec.get("seed", "not recorded")))),
        ("Runs", known if times["first"] else "none yet" if merged else unknown),
        ("Time of all runs", words.duration(times["seconds"]) if merged else unknown),
        ("Incidents", words.counted(facts.incidents, "worker") + " died or hung" if merged else unknown),
    ]
    return {"provenance": rows, "spec": json.dumps(facts.spec, indent=2, ensure_ascii=False)}
