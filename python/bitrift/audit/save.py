"""Whether a killed save leaves a whole checkpoint, and whether a save in the background keeps the state of one step."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bitrift.audit.trainings import Trainings


class Left(enum.Enum):
    """What load() makes of the files that a killed save leaves."""

    PREVIOUS = "previous"
    """The state of the earlier save."""
    COMPLETE = "complete"
    """The state of this save."""
    TORN = "torn"
    """A state that neither save had."""
    SCRATCH = "from scratch"
    """Nothing was loaded, and load() raised nothing: the training would begin again."""
    REFUSED = "refused"
    """load() raised an exception."""
    CRASH = "crash"
    HANG = "hang"


WHOLE = frozenset({Left.PREVIOUS, Left.COMPLETE})


@dataclass(frozen=True)
class SaveRequest:
    """What a process of the audit does."""

    output: Path
    """Where it writes its findings."""
    epochs: int
    """Epochs before the earlier save; one more precedes the save that is killed."""
    kills: int
    name: str
    """Of the checkpoint, as save() and load() get it."""
    seed: str = "one"

    def to_json(self) -> str:
        """For the command line of another process."""
        return json.dumps({"save_request": vars(self) | {"output": str(self.output)}})

    @staticmethod
    def from_json(text: str) -> SaveRequest:
        """What to_json() returned."""
        values = json.loads(text)["save_request"]
        return SaveRequest(**values | {"output": Path(values["output"])})


@dataclass
class Kill:
    """One killed save."""

    call: int
    """The number of the system call, from 1, among those that alter files."""
    name: str
    half: bool
    """Killed when half of its bytes were written, and not before it."""
    left: Left
    detail: str

    def words(self, calls: int) -> str:
        """Where it was."""
        return f"killed {'half-way in' if self.half else 'before'} call {self.call} of {calls}, {self.name}"


@dataclass
class Race:
    """A save whose writes from one call on wait for the next epoch of the training."""

    call: int
    left: Left
    detail: str
    waited: bool
    """The training waited for the save, so its writes were let go."""


@dataclass
class SaveAudit:
    """What an audit of a save found."""

    script: str
    epochs: int
    calls: list[str] = field(default_factory=list)
    """The system calls of a save that alter files."""
    points: int = 0
    """The points at which it can be killed: before each call, and half-way in each that writes."""
    kills: list[Kill] = field(default_factory=list)
    early: int = 0
    """Saves that had ended before the call at which they were to be killed."""
    races: list[Race] = field(default_factory=list)
    aside: int = 0
    """Calls that other threads or processes make: with none, save() has written all when it returns."""
    problem: str = ""

    @property
    def safe(self) -> bool:
        """Whether a whole checkpoint is there after every kill and race."""
        return not self.problem and not any(one.left not in WHOLE for one in self.kills) and not self.torn

    @property
    def torn(self) -> list[Race]:
        """The races after which the checkpoint is not the state at the save."""
        return [one for one in self.races if one.left is not Left.COMPLETE]

    def counts(self) -> dict[Left, int]:
        """How many kills left what; only what occurs."""
        found = {left: sum(one.left is left for one in self.kills) for left in Left}
        return {left: count for left, count in found.items() if count}


def audit_save(
    trainings: Trainings,
    *,
    epochs: int = 1,
    kills: int = 300,
    name: str = "checkpoint",
    say: Callable[[str], None] = lambda _: None,
) -> SaveAudit:
    """Kills the script's own save at every system call that alters files, and loads what is left.

    epochs: before the earlier save, which the killed one replaces. kills: at most so many points, evenly spread. name:
    of the checkpoint. say: is told what happens next. Raises TrainingFailed where the script does not train, save or
    load.
    """
    audit = SaveAudit(trainings.command(), epochs)
    say(f"training {epochs} + 1 epochs, then killing the save at up to {kills} points")
    found = trainings.run_save(SaveRequest(trainings.file("saves"), epochs, kills, name))
    audit.problem = found["problem"]
    audit.calls, audit.points, audit.aside = found["calls"], found["points"], found["aside"]
    audit.early = found["early"]
    audit.kills = [Kill(**one | {"left": Left(one["left"])}) for one in found["kills"]]
    audit.races = [Race(**one | {"left": Left(one["left"])}) for one in found["races"]]
    return audit


def document_of(audit: SaveAudit) -> dict[str, Any]:
    """The findings as JSON."""
    return {
        "schema": "bitrift/audit-save/1",
        "script": audit.script,
        "safe": audit.safe,
        "epochs": audit.epochs,
        "calls": audit.calls,
        "points": audit.points,
        "aside": audit.aside,
        "early": audit.early,
        "counts": {left.value: count for left, count in audit.counts().items()},
        "kills": [vars(one) | {"left": one.left.value} for one in audit.kills],
        "races": [vars(one) | {"left": one.left.value} for one in audit.races],
        "problem": audit.problem,
    }


def lines_of(audit: SaveAudit) -> list[str]:
    """The findings for a terminal."""
    if audit.problem:
        return [f"{audit.script}: cannot be audited: {audit.problem}"]
    bad = [one for one in audit.kills if one.left not in WHOLE]
    what = "can lose the checkpoint" if bad else "leaves a whole checkpoint"
    kills = f"{len(audit.kills)} kills at {audit.points} points in {len(audit.calls)} system calls"
    lines = [f"{audit.script}: a killed save {what} ({kills})"]
    lines += [f"  {left.value:13}{count:4}{_first(audit, left)}" for left, count in audit.counts().items()]
    if audit.early:
        lines.append(f"  {audit.early} more saves had ended before the call at which they were to be killed")
    lines += _race_lines(audit)
    if bad:
        lines.append(
            "to keep one: write to a new name in the same folder, flush it (os.fsync), then os.replace() it over the "
            "old one;"
        )
        lines.append("write a file that names the newest checkpoint in the same way, and last (docs/audit.md)")
    if audit.torn:
        lines.append("to save one step: copy the tensors before save() returns (clone, or .cpu() on a GPU)")
    return lines


def _first(audit: SaveAudit, left: Left) -> str:
    """The first kill with this result, where it is a bad one."""
    if left in WHOLE:
        return ""
    first = next(one for one in audit.kills if one.left is left)
    return f"  first {first.words(len(audit.calls))}: {first.detail}"


def _race_lines(audit: SaveAudit) -> list[str]:
    if not audit.aside:
        return ["save() has written everything when it returns, so no later step can alter what it saves"]
    if not audit.races:
        return []
    if not audit.torn:
        waited = sum(one.waited for one in audit.races)
        how = f"; in {waited} of them the training waits for the save" if waited else ""
        return [f"races of its writes against the next epoch: {len(audit.races)}, all keep the state at the save{how}"]
    first = audit.torn[0]
    return [
        f"races of its writes against the next epoch: {len(audit.races)}, of which {len(audit.torn)} do not keep the "
        f"state at the save; first with the writes from call {first.call} on held back: {first.detail}"
    ]


def junit_of(audit: SaveAudit) -> str:
    """JUnit XML with one test case, which fails if a checkpoint can be lost or torn."""
    from bitrift.audit.findings import junit_case

    return junit_case("audit.save", audit.script, lines_of(audit), not audit.safe, bool(audit.problem))
