"""The report of a campaign: one HTML file that opens offline (docs/report.md). Needs jinja2."""

from __future__ import annotations

from os import PathLike

from bitrift.report.page import publish, render

__all__ = ["render", "write"]


def write(folder: str | PathLike[str], output: str | PathLike[str]) -> bool:
    """Writes the report of a campaign's folder to a file, atomically. Whether it gives verdicts.

    Raises Error(not_found | bad_file) where the folder holds no campaign or its journal is damaged, and OSError where
    the file cannot be written.
    """
    text, judged = render(folder)
    publish(text, output)
    return judged
