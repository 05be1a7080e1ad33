"""Values that have an enum are compared as enums: their names belong where JSON and options are read."""

from __future__ import annotations

import re

from house import ROOT, sources

TABLE = re.compile(r'EnumNames<\d+> names_of\((\w+)\) \{\s*return \{\s*"[^"]*",\s*\{([^}]*)\}')
# `spec.judge == "rank0"`, `row.at("kind") == "trial"`, `"rank0" == judge`
COMPARISON = re.compile(r'(\w*)[()\]"]* [!=]= "([^"]+)"|"([^"]+)" [!=]= (\w+)')

# How other programs name things is text by nature.
FOREIGN = "src/ckpt/dialect/"
# Words of a table that are not values of its enum where they stand: names of a column, of a number, of a spec's key.
ALLOWED = {
    "src/archive/pickle/torch_pickle.cpp: text storage",
    "src/record/propagation_report.cpp: key step",
    "src/design/kind/run/compute_strata.cpp: word bit",
    "src/spec/exec_runner.cpp: text nan",
    "tools/bitrift/checkpoint/inject.cpp: name replica",
    "tools/bitrift/checkpoint/inject.cpp: name replicas",
    "tools/bitrift-train/guard_options.cpp: text none",
    "tools/bitrift/analyze.cpp: name tensor",
}


def names_in(text: str) -> dict[str, str]:
    """Every name in the tables of the enums (core/named_enum.h), and its enum."""
    return {word: enum for enum, row in TABLE.findall(text) for word in re.findall(r'"([^"]*)"', row)}


def comparisons_in(text: str) -> list[tuple[str, str]]:
    """What is compared with a literal, by its last word, and the literal."""
    return [(left or right, word or first) for left, word, first, right in COMPARISON.findall(text)]


def test_values_with_an_enum_are_not_compared_as_text() -> None:
    names = names_in("\n".join(path.read_text(encoding="utf-8") for path in sources(".h")))
    found = []
    for path in sources(".h", ".cpp"):
        place = path.relative_to(ROOT).as_posix()
        if not place.startswith(("src/", "tools/", "python/")) or place.startswith(FOREIGN):
            continue
        for left, word in comparisons_in(path.read_text(encoding="utf-8")):
            if word in names and f"{place}: {left} {word}" not in ALLOWED:
                found.append(f"{place}: {left} {word} (see {names[word]})")
    assert found == []


def test_tables_and_comparisons_are_recognised() -> None:
    table = 'constexpr EnumNames<2> names_of(Judge) { return {"judge", {"worst", "rank0"}}; }'
    assert names_in(table) == {"worst": "Judge", "rank0": "Judge"}
    assert comparisons_in('if (spec.judge != "rank0")') == [("judge", "rank0")]
    assert comparisons_in('if (row.at("kind") == "trial")') == [("kind", "trial")]
    assert comparisons_in('if (name() == "trial" || "rank0" == spec.judge)') == [("name", "trial"), ("spec", "rank0")]
    assert comparisons_in('if (value("/name", "") == "plateau")') == [("", "plateau")]
