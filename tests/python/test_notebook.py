"""The notebook runs from its first cell to its last on a campaign's folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from synthetic import study_rows, write_campaign

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "quickstart.ipynb"


def execute(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--stdout", str(NOTEBOOK)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"BITRIFT_RESULTS": str(folder), "MPLBACKEND": "module://matplotlib_inline.backend_inline"},
    )


def test_it_runs_and_shows_table_plot_and_pairs(tmp_path: Path) -> None:
    write_campaign(tmp_path, study_rows(), ["serial", "data2"])
    done = execute(tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    cells = [cell for cell in json.loads(done.stdout)["cells"] if cell["cell_type"] == "code"]
    texts = ["".join("".join(output.get("text", "")) for output in cell["outputs"]) for cell in cells]
    assert "80 trials, 6 canaries as expected" in texts[0]
    assert any("image/png" in output.get("data", {}) for output in cells[1]["outputs"])
    assert any("image/png" in output.get("data", {}) for output in cells[2]["outputs"])
    assert "masked" in texts[3] and "SDC" in texts[3]


def test_what_is_committed_shows_no_error() -> None:
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        assert all(output["output_type"] != "error" for output in cell.get("outputs", []))
