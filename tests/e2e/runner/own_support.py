"""What the tests of runner.python share: the shipped example as a study in a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from campaign_support import CONTROLS, Driver

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "own-trainer"


class OwnStudy:
    """A script of the example with its base, which the script itself trains, and a spec of few trials."""

    def __init__(self, place: Path, script: str = "cnn.py", base: str = "digits.h5") -> None:
        self.place = place
        for path in EXAMPLE.glob("*.py"):
            shutil.copy(path, place)
        self.script = place / script
        self.environment = {"BITRIFT_DATA_DIR": str(ROOT / "data"), "BITRIFT_PYTHON": sys.executable}
        self.environment["BITRIFT_TRAIN_PROGRAM"] = ""  # nothing of bitrift-train is needed
        self.spec = {
            "name": "own",
            "seed": 5,
            "base": {"checkpoint": base},
            "runner": {"python": script},
            "arms": [{"name": "own", "parallel": {"kind": "serial"}}],
            "strata": {"roles": ["weight", "exp_avg"], "fields": ["exponent_msb"]},
            "trials_per_stratum": 3,
            "controls": CONTROLS,
        }

    def train_base(self) -> None:
        """What the script does outside of a campaign."""
        environment = os.environ | self.environment
        done = subprocess.run(
            [sys.executable, self.script], cwd=self.place, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def replace(self, old: str, new: str) -> None:
        """Changes the script."""
        text = self.script.read_text()
        assert text.count(old) == 1, old
        self.script.write_text(text.replace(old, new))

    def write(self, **changes: object) -> Path:
        path = self.place / "spec.json"
        path.write_text(json.dumps(self.spec | changes))
        return path

    def start(self, name: str, *arguments: object, **changes: object) -> Driver:
        return Driver(
            "run", self.write(**changes), "-o", self.place / name, *arguments, env=self.environment, cwd=self.place
        )
