"""Executes a notebook as a reader would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
NOTEBOOKS = ROOT / "notebooks"


def execute(name: str, results: Path) -> str:
    """The executed notebook as JSON; `results` is its BITRIFT_RESULTS."""
    done = subprocess.run(
        [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--stdout", NOTEBOOKS / f"{name}.ipynb"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"BITRIFT_RESULTS": str(results), "MPLBACKEND": "module://matplotlib_inline.backend_inline"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
