"""`bitrift mesh bound`: both of its certificates are checked here."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

BITRIFT = Path(os.environ["BITRIFT_BIN_DIR"]) / "bitrift"


def mesh(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BITRIFT, "mesh", *arguments], text=True, capture_output=True, check=False, timeout=60)


def links_of(topology: dict) -> set[tuple[int, int]]:
    """By docs/mesh.md alone."""
    rows, columns, wrap = topology["rows"], topology["columns"], topology["wrap"]
    links = set()
    for row in range(rows):
        for column in range(columns):
            if column + 1 < columns or (wrap in ("rows", "both") and columns > 2):
                links.add((row * columns + column, row * columns + (column + 1) % columns))
            if row + 1 < rows or (wrap in ("columns", "both") and rows > 2):
                links.add((row * columns + column, (row + 1) % rows * columns + column))
    dead = set(topology["dead"])
    dead_links = {tuple(link) for link in topology["dead_links"]}
    ordered = {(min(link), max(link)) for link in links}
    return {link for link in ordered if not dead & set(link) and link not in dead_links}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--mesh", "4x4", "--dead", "1,1,2x2"],
        ["--mesh", "3x5", "--wrap", "both", "--dead", "0,1"],
        ["--mesh", "3x8", "--dead-link", "0,3-0,4", "--dead-link", "1,3-1,4"],
        ["--mesh", "2x4", "--wrap", "rows", "--dead", "1,3"],
        ["--mesh", "32x32", "--dead", "15,15,2x2", "--bytes", "1.34G", "--bandwidth", "50G"],
    ],
)
def test_the_partition_and_the_trees_prove_tau(arguments: list[str]) -> None:
    done = mesh("bound", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    bound = json.loads(done.stdout)
    links = links_of(bound["topology"])
    live = sorted({chip for link in links for chip in link})
    parts = bound["partition"]["parts"]
    assert sorted(chip for part in parts for chip in part) == live
    part_of = {chip: number for number, part in enumerate(parts) for chip in part}
    between = sum(part_of[a] != part_of[b] for a, b in links)
    tau = Fraction(bound["tau"]["numerator"], bound["tau"]["denominator"])
    assert between == bound["partition"]["links_between_parts"]
    assert tau == Fraction(between, len(parts) - 1)

    load: Counter[tuple[int, int]] = Counter()
    for tree in bound["packing"]["trees"]:
        reached = {tree["root"]}
        for child, parent in tree["edges"]:
            assert parent in reached
            reached.add(child)
            load[min(child, parent), max(child, parent)] += 1
        assert sorted(reached) == live
        assert len(tree["edges"]) == len(live) - 1
    assert set(load) <= links
    assert max(load.values()) == bound["packing"]["busiest_link"]
    value = Fraction(len(bound["packing"]["trees"]), max(load.values()))
    assert bound["packing"]["value"] == pytest.approx(float(value))
    assert value <= tau
    assert bound["packing"]["gap"] == pytest.approx(float(1 - value / tau), abs=1e-12)
    assert bound["packing"]["gap"] < 0.05
    seconds = bound["assumed"]["bytes"] / bound["assumed"]["bandwidth"] / float(tau)
    assert bound["bound_seconds"] == pytest.approx(seconds)


def test_the_text_says_what_is_exact_and_what_is_assumed() -> None:
    done = mesh("bound", "--mesh", "4x4", "--dead", "1,1,2x2", "--bytes", "83M")
    assert done.stdout.splitlines() == [
        "mesh      4x4, wrap neither, 12 chips alive",
        "tau       12/11 = 1.0909, exact",
        "at most   12/11: 12 parts with 12 links between them, 12 / (12 - 1)",
        "part      12 chips alone",
        "at least  1.0909: 12 spanning trees, of which at most 11 share a link; 0.00 % below",
        "time      at least 916.7 us for 83.00 MB with 83.00 GB/s in each direction of a link (assumed)",
    ]
    halves = mesh("bound", "--mesh", "2x4", "--dead-link", "0,1-0,2").stdout
    assert "part      4 chips: 0 1 4 5\npart      4 chips: 2 3 6 7\n" in halves


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--mesh", "1x1"], "a single live chip sends nothing"),
        (["--mesh", "2x3", "--dead", "0,1,2x1"], "chip 2 (row 0, column 2) cannot be reached"),
        (["--mesh", "2x2", "--dead", "0,0,2x2"], "no chip of the mesh of 2x2 is alive"),
        (["--mesh", "4x4", "--bytes", "0"], "--bytes '0': expected bytes as a number"),
        (["--mesh", "4x4", "--bandwidth", "83GB"], "--bandwidth '83GB': expected bytes per second"),
        ([], "--mesh"),
    ],
)
def test_bad_arguments_are_refused(arguments: list[str], part: str) -> None:
    done = mesh("bound", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bitrift: error: ")
    assert done.stderr.count("\n") == 1
    assert part in done.stderr


def test_the_help_has_examples_that_work() -> None:
    examples = re.findall(r"^  bitrift mesh (bound .*)$", mesh("bound", "--help").stdout, re.M)
    assert len(examples) == 2
    for example in examples:
        assert mesh(*example.split()).returncode == 0
