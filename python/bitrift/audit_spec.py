"""The scripts that a campaign's spec starts, for an audit before the campaign."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bitrift.errors import BadFile, BadInput, NotFound


@dataclass(frozen=True)
class ArmScript:
    """What one arm starts; arms that start the same are one."""

    arms: tuple[str, ...]
    script: str
    arguments: tuple[str, ...]
    ranks: int


def scripts_of_spec(path: Path, arm: str | None = None) -> list[ArmScript]:
    """What the arms of a spec start, each once; arm: only this one.

    The spec itself is checked by `bitrift campaign run`. Raises NotFound, BadFile, and BadInput if the spec has no
    runner.python, an interpreter that is not this one, or no such arm.
    """
    try:
        spec = json.loads(path.read_text(encoding="utf-8"))
        runner, arms = spec.get("runner", {}), [_arm(one) for one in spec["arms"]]
    except FileNotFoundError:
        raise NotFound(f"{path}: no such file") from None
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadFile(f"{path}: is not a valid campaign spec: {type(error).__name__}: {error}") from None
    if not isinstance(runner, dict) or not isinstance(runner.get("python"), str):
        raise BadInput(f"{path}: has no runner.python: an audit is for a campaign with a PyTorch script", "runner")
    if "interpreter" in runner and not _is_this_python(str(runner["interpreter"]), path.parent):
        raise BadInput(
            f"{path}: runner.interpreter: start the audit with that Python: {runner['interpreter']} -m bitrift audit "
            f"resume --spec {path}",
            "runner.interpreter",
        )
    if arm is not None and arm not in [name for name, _, _ in arms]:
        raise BadInput(f"{path}: no arm '{arm}'; there are {', '.join(name for name, _, _ in arms)}", "arm")
    same: dict[tuple[tuple[str, ...], int], list[str]] = {}
    for name, arguments, ranks in arms:
        if arm in (None, name):
            same.setdefault((arguments, ranks), []).append(name)
    script = str(path.parent / runner["python"])
    return [ArmScript(tuple(names), script, arguments, ranks) for (arguments, ranks), names in same.items()]


def _is_this_python(interpreter: str, folder: Path) -> bool:
    """Whether a name in the spec in this folder means the Python that runs this. Those of two virtual environments may
    be links to the same program, so the folder counts, too.
    """
    found = str(folder / interpreter) if "/" in interpreter else shutil.which(interpreter)
    if found is None or not sys.executable:
        return False
    named, own = Path(found), Path(sys.executable)
    return named.resolve() == own.resolve() and named.parent.resolve() == own.parent.resolve()


def _arm(arm: dict[str, Any]) -> tuple[str, tuple[str, ...], int]:
    return str(arm["name"]), tuple(map(str, arm.get("exec", []))), int(arm.get("parallel", {}).get("ranks", 1))
