"""What a campaign alters is one concept: few places outside design/kind/ tell one kind of fault from another."""

from __future__ import annotations

import re

from house import ROOT, sources

# The kinds of strata, and the questions of which kind faults are.
SWITCH = re.compile(
    r"\b(?:Bit|Model|Process|Wire|Link)Strata\b"
    r"|faults(?:\(\))?\.(?:visit|of_bits|of_processes|of_links|of_failed_links|processes|links|failed_links)\("
)
OWNERS = ("src/design/kind/", "src/record/fault/faults.")
MOST = 25


def switch_points() -> list[str]:
    """The lines outside the folder of the kinds that know one of them, as PATH:LINE: TEXT."""
    found = []
    for path in sources(".h", ".cpp"):
        place = path.relative_to(ROOT).as_posix()
        if not place.startswith(("src/", "tools/", "python/")) or place.startswith(OWNERS):
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        found += [f"{place}:{number}: {line.strip()}" for number, line in enumerate(lines, 1) if SWITCH.search(line)]
    return found


def test_few_places_tell_kinds_of_fault_apart() -> None:
    found = switch_points()
    assert len(found) <= MOST, "\n".join([f"{len(found)} places, at most {MOST}:", *found])


def test_switch_points_are_seen() -> None:
    for line in (
        "if (spec.strata.as<design::ProcessStrata>() == nullptr) {",
        "if (!row.faults.of_bits()) return row;",
        "row.faults.visit([&](const auto& list) {});",
        "for (const auto& fault : request.faults.links()) {",
    ):
        assert SWITCH.search(line), line
    assert not SWITCH.search("topology.links()")
