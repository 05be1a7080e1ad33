"""What the lint tests share: the project's files and their text."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IGNORED = {".git", ".venv", "build", "results", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}


def project_files(root: Path = ROOT) -> list[Path]:
    """Files that git tracks or would track, sorted; outside of a git checkout all but build products."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        found = [root / name for name in listed.stdout.split("\0") if name]
    else:
        found = [path for path in root.rglob("*") if not IGNORED & set(path.relative_to(root).parts)]
    return sorted(path for path in found if path.is_file())


def text_of(path: Path) -> str | None:
    """A file's text; None for a binary one."""
    content = path.read_bytes()
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def sources(*suffixes: str, root: Path = ROOT) -> list[Path]:
    """The project's files with one of these suffixes."""
    return [path for path in project_files(root) if path.suffix in suffixes]
