"""Manifests as Python has them: bit patterns are integers and values are numbers, where a file has text."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, cast

Manifest = dict[str, Any]
"""As docs/faults.md describes it, with its keys."""

_PATTERNS = ("old", "new")
_VALUES = ("old_value", "new_value")
_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_NAMES = frozenset(("key", "arm", "stratum", "strategy", "role", "tensor", "layer", "base"))


def numbers_of(value: Any) -> Any:
    """JSON of bitrift with floats for "NaN", "Infinity" and "-Infinity", except where a text is a name."""
    if isinstance(value, dict):
        return {key: one if key in _NAMES else numbers_of(one) for key, one in value.items()}
    if isinstance(value, list):
        return [numbers_of(one) for one in value]
    return _NUMBERS.get(value, value) if isinstance(value, str) else value


def fault_of(stored: Mapping[str, Any]) -> dict[str, Any]:
    """A fault of a manifest or a journal, with numbers."""
    fault = dict(stored)
    if "process" in fault:
        return fault
    for key in _PATTERNS:
        fault[key] = int(fault[key], 16)
    for key in _VALUES:
        if key in fault:
            number = int(fault[key]) if fault["dtype"].startswith(("int", "uint")) else float(fault[key])
            fault[key] = math.nan if math.isnan(number) else number  # this very object, so that equal manifests are ==
    return fault


def manifest_of(text: str) -> Manifest:
    """The manifest in a JSON text."""
    manifest = cast(Manifest, json.loads(text))
    if "faults" in manifest:
        manifest["faults"] = [fault_of(fault) for fault in manifest["faults"]]
    if isinstance(value := manifest["model"].get("value"), str):
        try:
            manifest["model"]["value"] = int(value)
        except ValueError:
            manifest["model"]["value"] = float(value)
    return manifest


def stored_text(manifest: Mapping[str, Any]) -> str:
    """The JSON text of a manifest, as `bitrift inject --replay` reads it."""
    stored = dict(manifest)
    if "faults" in stored:
        stored["faults"] = [_stored_fault(fault) for fault in stored["faults"]]
    model = dict(stored.get("model", {}))
    if isinstance(value := model.get("value"), (int, float)):
        model["value"] = str(value)
        stored["model"] = model
    return json.dumps(stored, allow_nan=False, indent=1)


def save_manifest(manifest: Mapping[str, Any], path: str | PathLike[str]) -> None:
    """Writes a manifest for `replay` and for `bitrift inject --replay`; `json.dump` would write NaN, which is not JSON.

    Replaces an existing file only when the new one is complete.
    """
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        unfinished.write_text(stored_text(manifest) + "\n", encoding="utf-8")
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _stored_fault(fault: Mapping[str, Any]) -> dict[str, Any]:
    stored = dict(fault)
    for key in _PATTERNS:
        if isinstance(stored.get(key), int):
            stored[key] = f"{stored[key]:#x}"
    for key in _VALUES:
        if key in stored:
            stored[key] = str(stored[key])
    return stored
