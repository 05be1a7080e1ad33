"""Documents, strings and comments use plain English, and lines of prose are short."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
from english import HABITS, Habit, prose, without_fences
from house import ROOT, project_files, text_of

# The checked files, as patterns in which * also matches a slash.
CHECKED = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/*.md", "src/*", "tools/*", "python/*")
MAX_PROSE_LINE = 120
# Lines that cannot be wrapped: rows of tables, and lines that hold a link and nothing else.
UNWRAPPED = re.compile(r"\s*\||\s*(?:[-*]\s+)?!?\[[^\]]*\](?:\([^)]*\)|:\s*\S+)[.,;:]?\s*$")
INDENTED_CODE = re.compile(r"(?<=\n\n)(?: {4}[^\n]*\n+)+")


def checked(patterns: tuple[str, ...] = CHECKED, root: Path = ROOT) -> list[Path]:
    """The project's files that match one of the patterns."""
    names = [(path, path.relative_to(root).as_posix()) for path in project_files(root)]
    return [path for path, name in names if any(fnmatch(name, pattern) for pattern in patterns)]


def phrases(path: Path) -> list[str]:
    """One line for each phrase to avoid in a file: its line, the phrase, and what to write instead."""
    text = prose(path, text_of(path) or "")
    out = []
    for habit in HABITS:
        for match in habit.pattern().finditer(text):
            line = text.count("\n", 0, match.end() - len(match[0].lstrip())) + 1
            out.append((line, f"{path.name}:{line}: '{' '.join(match[0].split())}'; instead: {habit.instead}"))
    return [message for _, message in sorted(out)]


def long_lines(path: Path) -> list[str]:
    """One line for each line of prose in a Markdown page that is too long."""
    text = without_fences(path.read_text(encoding="utf-8"))
    text = INDENTED_CODE.sub(lambda match: "\n" * match[0].count("\n"), text)
    return [
        f"{path.name}:{number}: {len(line)} characters, at most {MAX_PROSE_LINE}"
        for number, line in enumerate(map(str.rstrip, text.splitlines()), 1)
        if len(line) > MAX_PROSE_LINE and not UNWRAPPED.match(line)
    ]


@pytest.mark.parametrize("path", checked(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_phrases_are_plain_english(path: Path) -> None:
    assert phrases(path) == []


@pytest.mark.parametrize(
    "path", [path for path in checked() if path.suffix == ".md"], ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_lines_of_prose_are_short(path: Path) -> None:
    assert long_lines(path) == []


def test_every_pattern_matches_a_file() -> None:
    assert [pattern for pattern in CHECKED if not checked((pattern,))] == []


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.example)
def test_a_habit_is_found_across_a_line_end(tmp_path: Path, habit: Habit) -> None:
    page = tmp_path / "a.md"
    page.write_text(f"# Title\n\n{habit.example.replace(' ', chr(10))}\n")
    assert any(habit.instead in message for message in phrases(page))


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.md", "Run it to go on.\n", ["a.md:1: 'go on'; instead: resume, continue"]),
        ("a.md", "Write `go on`.\n\n```\ngo on\n```\n", []),
        ("a.cpp", "int amid = 1;  // the run\n// goes\n// on\n", ["a.cpp:2: 'goes on'; instead: resume, continue"]),
        ("a.h", 'f("it went "\n  "on", amid);\n', ["a.h:1: 'went on'; instead: resume, continue"]),
        ("a.py", 'amid = f"""\nnow amid it"""  # foreign\n', ["a.py:2: 'amid'", "a.py:2: 'foreign'"]),
        ("a.sh", "#!/bin/sh\n# It goes\n# on.\n", ["a.sh:2: 'goes on'; instead: resume, continue"]),
        ("a.md", "It goes on the wire, is through the queue, and of the parts there are two.\n", []),
        ("a.md", "What it left behind; the checks behind it; chunks behind filters; one decision behind.\n", []),
        ("a.md", "Of the 200 runs, 3 crashed. Of those, one hung. Of 40 pairs, 24 are equal. Who asks?\n", []),
        ("a.md", "Of the 200 runs 3 crashed.\n", ["a.md:1: 'Of'"]),
        ("a.h", "// There is no file, and there\n// are no links; it is no longer one.\n", []),
        ("a.h", "// The link\n// is no file.\n", ["a.h:2: 'is no file'"]),
    ],
)
def test_only_english_text_is_searched(tmp_path: Path, name: str, text: str, found: list[str]) -> None:
    file = tmp_path / name
    file.write_text(text)
    messages = phrases(file)
    assert len(messages) == len(found)
    assert all(message.startswith(start) for message, start in zip(messages, found, strict=True)), messages


def test_a_long_line_is_found(tmp_path: Path) -> None:
    page, words = tmp_path / "a.md", "word " * 30
    page.write_text(
        f"{words}\n\n| {words}|\n\n```\n{words}\n```\n\n- [{words}](a.md)\n\n    {words}\n\nsee [{words}](a.md)\n"
    )
    assert [message.split(":")[1] for message in long_lines(page)] == ["1", "13"]
