"""The worker's side of the worker protocol (docs/campaign.md): one JSON object on each line."""

from __future__ import annotations

import json
import math
import os
import socket
import traceback
from collections.abc import Iterator
from typing import Any

MOST_CHARACTERS = 600


def number(value: float) -> float | str:
    """A number as the journal writes it: JSON has none that is not finite."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def last_line(error: BaseException) -> str:
    """An exception as one line: its type and message, of a long message the first and the last line."""
    lines = [line.strip() for line in "".join(traceback.format_exception_only(error)).splitlines() if line.strip()]
    text = lines[0] if len(lines) == 1 else f"{lines[0]} ... {lines[-1]}"
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "..."


class Driver:
    """The connection of one rank to its driver."""

    def __init__(self, name: str, rank: int, ranks: int) -> None:
        self.rank = rank
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect("\0" + name)
        self._say({"hello": {"rank": rank, "ranks": ranks, "pid": os.getpid()}})

    def ready(self, base_digest: str, environment: dict[str, Any]) -> None:
        """Base and data are loaded; for rank 0 only."""
        self._say({"ready": {"base_digest": base_digest, "environment": environment}})

    def answer(self, result: dict[str, Any]) -> None:
        """The result of the last request; for rank 0 only."""
        self._say({"result": result})

    def broke(self, detail: str) -> None:
        """The last message of this rank: an exception ended its run."""
        try:
            self._say({"failure": {"rank": self.rank, "reason": "exception", "detail": detail, "signal": 0}})
        except OSError:
            pass  # the driver is gone: nobody wants to know

    def requests(self) -> Iterator[dict[str, Any]]:
        """Run after run, until the driver says that the worker must exit. Raises EOFError when it is gone."""
        with self._socket.makefile(encoding="utf-8") as lines:
            for line in lines:
                message = json.loads(line)
                if message.get("quit"):
                    return
                yield message["run"]
        raise EOFError("the driver is gone")

    def _say(self, message: dict[str, Any]) -> None:
        self._socket.sendall((json.dumps(message, allow_nan=False) + "\n").encode())
