"""The trainings of an audit, each in a new process."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch

from bitrift.audit.process import Record, Request
from bitrift.errors import BadInput

if TYPE_CHECKING:
    from bitrift.audit.save import SaveRequest


class TrainingFailed(BadInput):
    """A script that raised or ended early, on one line."""


# The order of sets must not differ between the trainings.
SAME_ORDER = {"PYTHONHASHSEED": "0"}


class Zygote:
    """Starts scripts in forks of a process that has imported PyTorch (bitrift.audit.zygote)."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def start(self, words: list[str], ranks: int, log: Path, environment: dict[str, str] | None = None) -> int:
        """Runs `python -m bitrift.runner WORDS`; its exit code, or minus its signal.

        environment: added to that of this process.
        """
        if self._process is None:
            command, pipe = [sys.executable, "-m", "bitrift.audit.zygote"], subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=os.environ | SAME_ORDER)
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the zygote has no pipes")
        request = {
            "words": words,
            "ranks": ranks,
            "log": str(log.resolve()),
            "environment": os.environ | (environment or {}),
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise TrainingFailed(f"{words[0]}: the process that starts it ended with {self._process.wait()}")
        return int(answer)

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None


class Trainings:
    """Starts a script for one training after the other; their files are in a temporary folder."""

    def __init__(
        self,
        script: str,
        arguments: Sequence[str] = (),
        *,
        ranks: int = 1,
        seed_epochs: bool = False,
        log: Path | None = None,
        zygote: Zygote | None = None,
    ) -> None:
        self._script, self._arguments, self._ranks, self._seed_epochs = script, list(arguments), ranks, seed_epochs
        self._folder = tempfile.TemporaryDirectory(prefix="bitrift-audit-")
        self._log = log or Path(self._folder.name) / "log"
        self._own, self._zygote = zygote is None, zygote or Zygote()
        self.count = 0

    def __enter__(self) -> Trainings:
        """Nothing is started before the first training."""
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        """Ends the process that starts trainings, if it is this object's own, and removes the folder."""
        if self._own:
            self._zygote.close()
        self._folder.cleanup()

    def file(self, name: str) -> Path:
        """A path in the folder."""
        return Path(self._folder.name) / name

    def run(self, seed: str, **what: Any) -> list[Record]:
        """Makes one training; the record of each rank. Raises TrainingFailed. what: see Request."""
        self.count += 1
        output = self.file(f"record-{self.count}")
        request = replace(Request(output, seed, seed_epochs=self._seed_epochs), **what)
        words = [self._script, "--audit", request.to_json(), "--ranks", str(self._ranks)]
        words += ["--", *self._arguments] if self._arguments else []
        code = self._zygote.start(words, self._ranks, self._log)
        records = [output.with_name(f"{output.name}.{rank}") for rank in range(self._ranks)]
        if code != 0 or not all(path.exists() for path in records):
            raise TrainingFailed(f"{self._script}: {self._why(output, code)}")
        return [torch.load(path, weights_only=False) for path in records]

    def run_save(self, request: SaveRequest) -> dict[str, Any]:
        """What the process of an audit of saves found, without a GPU: its state does not survive a fork."""
        words = [self._script, "--audit", request.to_json()]
        words += ["--", *self._arguments] if self._arguments else []
        code = self._zygote.start(words, 1, self._log, {"CUDA_VISIBLE_DEVICES": ""})
        if code != 0 or not request.output.exists():
            raise TrainingFailed(f"{self._script}: {self._why(request.output, code)}")
        found: dict[str, Any] = json.loads(request.output.read_text(encoding="utf-8"))
        return found

    def path_of(self, number: int) -> Path:
        """The record of an earlier training, as Request.transplant takes it."""
        return self.file(f"record-{number}")

    def _why(self, output: Path, code: int) -> str:
        told = output.with_name(f"{output.name}.failed")
        if told.exists():
            return told.read_text(encoding="utf-8").splitlines()[0]
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        ended = f"ended with signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"{ended}: {lines[-1].strip()}" if lines else ended

    def command(self) -> str:
        """The script and its arguments, as a shell takes them."""
        return shlex.join([self._script, *self._arguments])
