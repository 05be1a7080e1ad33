"""Roles of tensors against the modules of transformers, timm and Lightning: never a wrong one, and few are unknown."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import bitrift
import pytest
from test_frameworks import FRAMEWORKS, needs_frameworks


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models")
    script = Path(__file__).with_name("model_roles.py")
    done = subprocess.run([FRAMEWORKS, script, made], cwd=made, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return made


@needs_frameworks
def test_no_role_is_wrong_and_few_are_unknown(folder: Path) -> None:
    counts: Counter[str] = Counter()
    wrong = []
    for path in sorted(folder.glob("*.json")):
        roles = {one.path: one.role for one in bitrift.list_tensors(path.with_suffix(".pt"))}
        expected = json.loads(path.read_text())
        assert roles.keys() >= expected.keys()
        for name, role in expected.items():
            counts["all"] += 1
            counts["unknown"] += roles[name] == "unknown"
            if roles[name] not in (role, "unknown"):
                wrong.append((path.stem, name, roles[name], role))
    assert not wrong
    assert counts["all"] > 8000 and counts["unknown"] < 0.02 * counts["all"], counts


@needs_frameworks
def test_what_a_trainer_keeps_beside_the_model_has_no_layer(folder: Path) -> None:
    tensors = bitrift.list_tensors(folder / "lightning.pt")
    beside = [one for one in tensors if one.path.startswith(("callbacks/", "averaging_state/"))]
    assert beside and all(one.layer == "" for one in beside)
    assert {one.layer for one in tensors if one.path.startswith("state_dict/")} == {"0", "1", "3"}
