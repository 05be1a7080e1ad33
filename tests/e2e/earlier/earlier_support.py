"""Files that earlier versions wrote (tests/data/earlier), and calls on copies of them, for test_earlier_*.py."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from inject_support import BITRIFT, crc32c

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "earlier" / "2026-11"

# What is printed about a campaign, by the name of its file in campaigns/expected/: tables, and JSON for other programs.
TABLES: dict[str, str] = {
    "default": "",
    "strategy-effects": "--by strategy --effects",
    "stratum-wilson-simultaneous": "--by stratum --interval wilson --simultaneous",
    "role-clopper-pearson": "--by strategy --by role --interval clopper_pearson",
    "first-horizon": "--horizon 1 --by strategy",
    "train-loss": "--metrics train_loss,test_loss --by strategy",
    "horizons": "--view horizons",
    "jpdc2024": "--view jpdc2024 --by strategy",
    "metrics": "--view metrics --by strategy",
}
DOCUMENTS: dict[str, str] = {
    "summary": "",
    "horizons": "--view horizons",
    "jpdc2024": "--view jpdc2024 --by strategy",
    "metrics": "--view metrics --by strategy",
}
REACH = {"propagation": "--view propagation"}
CHECKPOINTS = ("adam", "fp16", "replicas")
FINISHED = ("rounds/finished", "models", "trained")


def tables_of(campaign: str) -> dict[str, str]:
    """The options of each table of a campaign."""
    if campaign == "models":
        return {name: TABLES[name] for name in ("stratum-wilson-simultaneous",)}
    return TABLES | ({"propagation-by-tensor": "--view propagation --by tensor"} if campaign == "trained" else {})


def documents_of(campaign: str) -> dict[str, str]:
    """The options of each JSON document of a campaign."""
    return DOCUMENTS | (REACH if campaign == "trained" else {})


def printed_name(campaign: str, view: str) -> str:
    """The file of what was printed about a campaign, without its suffix."""
    return f"{campaign.replace('/', '-')}.{view}"


def expected(folder: str) -> Any:
    """What the samples of a folder must give."""
    return json.loads((SAMPLES / folder / "expected.json").read_text())


def copied(folder: str, place: Path) -> Path:
    """A copy of samples: they are never altered themselves."""
    return Path(shutil.copytree(SAMPLES / folder, place / folder))


def campaigns(place: Path) -> Path:
    """A copy of the sample campaigns, with the copies of one base that the samples hold once."""
    folder = copied("campaigns", place)
    rounds = folder / "rounds"
    for name in (folder / "model.h5", rounds / "killed" / "base.h5", rounds / "divided" / "base.h5"):
        shutil.copy(rounds / "finished" / "base.h5", name)
    return folder


def sha256(path: Path) -> str:
    """The digest of a file, as expected.json has it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def environment(place: Path) -> dict[str, str]:
    """Where `python3` is this interpreter, and where a trainer is found that nobody needs to start."""
    program = place / "bin" / "python3"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    return os.environ | {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "BITRIFT_TRAIN_PROGRAM": str(program),
    }


def call(place: Path, *words: object, code: int = 0, **more: Any) -> subprocess.CompletedProcess[str]:
    """Runs bitrift in a folder, so that what it prints names no other, and checks its exit code."""
    done = subprocess.run(
        [BITRIFT, *map(str, words)], cwd=place, capture_output=True, text=True, timeout=120, check=False, **more
    )
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done


def refused(place: Path, *words: object, says: str, program: Path = BITRIFT) -> None:
    """Runs a program, which must refuse with exit code 2 and one line that says why."""
    done = subprocess.run(
        [program, *map(str, words)], cwd=place, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), (done.returncode, done.stdout, done.stderr)
    assert done.stderr.startswith(f"{program.name}: error: ") and says in done.stderr, done.stderr


def numbers(text: str) -> list[str]:
    """The words of a text that hold a digit. The wording around them is not part of any file format."""
    return re.findall(r"[^\s,;:=()\[\]]*\d[^\s,;:=()\[\]]*", text)


