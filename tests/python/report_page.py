"""What the tests of the report share: its elements, its words, and the command that writes it."""

from __future__ import annotations

import html.parser
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bitrift.report
from bitrift.program import program

ARMS = ["serial", "data2"]
FAULT = {
    "tensor": "model/fc.weight",
    "role": "weight",
    "element": 3,
    "dtype": "float32",
    "bits": [30],
    "field": "exponent",
    "old": "0x3f800000",
    "new": "0x7f800000",
}


class Page(html.parser.HTMLParser):
    """Elements of a page with their attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self._raw = 0
        self.feed(text)
        self.close()
        self.text = " ".join("".join(self.words).replace("\u00a0", " ").split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self._raw += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._raw -= tag in ("script", "style")
        if tag not in ("a", "b", "span", "strong"):
            self.words.append(" ")

    def handle_data(self, data: str) -> None:
        if not self._raw:
            self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def page_of(folder: Path) -> Page:
    return Page(bitrift.report.render(folder)[0])


def respec(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "campaign.json"
    identity = json.loads(path.read_text())
    change(identity)
    path.write_text(json.dumps(identity), encoding="utf-8")


def report(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [program(), "report", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
