"""Command lines that have commands, and that may end with the arguments of a script."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


class Parser(argparse.ArgumentParser):
    """Reports unknown arguments with the usage of their command, not with that of the whole program."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words before the first `--`, and those after it, which belong to the script."""
    at = words.index("--") if "--" in words else len(words)
    return list(words[:at]), list(words[at + 1 :])
