"""Checkpoints of frameworks are altered as their own loading code sees it, and undone to the byte."""

from __future__ import annotations

import subprocess
from pathlib import Path

import bitrift
import bitrift.torch
import numpy as np
import pytest
from framework_files import KINDS
from test_frameworks import FRAMEWORKS, needs_frameworks

SCRIPT = Path(__file__).with_name("framework_files.py")


def script(*words: object) -> None:
    done = subprocess.run(
        [FRAMEWORKS, "-W", "ignore", SCRIPT, *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("files")
    script("make", made)
    return made


def contents(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    return {str(one.relative_to(path)): one.read_bytes() for one in files}


def read(kind: str, path: Path, out: Path) -> dict[str, np.ndarray]:
    script("read", kind, path, out)
    with np.load(out) as held:
        return {name: held[name] for name in held.files}


@needs_frameworks
@pytest.mark.parametrize("kind", KINDS)
def test_the_framework_loads_what_was_altered(folder: Path, tmp_path: Path, kind: str) -> None:
    path, out = folder / kind / KINDS[kind][0], tmp_path / KINDS[kind][0]
    before, original = read(kind, path, tmp_path / "before.npz"), contents(path)
    listed = {one.path: one for one in bitrift.list_tensors(path)}
    assert before.keys() <= listed.keys(), before.keys() - listed.keys()
    roles = {one.role for name, one in listed.items() if name in before}
    assert "weight" in roles and ("exp_avg" in roles or kind.startswith("transformers"))
    manifest = bitrift.inject(path, out, tensors=sorted(before), count=40, bits="mantissa", seed=3)
    expected = {name: np.zeros_like(values) for name, values in before.items()}
    for fault in manifest["faults"]:
        width = np.dtype(fault["dtype"]).itemsize
        at = fault["element"] * width
        mask = fault["old"] ^ fault["new"]
        expected[fault["tensor"]][at : at + width] ^= np.frombuffer(mask.to_bytes(width, "little"), np.uint8)
    after = read(kind, out, tmp_path / "after.npz")
    assert len({fault["tensor"] for fault in manifest["faults"]}) > 5
    for name, values in before.items():
        assert np.array_equal(values ^ after[name], expected[name]), name
    bitrift.inject(path, in_place=True, tensors=sorted(before), count=40, bits="mantissa", seed=3)
    assert contents(path) == contents(out)
    bitrift.undo(path)
    assert contents(path) == original


@needs_frameworks
def test_a_file_of_lightning_is_converted_with_its_optimizer(folder: Path, tmp_path: Path) -> None:
    path = folder / "lightning" / "c.ckpt"
    left_out = bitrift.torch.from_pt(path, tmp_path / "c.h5")
    assert not [line for line in left_out if line.startswith(("state_dict", "optimizer_states"))]
    roles = [one.role for one in bitrift.list_tensors(tmp_path / "c.h5")]
    assert roles.count("exp_avg") == roles.count("exp_avg_sq") == 6
