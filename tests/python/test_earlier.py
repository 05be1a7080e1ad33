"""Files that an earlier version wrote (tests/data/earlier), read by the package."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import bitrift
import pytest

BITRIFT = Path(os.environ.get("BITRIFT_BIN_DIR", "build/release/bin")) / "bitrift"
SAMPLES = Path(__file__).resolve().parents[1] / "data" / "earlier" / "2026-11"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", ["rounds/finished", "models", "trained"])
def test_campaign_is_read(name: str) -> None:
    folder = SAMPLES / "campaigns" / name
    stored = json.loads((folder / "summary.json").read_text())
    summary = bitrift.summary(folder, by=stored["by"])
    assert [group["counts"] for group in summary["groups"]] == [group["counts"] for group in stored["groups"]]
    assert [group["reasons"] for group in summary["groups"]] == [group["reasons"] for group in stored["groups"]]
    outcomes = bitrift.outcomes(folder)
    assert len(outcomes) == stored["trials"]
    trials = [row for row in bitrift.read_journal(folder) if row["kind"] == "trial"]
    assert [row["id"]["draw"] for row in trials] == [outcome.draw for outcome in outcomes]


def test_manifest_and_undo_journal_are_read(tmp_path: Path) -> None:
    faults = json.loads((SAMPLES / "faults" / "expected.json").read_text())["manifests"]
    for name in ("flip", "flip-compact"):
        manifest = SAMPLES / "faults" / f"{name}.json"
        bitrift.replay(SAMPLES / "faults" / "model.h5", tmp_path / "out.h5", manifest=manifest)
        assert sha256(tmp_path / "out.h5") == faults[name]["sha256"]
    for path in ("torn.h5", "torn.h5.undo"):
        shutil.copy(SAMPLES / "undo" / path, tmp_path)
    bitrift.undo(tmp_path / "torn.h5")
    undone = json.loads((SAMPLES / "undo" / "expected.json").read_text())["torn"]
    assert sha256(tmp_path / "torn.h5") == undone["original"]


@pytest.mark.parametrize("name", ["rounds/finished", "models"])
def test_rates_are_grouped_as_by_the_command(tmp_path: Path, name: str) -> None:
    shutil.copytree(SAMPLES / "campaigns" / name, tmp_path / "copy")
    printed = subprocess.run(
        [BITRIFT, "analyze", tmp_path / "copy", "--json"], capture_output=True, text=True, check=True
    )
    by = json.loads(printed.stdout)["by"]
    assert bitrift.summary(tmp_path / "copy")["by"] == by
    assert by == ["strategy", "stratum" if name == "models" else "field"]
    printed = subprocess.run([BITRIFT, "analyze", tmp_path / "copy"], capture_output=True, text=True, check=True)
    assert bitrift.table(tmp_path / "copy") == printed.stdout