def alike(ours: Any, theirs: Any, relative: float = 1e-9) -> bool:
    """Whether two JSON values are equal; numbers that are not whole may differ by the last digits of another libm."""
    if isinstance(ours, float) or isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=relative, abs_tol=1e-12)
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(alike(ours[key], theirs[key], relative) for key in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(alike(a, b, relative) for a, b in zip(ours, theirs, strict=True))
    return ours == theirs


def summary_of(path: Path) -> dict[str, Any]:
    """A summary without what says who computed it."""
    value = json.loads(path.read_text())
    assert value.pop("provenance")["bitrift"]
    value.pop("all_bitwise", None)  # earlier versions did not point these strata out
    return without_new_rules(value)


# Earlier versions counted jitter runs among the held-out ones, and gave harmful a lower end that did not hold.
NEW_LINES = ("All trials bitwise: ", "  clean runs called SDC: ", "  harmless faults called SDC: ", "  no jitter run")
NEW_WORDS = re.compile(r" of \d+ \(weighted by [^)]*\)|\nMeans of strata (?:.+\n)+")
NO_LONGER = re.compile(r"(?<=\])\s+\d+\.\d-(?=\d+\.\d$)", re.M)


def without_new_rules(value: dict[str, Any]) -> dict[str, Any]:
    """A summary without the numbers that are computed by other rules than in earlier versions."""
    for arm in value.get("arms", {}).values():
        arm["false_sdc"] = {kind: arm["false_sdc"][kind] for kind in ("held_out", "jitter")}
    for group in value.get("groups", []):
        group.pop("apart", None)
        if "harmful" in group:
            group["harmful"]["interval"] = group["harmful"]["interval"][1:]
    return value


def table_of_then(text: str) -> str:
    """A table without what earlier versions did not print, or computed by other rules."""
    kept = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(NEW_LINES))
    return NO_LONGER.sub(" ", NEW_WORDS.sub("", kept))


def processor() -> list[str]:
    """What decides which kernels LibTorch chooses, as Linux describes it."""
    wanted = ("vendor_id", "cpu family", "model", "stepping", "flags")
    found = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() in wanted:
            found.setdefault(key.strip(), value.strip())
    flags = hashlib.sha256(found.pop("flags", "").encode()).hexdigest()[:16]
    return [*(found.get(key, "") for key in wanted[:-1]), flags]


def rewrite(path: Path, old: str, new: str) -> None:
    """Replaces what stands once in a file."""
    content = path.read_bytes()
    assert content.count(old.encode()) == 1
    path.write_bytes(content.replace(old.encode(), new.encode()))


def journal_line(row: dict[str, Any]) -> bytes:
    """A line of a journal (docs/journal.md)."""
    text = json.dumps(row, separators=(",", ":")).encode()
    return b'{"crc32c":"%08x","row":%s}' % (crc32c(text), text)


def effective_rows(folder: Path) -> dict[str, dict[str, Any]]:
    """The rows of a journal that no later line retracts, by id."""
    rows: dict[str, dict[str, Any]] = {}
    for line in (folder / "trials.jsonl").read_bytes().splitlines():
        prefix, _, tail = line.partition(b',"row":')
        assert prefix == b'{"crc32c":"%08x"' % crc32c(tail[:-1])
        row = json.loads(tail[:-1])
        if row["kind"] == "retract":
            for name in row["ids"]:
                del rows[name]
        else:
            rows["{arm}/{stratum}/{draw}".format(**row["id"])] = row
    return rows


def places(faults: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    """Where faults are and what they do."""
    return [tuple(fault[key] for key in ("tensor", "element", "bits", "old", "new")) for fault in faults]


def assert_same_rounds(ours: Path, theirs: Path) -> None:
    """The plans of two campaigns are equal."""
    plans = [{path.name: json.loads(path.read_text()) for path in (one / "rounds").iterdir()} for one in (ours, theirs)]
    assert plans[0] == plans[1]
