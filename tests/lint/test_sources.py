"""Sources stay small, finished, and free of the machine they were written on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from code_size import Function, cpp_functions, python_functions
from house import ROOT, project_files, sources, text_of

MAX_FILE_LINES = 600
MAX_HEADER_LINES = 300
MAX_FUNCTION_LINES = 70

UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b|DISABLED_\w|GTEST_" r"SKIP")
# A folder that exists on somebody's machine; written so that this file does not match itself.
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:home|root|work|Users)/[\w.]")


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_files_are_short() -> None:
    long = []
    for path in sources(".h", ".cpp", ".py", ".cmake", ".sh"):
        limit = MAX_HEADER_LINES if path.suffix == ".h" else MAX_FILE_LINES
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > limit:
            long.append(f"{relative(path)}: {lines} lines, at most {limit}")
    assert long == []


def test_functions_fit_a_screen() -> None:
    long = []
    for path in sources(".h", ".cpp", ".py"):
        measure = python_functions if path.suffix == ".py" else cpp_functions
        for function in measure(path.read_text(encoding="utf-8")):
            if function.lines > MAX_FUNCTION_LINES:
                long.append(f"{relative(path)}:{function.line}: {function.lines} lines, at most {MAX_FUNCTION_LINES}")
    assert long == []


@pytest.mark.parametrize("rule", [UNFINISHED, MACHINE_PATH], ids=["unfinished", "machine_path"])
def test_no_line_matches(rule: re.Pattern[str]) -> None:
    found = []
    for path in project_files():
        for number, line in enumerate((text_of(path) or "").splitlines(), 1):
            if rule.search(line):
                found.append(f"{relative(path)}:{number}: {line.strip()[:100]}")
    assert found == []


def test_rules_find_what_they_are_for() -> None:
    slash = "/"
    assert MACHINE_PATH.search(f"see {slash}home/someone/x")
    assert MACHINE_PATH.search(f'"{slash}root/.cache"')
    assert not MACHINE_PATH.search("src/work/x and $ROOT/root/x")
    assert UNFINISHED.search("// TO" + "DO later")


def test_headers_are_guarded_and_say_what_they_are() -> None:
    bad = []
    for path in sources(".h"):
        lines = path.read_text(encoding="utf-8").splitlines()
        if not lines or not lines[0].startswith("//") or "#pragma once" not in lines[:40]:
            bad.append(f"{relative(path)}: begins with a comment that says what it is, then #pragma once")
    assert bad == []


def cpp_body(lines: int) -> str:
    return "\n".join(f"  step({i});" for i in range(lines))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int f() {\n  return 1;\n}\n", [Function(1, 3)]),
        (
            "namespace a {\nclass B {\n  void f(int x,\n         int y) const {\n    g([] { h(); });\n  }\n};\n}\n",
            [Function(3, 4)],
        ),
        ('// f() {\nconst char* s = "{ ( {";\nauto r = R"x({(})x";\nint f() { return \'{\'; }\n', [Function(4, 1)]),
        ("#define OPEN() \\\n  {\nint g()\n{\n}\n", [Function(3, 3)]),
        ("struct alignas(64) Line {\n  char bytes[64];\n};\nstruct stat f(int fd) {\n}\n", [Function(4, 2)]),
        ("struct P { int a = 1; };\nenum class E { x, y };\nP p = {1};\n", []),
        ("A::A(int x) : a_(x), b_{2} {\n}\n", None),
        ("TEST(Room, Behaves) {\n  int n = 1'000;\n  EXPECT_EQ(n, 1);\n}\n", [Function(1, 4)]),
    ],
)
def test_cpp_functions_are_measured(text: str, expected: list[Function] | None) -> None:
    found = cpp_functions(text)
    if expected is not None:
        assert found == expected
    else:
        assert found and found[0].line == 1


def test_a_long_function_is_found_wherever_it_stands() -> None:
    body = cpp_body(80)
    for text in (
        f"void f() {{\n{body}\n}}\n",
        f"namespace a::b {{\nnamespace {{\nvoid f() {{\n{body}\n}}\n}}\n}}\n",
        f"struct S {{\n  template <class T>\n  void f(T&& t) noexcept {{\n{body}\n  }}\n}};\n",
        f"A::A(int x) : a_(x) {{\n{body}\n}}\n",
        f"std::vector<int> f() {{\n  if (x) {{\n{body}\n  }}\n}}\n",
    ):
        assert any(function.lines > MAX_FUNCTION_LINES for function in cpp_functions(text)), text[:60]


def test_python_functions_are_measured() -> None:
    assert python_functions("def f():\n    return 1\n\n\nclass A:\n    async def g(self):\n        pass\n") == [
        Function(1, 2),
        Function(6, 2),
    ]
