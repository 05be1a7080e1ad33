"""tools/check runs what exists: a name that it lists is a target of the build."""

from __future__ import annotations

import re

from house import ROOT


def test_sanitizers_run_on_every_room_with_unit_tests_and_without_libtorch() -> None:
    tests = (ROOT / "tests/CMakeLists.txt").read_text(encoding="utf-8")
    check = (ROOT / "tools/check").read_text(encoding="utf-8")
    rooms = re.search(r"foreach\(room ([a-z0-9 ]+)\)\n  bitrift_unit_tests", tests)
    checked = dict(re.findall(r"^([A-Z_]+)=\(([a-z0-9 ]+)\)$", check, re.MULTILINE))
    assert rooms is not None
    assert checked["SANITIZED"].split() == rooms[1].split()
    assert set(checked["BYTE_READERS"].split()) <= set(rooms[1].split())
