"""The notebooks that run campaigns of their own, from the first cell to the last. Their own assertions are the test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).resolve().parents[3] / "notebooks"


@pytest.mark.parametrize("name", ["propagation"])
def test_it_runs_to_its_conclusion(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--stdout", NOTEBOOKS / f"{name}.ipynb"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ
        | {"BITRIFT_RESULTS": str(tmp_path), "MPLBACKEND": "module://matplotlib_inline.backend_inline"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Conclusion" in done.stdout
