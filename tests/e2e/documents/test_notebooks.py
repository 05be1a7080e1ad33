"""The notebooks, from the first cell to the last. Their own assertions are the test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from notebook_support import NOTEBOOKS, ROOT, execute


# The notebook one_bit is a test of its own. What these do has its tests: studies, campaigns of each kind, data frames.
@pytest.mark.thorough
@pytest.mark.parametrize("name", ["checkpoint_study", "own_trainer", "guards", "propagation"])
def test_it_runs_to_its_conclusion(name: str, tmp_path: Path) -> None:
    assert "Conclusion" in execute(name, tmp_path)


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_what_is_committed_asserts_and_shows_no_error_and_no_path(path: Path) -> None:
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert "assert " in "".join(line for cell in cells for line in cell["source"])
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert all(output["output_type"] != "error" and output.get("name") != "stderr" for output in outputs)
    assert not any(place in json.dumps(outputs) for place in ("/tmp/", "/home/", str(ROOT)))
