"""The programs `bitrift` and `bitrift-train`, found and run from Python."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bitrift.errors import BadInput, Conflict, Error, Internal, NotFound

_ERRORS: dict[int, type[Error]] = {1: Conflict, 2: BadInput, 3: Internal}


def program(name: str = "bitrift") -> str:
    """A program of bitrift: in $BITRIFT_BIN_DIR, beside this Python, on the PATH, or of the same build."""
    build = Path(__file__).resolve().parents[2] / "bin"
    for folder in (os.environ.get("BITRIFT_BIN_DIR"), Path(sys.executable).parent, *os.get_exec_path(), build):
        if folder and (found := shutil.which(name, path=str(folder))):
            return found
    raise NotFound(f"the program {name} is not on the PATH: set BITRIFT_BIN_DIR to its folder")


def run_program(
    arguments: Sequence[str], *, name: str = "bitrift", progress: bool = False, accept: Sequence[int] = (0,)
) -> str:
    """What the program prints on stdout. progress: copies its stderr to this Python's while it runs.

    Raises Conflict, BadInput or Internal, with the program's own words, for the exit codes 1, 2 and 3, unless `accept`
    lists them, and Error for any other end. An interrupt reaches the program, which ends tidily.
    """
    said: list[str] = []
    with (
        tempfile.TemporaryFile("w+") as output,  # a pipe would fill up while stderr is read
        subprocess.Popen(
            [program(name), *arguments], stdout=output, stderr=subprocess.PIPE, text=True, errors="replace"
        ) as process,
    ):
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if progress:
                    print(line, end="", file=sys.stderr, flush=True)
                if line.startswith(f"{name}: ") and not line.startswith((f"{name}: info: ", f"{name}: warning: ")):
                    said.append(line.removeprefix(f"{name}: ").removeprefix("error: ").strip())
            process.wait()
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
        if process.returncode in accept:
            output.seek(0)
            return output.read()
    text = "; ".join(said) or f"{name} ended with exit code {process.returncode} and said nothing"
    raise _ERRORS.get(process.returncode, Error)(text)
