"""Keeps a program loaded for the commands of a test file (resident.cpp): each is then a fork, and so are its ranks."""

from __future__ import annotations

import atexit
import functools
import os
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# mpirun that starts each rank as a fork of the resident program too.
MPIRUN = """#!/bin/bash
words=()
for word in "$@"; do
  if [[ $word == '{program}' ]]; then words+=('{ask}'); fi
  words+=("$word")
done
exec '{mpirun}' "${{words[@]}}"
"""


class Resident:
    """A program that is loaded once. It ends when its standard input is closed, with this process at the latest."""

    def __init__(self, program: Path, mpirun: str, tools: Path) -> None:
        self._ask = tools / "ask"
        self.name = f"bitrift-resident-{uuid.uuid4().hex}"
        self._folder = tempfile.TemporaryDirectory(prefix="bt-")
        self._mpirun = Path(self._folder.name) / "mpirun"
        self._mpirun.write_text(MPIRUN.format(program=program, ask=self._ask, mpirun=mpirun))
        self._mpirun.chmod(0o755)
        preload = {"LD_PRELOAD": str(tools / "libresident.so"), "BITRIFT_RESIDENT": self.name}
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, env=os.environ | preload)
        deadline = time.monotonic() + 60
        while not self._listens():
            assert self._process.poll() is None and time.monotonic() < deadline, "no resident program"
            time.sleep(0.002)
        atexit.register(self._process.communicate)

    def _listens(self) -> bool:
        """A socket has its name before it listens, so only a connection tells."""
        with socket.socket(socket.AF_UNIX) as asked:
            return asked.connect_ex(f"\0{self.name}") == 0

    def start(self, command: list[str], environment: Mapping[str, str]) -> dict[str, Any]:
        """Arguments of subprocess for a run in a fork; the process of that name ends as the fork does, and with it."""
        variables = {"BITRIFT_MPIRUN": str(self._mpirun)} | dict(environment) | {"BITRIFT_RESIDENT": self.name}
        return {"args": [str(self._ask), *command], "env": variables}


@functools.cache
def resident(program: Path, mpirun: str) -> Resident:
    """The one of this process. BITRIFT_RESIDENT_TOOLS: the folder of what is built for it."""
    return Resident(program, mpirun, Path(os.environ["BITRIFT_RESIDENT_TOOLS"]))
