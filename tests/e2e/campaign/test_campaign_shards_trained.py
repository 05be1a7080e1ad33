"""Shards around the real trainer: rounds, and rows that are taken back while other shards wait for them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from campaign_support import CONTROLS, SMALL_BASE, Driver, campaign, read_rows

SPEC = {
    "name": "shared",
    "seed": 5,
    "base": SMALL_BASE,
    "arms": [
        {"name": "serial", "parallel": {"kind": "serial"}},
        {"name": "data-2", "parallel": {"kind": "data", "ranks": 2}},
    ],
    "strata": {"roles": ["weight", "momentum"], "fields": ["sign", "exponent"]},
    "sampling": {"half_width": 0.12, "pilot": 30},
    "controls": CONTROLS | {"every": 7},
    "worker": {"early_end": False},
}


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spec") / "spec.json"
    path.write_text(json.dumps(SPEC))
    return path


@pytest.fixture(scope="module")
def plain(spec: Path) -> Path:
    done = campaign("run", spec, "-o", spec.parent / "plain")
    assert done.returncode == 0, done.stderr
    return spec.parent / "plain"


def rounds_of(folder: Path) -> list:
    return [json.loads(path.read_text()) for path in sorted((folder / "rounds").iterdir())]


def shards(spec: Path, folder: Path, *options: str) -> list[str]:
    """Three side by side; what each said."""
    drivers = [Driver("run", spec, "-o", folder, "--shard", f"{i}/3", "--workers", "1", *options) for i in (1, 2, 3)]
    try:
        ends = [driver.finish() for driver in drivers]
    except subprocess.TimeoutExpired as late:
        raise AssertionError([driver.said() for driver in drivers]) from late
    finally:
        for driver in drivers:
            if driver.process.returncode is None:
                driver.kill_everything()
    assert [end.returncode for end in ends] == [0, 0, 0], [end.stderr for end in ends]
    return [end.stderr for end in ends]


def test_rows_that_a_shard_takes_back_never_enter_a_plan(spec: Path, plain: Path, tmp_path: Path) -> None:
    ids = [f"serial/weight.exponent/{draw}" for draw in range(15, 21)]
    drills = [word for id_ in ids for word in ("--drill", f"leak@{id_}")]
    said = shards(spec, tmp_path / "leaking", *drills)
    assert sum(text.count("are retracted and run again") for text in said) >= 1
    retractions = 0
    for path in (tmp_path / "leaking" / "shards").glob("*/*/trials.jsonl"):
        retractions += path.read_text().count('"kind":"retract"')
    assert retractions >= 1
    assert len(rounds_of(plain)) > 2
    assert rounds_of(tmp_path / "leaking") == rounds_of(plain)
    assert read_rows(tmp_path / "leaking", check_crc=True) == read_rows(plain)
    done = campaign("diff", tmp_path / "leaking", plain)
    assert done.returncode == 0, done.stdout
