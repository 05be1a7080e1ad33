"""Every kind of checkpoint is listed, altered, read back by its own library and undone, or refused with a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from file_kinds import KINDS, Arrays, Kind
from inject_support import refused, run, run_json

# PyTorch and Keras warn of kinds that are old, new or rare.
pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("UserWarning", "DeprecationWarning")]
READ = {name: kind for name, kind in KINDS.items() if not kind.refused}
OTHERS = {name: kind for name, kind in KINDS.items() if kind.refused}


def contents(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    return {str(one.relative_to(path)): one.read_bytes() for one in files}


def check_differences(before: Arrays, after: Arrays, faults: list[dict]) -> None:
    """The library sees exactly the bits that are reported, element by element."""
    assert before.keys() == after.keys()
    expected = {name: np.zeros_like(values) for name, values in before.items()}
    for fault in faults:
        width = (len(fault["old"]) - 2) // 2
        difference = int(fault["old"], 16) ^ int(fault["new"], 16)
        at = fault["element"] * width
        expected[fault["tensor"]].reshape(-1)[at : at + width] = list(difference.to_bytes(width, "little"))
    for name, values in before.items():
        assert np.array_equal(values ^ after[name], expected[name]), name


def test_there_are_as_many_kinds_as_the_table_says() -> None:
    assert len(KINDS) >= 90 and len(OTHERS) >= 10


@pytest.mark.parametrize("name", READ)
def test_the_library_reads_back_what_was_altered(name: str, tmp_path: Path) -> None:
    kind: Kind = READ[name]
    path, out = tmp_path / kind.name, tmp_path / f"out-{kind.name}"
    kind.save(path)
    before, original = kind.read(path), contents(path)
    assert before
    listed = {one["path"] for one in run_json("ls", path)["tensors"]}
    assert before.keys() <= listed and (kind.unread or listed <= before.keys()), listed ^ before.keys()
    faults = ("--count", 25, "--seed", 11, "--tensor", kind.target)
    told = run_json("inject", path, "-o", out, *faults)
    assert told["faults"]
    check_differences(before, kind.read(out), told["faults"])
    assert contents(path) == original
    run("verify", out)
    run("inject", path, "--in-place", *faults)
    assert contents(path) == contents(out)
    run("undo", path)
    assert contents(path) == original and not Path(f"{path}.undo").exists()


@pytest.mark.parametrize("name", OTHERS)
def test_the_rest_is_refused_with_a_reason(name: str, tmp_path: Path) -> None:
    kind = OTHERS[name]
    path = tmp_path / kind.name
    kind.save(path)
    original = contents(path)
    for words in (["ls", path], ["inject", path, "--in-place", "--count", 1], ["verify", path]):
        refused(*words, says=kind.refused)
    assert contents(path) == original
