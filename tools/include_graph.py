#!/usr/bin/env python3
"""Which project file includes which.

    include_graph.py keys --build DIR --tool TEXT SOURCE...
    include_graph.py batches --build DIR --folder OUT SOURCE...

prints "KEY SOURCE" for each source, where KEY is a digest of all that a reader of it could notice: the source, every
project header that it reaches, its compile command in DIR/compile_commands.json, the .clang-tidy files above it, TEXT,
and names and sizes of all other headers that the command could find. Two clones have the same keys. tests/lint checks
the direction of includes with the same functions.

"batches" makes OUT/N.cpp, each of which includes sources of one compile command, with a compile_commands.json, and
prints "OUT/N.cpp SOURCE..." for each: the headers, which take most of a reader's time, are then read once for all.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?P<open>[<"])(?P<name>[^>"]+)[>"]', re.MULTILINE)


class Include(NamedTuple):
    """One include directive: the name between the quotes, its 1-based line, and whether it was <angled>."""

    name: str
    line: int
    angled: bool


def includes(path: Path) -> Iterator[Include]:
    """The include directives of a file, in order."""
    text = path.read_text(encoding="utf-8")
    for match in INCLUDE.finditer(text):
        yield Include(match["name"], text.count("\n", 0, match.start()) + 1, match["open"] == "<")


def resolve(root: Path, includer: Path, name: str) -> Path | None:
    """The project file that an include means: beside the includer, under src/, tools/bitrift* or tests/; else None."""
    for folder in (includer.parent, root / "src", root / "tests", root / "tools"):
        candidate = folder / name
        if candidate.is_file():
            return candidate
    return None


def closure(root: Path, source: Path) -> list[Path]:
    """The source and every project file it reaches, sorted."""
    seen = {source}
    stack = [source]
    while stack:
        current = stack.pop()
        for include in includes(current):
            found = resolve(root, current, include.name)
            if found is not None and found not in seen:
                seen.add(found)
                stack.append(found)
    return sorted(seen)


def compile_commands(build: Path) -> dict[Path, str]:
    """Source to compile command. SystemExit when the build folder was not configured."""
    try:
        entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise SystemExit(f"include_graph.py: {build} is not a configured build folder: {error.strerror}") from error
    return {Path(entry["file"]).resolve(): entry["command"] for entry in entries}


@functools.cache
def foreign_headers(folder: Path) -> str:
    """Digest of the names and sizes of all files in a folder of headers."""
    digest = hashlib.sha256()
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            size = path.stat().st_size if path.exists() else 0
            digest.update(f"{path.relative_to(folder)} {size}\0".encode())
    return digest.hexdigest()


def foreign_folders(root: Path, command: str) -> list[Path]:
    """Where a command finds headers that are not the project's."""
    named = {Path(name) for name in re.findall(r"(?:-I|-isystem) ?(\S+)", command)}
    own = {root / name for name in ("src", "tests", "tools")}
    return sorted(
        {Path("/usr/include"), Path("/usr/local/include")} | {path for path in named if not own & {path, *path.parents}}
    )


def key(root: Path, source: Path, command: str, tool: str) -> str:
    """Digest of all that decides what a tool finds in a source."""
    digest = hashlib.sha256()
    settings = [folder / ".clang-tidy" for folder in (*source.parents,) if folder.is_relative_to(root)]
    for path in [*closure(root, source), *(setting for setting in settings if setting.is_file())]:
        digest.update(f"{path.relative_to(root)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    for folder in foreign_folders(root, command):
        digest.update(foreign_headers(folder).encode())
    digest.update(f"{command.replace(str(root), '.')}\0{tool}".encode())
    return digest.hexdigest()[:32]


BATCH = 6  # more would save little, and share out badly among few cores


def write_batches(sources: list[Path], commands: dict[Path, str], folder: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Sources of one compile command, BATCH at a time, included by a file in `folder`; a source alone makes none."""
    alike: dict[str, list[Path]] = {}
    for source in sources:
        options = re.sub(r" -o \S+ -c \S+$", "", commands[source.resolve()])
        alike.setdefault(options, []).append(source)
    entries: list[dict[str, str]] = []
    folder.mkdir(parents=True, exist_ok=True)
    for options, group in alike.items():
        count = -(-len(group) // BATCH)
        for part in (group[i::count] for i in range(count)):
            if len(part) == 1:
                continue
            path = folder.resolve() / f"{len(entries)}.cpp"
            lines = [f'#include "{source.resolve()}"  // NOLINT(bugprone-suspicious-include)\n' for source in part]
            path.write_text("".join(lines))
            entries.append({"directory": str(folder.resolve()), "file": str(path), "command": f"{options} -c {path}"})
            yield path, part
    (folder / "compile_commands.json").write_text(json.dumps(entries, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description="Digests of what a tool sees of each source, and sources in batches.")
    parser.add_argument("action", choices=["keys", "batches"])
    parser.add_argument("--folder", type=Path, help="where batches go")
    parser.add_argument("--build", type=Path, required=True, help="build folder with compile_commands.json")
    parser.add_argument("--tool", default="", help="version of the tool")
    parser.add_argument("sources", nargs="+", type=Path)
    options = parser.parse_args()
    commands = compile_commands(options.build)
    for source in options.sources:
        path = source.resolve()
        if path not in commands:
            sys.exit(f"include_graph.py: {source} is not part of {options.build}: configure it again")
    if options.action == "batches":
        for batch, parts in write_batches(options.sources, commands, options.folder):
            print(batch, *parts)
        return
    for source in options.sources:
        path = source.resolve()
        print(key(ROOT, path, commands[path], options.tool), source)


if __name__ == "__main__":
    main()
