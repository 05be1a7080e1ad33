"""Our verdicts of a campaign's folder beside those of bitrift."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bitrift
import pytest
import verdict
from verdict_rank import levels

BITRIFT = Path(os.environ.get("BITRIFT_BIN_DIR", "build/release/bin")) / "bitrift"
RANKED = ("trial", "held_out", "jitter")


def differences(ours: Sequence[verdict.Verdict], theirs: Sequence[Any]) -> list[str]:
    """One line for every row that only one side has, and for every field in which they disagree."""
    mine = {(one.kind, one.arm, one.stratum, one.draw): one for one in ours}
    other = {(one.kind, one.arm, one.stratum, one.draw): one for one in theirs}
    found = [f"{key}: only one side has it" for key in sorted(mine.keys() ^ other.keys())]
    for key in sorted(mine.keys() & other.keys()):
        one, two = mine[key], other[key]
        for name in ("outcome", "reason", "course", "steps_to_recover"):
            if (getattr(one, name) or None) != (getattr(two, name) or None):
                found.append(f"{key}: {name}: {getattr(one, name)} is {getattr(two, name)} for bitrift")
        ranked = one.p_value is not None and two.p_value is not None
        if not (math.isclose(one.p_value, two.p_value) if ranked else one.p_value is two.p_value):
            found.append(f"{key}: p-value: {one.p_value} is {two.p_value} for bitrift")
    return found


def numbers(folder: Path) -> None:
    """Levels, counts of false SDCs and resolutions of every arm are those that bitrift prints."""
    printed = bitrift.summary(folder)["arms"]
    arms = {arm.name: arm for arm in verdict.read_arms(folder)}
    assert printed.keys() == arms.keys()
    for name, arm in arms.items():
        theirs = printed[name]
        resolution = {metric.split("=")[0]: change for metric, change in arm.resolution().items()}
        stated, likely = levels(len(arm.envelope), arm.rule.level)
        assert theirs["envelope_runs"] == len(arm.envelope)
        assert [theirs["level"], theirs["level_with_confidence"]] == pytest.approx([stated, likely], rel=1e-9)
        for kind in ("held_out", "jitter"):
            ours = arm.false_sdcs(kind)
            assert theirs["false_sdc"][kind] == {"runs": ours.runs, "called": ours.sdc + ours.crash}
        assert theirs["false_sdc"]["at_most"] == pytest.approx(arm.false_sdcs("held_out").bound, rel=1e-9)
        distance = arm.jitter_distance()
        assert theirs["false_sdc"]["jitter_distance"] == (None if distance is None else pytest.approx(distance))
        assert theirs["resolution"].keys() == resolution.keys()
        for metric, change in resolution.items():
            assert theirs["resolution"][metric] == (None if change is None else pytest.approx(change, rel=1e-6)), metric


def judged(folder: Path, **options: Any) -> dict[str, list[verdict.Verdict]]:
    """Our verdicts by kind, in file order, after bitrift gave the same for every row."""
    ours = [one for arm in verdict.read_arms(folder, **options) for one in arm.verdicts() if one.kind in RANKED]
    named = {key: value for key, value in options.items() if key in ("metrics", "level", "horizon")}
    assert differences(ours, bitrift.outcomes(folder, kinds=RANKED, **named)) == []
    return {kind: [one for one in ours if one.kind == kind] for kind in RANKED}


def trials(folder: Path, **options: Any) -> list[verdict.Verdict]:
    return judged(folder, **options)["trial"]


def reasons(folder: Path, **options: Any) -> list[str]:
    return [one.reason for one in trials(folder, **options)]


def analyze(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BITRIFT, "analyze", folder], capture_output=True, text=True, check=False)


def refused(folder: Path, *words: str) -> None:
    """Nobody gives a verdict, and `bitrift analyze` says why in one line that holds these words."""
    with pytest.raises(verdict.Refused):
        [arm.verdicts() for arm in verdict.read_arms(folder)]
    with pytest.raises(bitrift.Error):
        bitrift.outcomes(folder, kinds=RANKED)
    done = analyze(folder)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert all(word in done.stderr for word in words), done.stderr
