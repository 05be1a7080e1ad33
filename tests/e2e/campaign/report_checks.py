"""What the tests of reports check: each section of a page against the spec, the base and the rows of its campaign."""

from __future__ import annotations

import html.parser
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import bitrift
from report_kinds import KINDS, size_of

Row = dict[str, Any]


class Sections(html.parser.HTMLParser):
    """What each section of a page holds: paragraphs, entries of lists, rows of tables by caption, classes of cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: dict[str, dict[str, list[str]]] = {}
        self.tables: dict[str, list[list[str]]] = {}
        self.cells: list[tuple[str, str]] = []
        self.alerts: list[str] = []
        self._section = self._caption = self._css = ""
        self._open: list[tuple[str, list[str]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        if tag == "section":
            self._section = named["id"]
            self.texts[self._section] = {}
        if tag in ("p", "li", "td", "th", "caption", "h3", "dd", "figcaption", "header", "strong"):
            self._open.append((tag, []))
            self._css = named.get("class", "")
        if tag == "tr" and self._caption:
            self.tables[self._caption].append([])

    def handle_data(self, data: str) -> None:
        for _, words in self._open:
            words.append(data)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1][0] != tag:
            return
        said = " ".join("".join(self._open.pop()[1]).replace("\u00a0", " ").split())
        self.texts.setdefault(self._section, {}).setdefault(tag, []).append(said)
        if tag == "caption":
            self._caption = said
            self.tables[said] = []
        if tag in ("td", "th") and self.tables[self._caption]:
            self.tables[self._caption][-1].append(said)
            self.cells.append((self._css, said))


def rows_of(folder: Path) -> list[Row]:
    path = folder / "trials.jsonl"
    return [json.loads(line)["row"] for line in path.read_text().splitlines()] if path.exists() else []


def arms_of(folder: Path) -> list[str]:
    spec = json.loads((folder / "campaign.json").read_text())["spec"]
    bases = spec["base"]
    names = [f"@{base['name']}" for base in bases] if isinstance(bases, list) else [""]
    return [arm["name"] + base for arm in spec["arms"] for base in names]


LANDS_NOT = ("canary:unreached", "canary:link-unreached", "canary:failure-unreached")
READS = "any, but the final state differs from the golden run's"
CANARIES = {  # docs/campaign.md, "Canaries"
    "canary:nan": ("first weight tensor set to NaN", "crash"),
    "canary:negate": ("last layer negated, no step taken", "SDC"),
    "canary:none": ("nothing", "masked (bitwise)"),
    "canary:unreached": ("a rank is to fail after the end of the run", "masked (bitwise), without a recovery"),
    "canary:recovers": ("a rank fails in the middle of the run", "masked (bitwise), after a recovery"),
    "canary:no-recovery": ("a rank fails in the middle of the run, recovery switched off", "crash (unrecovered)"),
    "canary:link-unreached": ("a message is to be altered after the end of the run", "masked (bitwise)"),
    "canary:link-lands": (
        "highest exponent bit of a number in a message flipped in the middle of the run",
        READS,
    ),
    "canary:failure-unreached": ("a link is to be slow from a step after the end of the run on", "masked (bitwise)"),
    "canary:slow-link": ("a link is slow from the middle of the run on", "masked (bitwise)"),
}


def named(stratum: str) -> tuple[str, str]:
    if stratum.startswith("canary:reads-"):
        role = stratum.removeprefix("canary:reads-")
        return f"NaN in all targeted floating-point tensors of role {role}", READS
    return CANARIES[stratum]


def can_be_judged(rows: list[Row], arm: str, orders: int) -> bool:
    """Whether all clean runs are there that a canary of the arm is judged against."""
    ran = Counter(row["id"]["stratum"] for row in rows if row["id"]["arm"] == arm)
    controls = ["control", *(f"control:order-{order}" for order in range(1, orders))]
    return all(ran[one] >= 2 for one in controls) and ran["control:zero"] >= 1 and ran["envelope"] >= 20


def check_canaries(folder: Path, page: Sections, all_rows: list[Row]) -> None:
    """The whole table, for the rows that are there out of all that come."""
    rows = rows_of(folder)
    orders = json.loads((folder / "campaign.json").read_text())["spec"]["controls"]["orders"]
    expected = []
    for arm in arms_of(folder):
        planned = [row["id"]["stratum"] for row in all_rows if row["kind"] == "canary" and row["id"]["arm"] == arm]
        assert len(planned) >= 3
        for stratum in planned:
            what, required = named(stratum)
            ran = [row for row in rows if row["id"] == {"arm": arm, "stratum": stratum, "draw": 0}]
            landing = ("no, as required" if stratum in LANDS_NOT else "yes") if ran else ""
            judged = bool(ran) and can_be_judged(rows, arm, orders)
            check = "as required" if judged else "not judged yet" if ran else "not run yet"
            expected.append((arm, what, landing, required, check))
    head, *table = page.tables["Canaries"]
    assert head == ["arm", "what happens", "it happened", "required outcome", "outcome", "check"]
    assert sorted((*line[:4], line[5]) for line in table) == sorted(expected)
    for _, _, _, required, outcome, check in table:
        assert bool(outcome) == (check == "as required")
        if outcome and not required.startswith("any"):
            assert outcome.startswith(required.split(" (")[0]), (outcome, required)
            assert "recovery" in outcome if required.endswith("after a recovery") else "recovery" not in outcome
    assert not [cell for cell in page.cells if cell[0] == "wrong"]


def check_clean_runs(folder: Path, page: Sections) -> None:
    ran = Counter((row["id"]["arm"], row["kind"]) for row in rows_of(folder))
    _, *table = page.tables["Runs in which nothing is wrong"]
    kinds = ("control", "envelope", "held_out", "jitter")
    assert [line[:5] for line in table] == [[arm, *(str(ran[arm, kind]) for kind in kinds)] for arm in arms_of(folder)]


def shown(share: float) -> str:
    percent = 100 * share
    if percent in (0, 100):
        return f"{percent:.0f}"
    if percent < 0.005 or percent >= 99.995:
        return "<0.01" if percent < 1 else ">99.99"
    return f"{percent:.1f}" if 10 <= percent < 99 else f"{percent:.2f}"


def said_of_arms(said: list[str], fault: str, arms: list[str]) -> list[tuple[int, str]]:
    """Each sentence of the verdict once for each of its arms, with the place where it stands."""
    found = []
    for place, sentence in enumerate(said):
        if not sentence.startswith("Under each of "):
            found.append((place, sentence))
            continue
        end = min(at for at in (sentence.find(f", {fault[:12]}"), sentence.find(", such a fault")) if at > 0)
        names = re.split(r", | and ", sentence[len("Under each of ") : end])
        assert len(names) > 1 and set(names) <= set(arms), sentence
        assert re.search(r"This rests on [\d,]+ trials in each arm\.", sentence), sentence
        rest = sentence[end:].replace(" trials in each arm.", " trials.", 1)
        found += [(place, f"Under {one}{rest}") for one in names]
    return found


def check_verdict(name: str, folder: Path, page: Sections) -> None:
    """Each arm, or each arm and model, as one sentence with the rates that the package gives."""
    kind, arms = KINDS[name], arms_of(folder)
    size = f"{size_of(kind, folder):,}" if kind.size else ""
    sentences = []
    for group in bitrift.summary(folder, by=["strategy"])["groups"]:
        key, rates = group["key"], group["rates"]
        arm = f"{key['arm']}@{key['base']}" if "base" in key else key["arm"]
        fault = kind.fault.replace("{N}", size).replace("{MODEL}", key.get("stratum", ""))
        scope = (kind.scopes or {}).get(arm, "")
        where = f", {scope}," if scope else "," if ", " in fault else ""
        sdc, crash = (
            f"{shown(rates[one]['estimate'])} % ({shown(rates[one]['anytime'][0])} to "
            f"{shown(rates[one]['anytime'][1])} %)"
            for one in ("SDC", "crash")
        )
        rest = f"ends in silent data corruption with a probability of {sdc} and in a crash with {crash}."
        trials = f"{group['trials']} trial{'' if group['trials'] == 1 else 's'}"
        sentences.append((arm, f"Under {arm}, {fault}{where} {rest} This rests on {trials}."))
    said = page.texts["verdict"]["li"]
    of_arms = said_of_arms(said, kind.fault.replace("{N}", size), arms)
    assert len(of_arms) >= len(sentences) >= 1
    for arm in arms:
        for _, sentence in [one for one in sentences if one[0] == arm]:
            short = re.sub(r"^(Under [^,]*), .*? ends in", r"\1, such a fault ends in", sentence)
            full = "{MODEL}" in kind.fault
            assert any(one.startswith(sentence if full or place == 0 else short) for place, one in of_arms), (
                sentence,
                said,
            )
    missing = [arm for arm in arms if arm not in {one for one, _ in sentences}]
    assert [one for one in said if one.endswith("no trial counts yet.")] == [
        f"Under {arm}, no trial counts yet." for arm in missing
    ]


def check_limits(name: str, folder: Path, page: Sections) -> None:
    kind, rows = KINDS[name], rows_of(folder)
    # A row counts once all earlier draws have one.
    first = {
        (row["id"]["arm"], row["id"]["stratum"]) for row in rows if row["kind"] == "trial" and not row["id"]["draw"]
    }
    said = page.texts["limits"]["li"]
    assert said[: len(kind.limits)] == kind.limits
    rest = said[len(kind.limits) :]
    assert rest[0] == "Harm that shows only after the horizon, or in a metric that is not judged, is not seen."
    assert rest[-1].startswith("Each interval holds with 95 % confidence by itself.")
    rounds = [json.loads(path.read_text()) for path in (folder / "rounds").iterdir()]
    names = {one["name"] for planned in rounds for one in planned["strata"]}
    lacking = {(arm, stratum) for arm in arms_of(folder) for stratum in names} - first
    if not lacking:
        assert rest[1:-1] == ["In every arm, every stratum has a trial that counts."]
    else:
        found = set()
        for line in rest[1:-2]:
            match = re.fullmatch(r"Under (.*), no trial counts yet in (.*)\.", line)
            assert match, line
            under, where = (re.split(", | and ", part) for part in match.groups())
            found |= {(arm, stratum) for arm in under for stratum in where}
        assert found == lacking
        assert rest[-2] == "Estimates leave such strata out; intervals allow them any rate."
    replicas = bitrift.summary(folder)["judging"]
    judged = (
        f"Trials are judged {replicas['step']} optimizer steps after the resume, at evaluation {replicas['horizon']} "
        f"of {replicas['evaluations']}, by "
    )
    assert page.texts["limits"]["p"][0].startswith(judged)


def check_results(name: str, folder: Path, page: Sections) -> None:
    kind, rows = KINDS[name], [row for row in rows_of(folder) if row["kind"] == "trial"]
    assert page.texts["rates"]["p"][0].startswith(kind.rates + " Lines are grouped by arm")
    maps = page.texts["maps"]["p"]
    assert (kind.no_map in maps) if kind.no_map else maps[0].startswith("How often a fault in a bit of a layer")
    assert "This campaign did not record how far faults propagate." in maps
    titles, text = page.texts["trials"]["h3"], page.texts["trials"]["p"]
    assert ("Masked although a number changed the most" in titles) == kind.numbers
    outcomes = Counter(one.outcome for one in bitrift.outcomes(folder))
    assert ("No trial ended in an SDC." in text) == (outcomes["SDC"] == 0)
    assert ("No trial crashed." in text) == (outcomes["crash"] == 0)
    reasons = page.tables["How trials ended, counted (not weighted)"][1:]
    assert sum(int(count) for line in reasons for count in line[1:-1]) <= len(rows)
    if not kind.numbers:
        return
    masked = {(one.arm, one.stratum, one.draw) for one in bitrift.outcomes(folder) if one.outcome == "masked"}
    changed = [row for row in rows if id_of(row) in masked and changes_a_number(row)]
    none = "No masked trial is known to have changed the value of a number."
    assert (none in text) == (not changed)


def id_of(row: Row) -> tuple[str, str, int]:
    return row["id"]["arm"], row["id"]["stratum"], row["id"]["draw"]


def changes_a_number(row: Row) -> bool:
    """Zeros of two signs are one number. All are float32 here; other bytes of the file are not numbers."""
    pairs = [(one["old"], one["new"]) for one in row["faults"] if one.get("dtype") == "float32"]
    pairs += [(one["old"], one["new"]) for one in row.get("result", {}).get("altered_messages", [])]
    return any(old != new and {int(old, 16), int(new, 16)} != {0, 1 << 31} for old, new in pairs)


def check_words(page: Sections) -> None:
    """No number or name is missing from a sentence, and no canary is named by its id."""
    for section in ("verdict", "checks", "limits", "rates"):
        for said in [one for texts in page.texts.get(section, {}).values() for one in texts]:
            assert "canary:" not in said and not re.search(r"\bnone\b|\bNone\b(?! of)|\[\]|\{\}|nan ", said), said
