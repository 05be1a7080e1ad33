"""Our gate of two campaigns beside that of bitrift."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

from campaign_support import BIN
from gate import Gate
from one_limit import read_campaign
from verdict_rank import Row


def bitrift(*arguments: Any) -> subprocess.CompletedProcess[str]:
    call: list[Any] = [BIN / "bitrift", *map(str, arguments)]
    return subprocess.run(call, capture_output=True, text=True, check=False)


def differences(ours: Any, theirs: Any, where: str = "") -> list[str]:
    """One line for each value of ours that bitrift lacks or that differs by more than 1e-9 of itself."""
    if isinstance(ours, dict):
        if not isinstance(theirs, dict):
            return [f"{where}: {ours} is {theirs} for bitrift"]
        lacking = [f"{where}.{key}: bitrift lacks it" for key in ours.keys() - theirs.keys()]
        both = ours.keys() & theirs.keys()
        return lacking + [
            line for key in sorted(both) for line in differences(ours[key], theirs[key], f"{where}.{key}")
        ]
    if isinstance(ours, list):
        if not isinstance(theirs, list) or len(ours) != len(theirs):
            return [f"{where}: {ours} is {theirs} for bitrift"]
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [line for i, (one, two) in pairs for line in differences(one, two, f"{where}[{i}]")]
    if isinstance(ours, float) and isinstance(theirs, int | float):
        close = math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-15)
        return [] if close else [f"{where}: {ours} is {theirs} for bitrift"]
    return [] if ours == theirs else [f"{where}: {ours} is {theirs} for bitrift"]


def theirs(folder: Path, baseline: Path, rules: Path | None = None) -> Row:
    done = bitrift("gate", folder, "--baseline", baseline, "--json", *(["--tolerance", rules] if rules else []))
    assert done.returncode in (0, 1), done.stderr
    found: Row = json.loads(done.stdout)
    assert done.returncode == (found["verdict"] != "passed")
    return found


def ours(folder: Path, baseline: Path, rules: Path | None = None) -> Row:
    return Gate(
        read_campaign(baseline), read_campaign(folder), json.loads(rules.read_text()) if rules else None
    ).document()


def compared(mine: Row, other: Row) -> list[str]:
    """Without what is None for us."""
    flips = sorted([one["id"], one["before"], one["after"]] for one in other["flips"])
    lines = [{key: value for key, value in line.items() if value is not None} for line in mine["lines"]]
    mine = {key: value for key, value in mine.items() if value is not None}
    return differences(
        mine | sorted_(lines, mine["arms"]), other | {"flips": flips} | sorted_(other["lines"], other["arms"])
    )


def sorted_(lines: list[Row], arms: list[Row]) -> Row:
    """Whatever their order."""
    return {"lines": sorted(lines, key=lambda one: one["name"]), "arms": sorted(arms, key=lambda one: one["arm"])}
