"""The scripts of examples/own-trainer: interrupted after an epoch, they end as if they had not been."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from own_support import OwnStudy


class Example(NamedTuple):
    """A script, and how it saves after every epoch: after a line of train_epoch, whose head gets the epoch."""

    base: str
    head: str
    last: str
    save: str
    shorter: dict[str, str]


TWO_EPOCHS = {"range(5)": "range(2)"}
EXAMPLES = {
    "cnn.py": Example(
        "digits.h5",
        "def train_epoch():\n",
        "        optimizer.step()\n",
        '    bitrift.torch.save(f"after-{epoch + 1}.h5", model, optimizer, epoch=epoch + 1)\n',
        TWO_EPOCHS,
    ),
    "cnn_ddp.py": Example(
        "digits-ddp.h5",
        "def train_epoch(epoch):\n",
        "        optimizer.step()\n",
        '    bitrift.torch.save(f"after-{epoch + 1}.h5", model.module, optimizer, epoch=epoch + 1)\n',
        TWO_EPOCHS,
    ),
    "language_model.py": Example(
        "language-model.h5",
        "    def train_epoch(self):\n",
        "            yield loss.item()\n",
        '        self.save(f"after-{epoch + 1}.h5", epoch + 1)\n',
        {"read_text(0, 640)": "read_text(0, 96)"},  # three steps an epoch
    ),
}


def run(study: OwnStudy, *arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "bitrift.runner", study.script, *arguments]
    done = subprocess.run(
        list(map(str, command)), cwd=study.place, env=os.environ | study.environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


# test_own_trainer.py runs a campaign of the one with two ranks.
@pytest.mark.parametrize(
    "script",
    [pytest.param(name, marks=[pytest.mark.thorough] * (name == "cnn_ddp.py")) for name in EXAMPLES],
)
def test_example_resumes_bit_for_bit(tmp_path: Path, script: str) -> None:
    example = EXAMPLES[script]
    study = OwnStudy(tmp_path, script, example.base)
    for long, short in example.shorter.items():
        study.replace(long, short)
    study.train_base()
    study.replace(example.head, example.head.replace("()", "(epoch)").replace("(self)", "(self, epoch)"))
    study.replace(example.last, example.last + example.save)
    whole = run(study, "--checkpoint", example.base, "--epochs", 3)
    first, *later = whole["replicas"][0]
    resumed = run(study, "--checkpoint", f"after-{first['epoch']}.h5", "--epochs", 2)
    assert whole["status"] == "done" and len(later) == 2
    assert resumed["replicas"][0] == [one | {"step": one["step"] - first["step"]} for one in later]
    assert (resumed["final_digest"], resumed["last_loss"]) == (whole["final_digest"], whole["last_loss"])
