"""A process that imports PyTorch once and starts scripts by forking: each begins as new, without a wait for the import.

It computes nothing itself, because threads of PyTorch would not survive a fork. For each line
{"words": [...], "ranks": N, "log": path, "environment": {...}} on stdin it runs `python -m bitrift.runner WORDS` in N
children. It answers with 0, or with the exit code of the first that failed, or minus its signal.
"""

from __future__ import annotations

import json
import os
import signal
import sys

# The first optimizer of a process imports it.
import torch._dynamo  # noqa: F401

from bitrift.runner import __main__ as runner
from bitrift.runner import serving  # noqa: F401


def child(words: list[str], log: str, environment: dict[str, str]) -> None:
    """Runs the words in this process, with its output in the log."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, out), (2, out)):
        os.dup2(source, target)
    os.environ.update(environment)
    runner.main(words)


def start(words: list[str], ranks: int, log: str, environment: dict[str, str]) -> int:
    """Runs the words on so many ranks; when one fails, the others are killed."""
    children = []
    for rank, own in enumerate(runner.environments(ranks)):
        numbered = ["--rank", str(rank), *words] if ranks > 1 else words
        pid = os.fork()
        if pid == 0:
            try:
                child(numbered, log, environment | (own if ranks > 1 else {}))
            finally:
                os._exit(runner.FAILED)
        children.append(pid)
    failed = 0
    while children:
        pid, status = os.wait()
        children.remove(pid)
        code = os.waitstatus_to_exitcode(status)
        if code != 0 and failed == 0:
            failed = code
            for other in children:
                os.kill(other, signal.SIGKILL)
    return failed


def main() -> None:
    """Answers until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks ends this one
    for line in iter(sys.stdin.readline, ""):
        print(start(**json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
