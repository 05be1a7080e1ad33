"""Command lines that end with the arguments of a script."""

from __future__ import annotations

from collections.abc import Sequence


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words before the first `--`, and those after it, which belong to the script."""
    at = words.index("--") if "--" in words else len(words)
    return list(words[:at]), list(words[at + 1 :])
