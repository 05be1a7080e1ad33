"""`python -m bitrift report`, which `bitrift report` starts."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bitrift import Error
from bitrift.report import watch
from bitrift.report.page import publish, render


def _output(path: Path) -> Path:
    if path.is_dir():
        raise OSError(f"{path}: is a folder; name a file, such as {path / 'report.html'}")
    if not path.parent.is_dir():
        raise OSError(f"{path}: there is no folder {path.parent}; create it first")
    return path


def _report(arguments: argparse.Namespace) -> int:
    if arguments.output is None and not arguments.watch:
        raise OSError("name the file to write with -o, or serve the page with --watch")
    if arguments.port is not None and not arguments.watch:
        raise OSError("--port belongs to --watch")
    if arguments.port is not None and not 0 <= arguments.port <= 65535:
        raise OSError(f"--port {arguments.port}: give a number from 0 to 65535")
    output = None if arguments.output is None else _output(arguments.output)
    if arguments.watch:
        return watch.serve(arguments.folder, output, arguments.port or 0)
    text, judged = render(arguments.folder)
    publish(text, arguments.output)
    if not judged:
        print(f"bitrift: no verdict can be given; {arguments.output} says why", file=sys.stderr)
    return 0 if judged else 1


def run(arguments: argparse.Namespace) -> None:
    """Writes the page, or serves it. Exits with 0, 1 (written, but no verdict can be given) or 2 (nothing written)."""
    try:
        status = _report(arguments)
    except (Error, OSError) as error:
        print(f"bitrift: error: {' '.join(str(error).split())}", file=sys.stderr)
        status = 2
    raise SystemExit(status)
