"""Runs studies of checkpoints and reads their rows."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from train_support import LENET, SGD, call, error_lines

TRAINING = {
    "model": LENET,
    "data": {"name": "digits"},
    "optimizer": SGD,
    "batch_size": 64,
    "epochs": 2,
    "seed": 11,
}
FLIPS = 15
SPEC = {
    "name": "test",
    "base": {"train": TRAINING, "steps": 3},
    "parts": ["size", "determinism", "damage"],
    "damage": {"flips": FLIPS, "seed": 4},
}


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "spec.json"
    path.write_text(json.dumps(SPEC | changes))
    return path


def study(spec: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return call("checkpoint-study", spec, "-o", folder, *options, timeout=300)


def rows_of(folder: Path) -> list[dict]:
    return [json.loads(line)["row"] for line in (folder / "rows.jsonl").read_text().splitlines()]


def flips_of(folder: Path) -> list[dict]:
    return [row for row in rows_of(folder) if row["part"] == "damage" and "canary" not in row]


def flip(path: Path, fault: dict) -> None:
    file = path / fault["file"] if fault["file"] else path
    content = bytearray(file.read_bytes())
    content[fault["byte"]] ^= 1 << fault["bit"]
    file.write_bytes(content)


def one_line(ended: subprocess.CompletedProcess[str]) -> str:
    assert ended.returncode == 2, ended
    lines = error_lines(ended.stderr)
    assert len(lines) == 1 and ended.stdout == ""
    return lines[0]
