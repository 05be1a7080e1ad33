"""What the documents point at exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from house import ROOT, sources

LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
PLACE = re.compile(
    r"`(?P<path>(?:tests|src|tools|bench|studies|campaigns|examples|notebooks|python|cmake)/[\w./*-]+)[`\s]"
)
# In the sources of another program.
FOREIGN = ("src/caffe/",)
HEADING = re.compile(r"^#+\s+(?P<title>.+?)\s*#*$", re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The names under which a page's headings can be linked to."""
    out = set()
    for match in HEADING.finditer(re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        title = re.sub(r"[^\w\- ]", "", match["title"].replace("`", "").lower())
        out.add(title.strip().replace(" ", "-"))
    return out


def broken_links(page: Path) -> list[str]:
    """Relative links of a Markdown page whose file or heading does not exist."""
    text = page.read_text(encoding="utf-8")
    out = []
    for match in LINK.finditer(CODE.sub("", text)):
        target = match["target"]
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = page if not name else page.parent / name
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            out.append(target)
    return out


def missing_places(text: str) -> list[str]:
    """Files and folders of the project that a page names as code, and that do not exist."""
    named = [match["path"] for match in PLACE.finditer(text) if not match["path"].startswith(FOREIGN)]
    return [path for path in named if "FOLDER" not in path and not list(ROOT.glob(path.rstrip("/")))]


@pytest.mark.parametrize("page", sources(".md"), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_resolve(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", sources(".md"), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_are_named_exist(page: Path) -> None:
    # These tell of earlier versions, and name files that are gone.
    if page.name != "CHANGELOG.md" and "earlier" not in page.parts:
        assert missing_places(page.read_text(encoding="utf-8")) == []


def test_a_missing_file_is_found() -> None:
    text = "`tools/check --fast`, `docs/spec.md`, `src/core/*.h`, `src/FOLDER/x`, `src/none/*.h` and `tools/none`"
    assert missing_places(text) == ["src/none/*.h", "tools/none"]


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    linked = {match["target"].split("#")[0] for match in LINK.finditer(index)}
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"} <= linked


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("# One two\n[ok](#one-two) [ok](a.md#one-two) `[code](no.md)` [bad](no.md) [worse](a.md#three)\n")
    assert broken_links(page) == ["no.md", "a.md#three"]
