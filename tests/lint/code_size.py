"""How long the functions of a C++ or Python source are, told from its text."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

# Comments, raw strings, strings and characters, in one pass so that none is found inside another.
NOT_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'""",
    re.DOTALL,
)
_PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
# Parentheses in a head that do not make it a function's.
_DECORATION = re.compile(r"\b(?:alignas|decltype|requires|noexcept)\s*\([^()]*\)|\[\[.*?\]\]", re.DOTALL)


class Function(NamedTuple):
    """A function's first line (1-based) and how many lines it spans, head and closing brace included."""

    line: int
    lines: int


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n") + " "


def cpp_functions(text: str) -> list[Function]:
    """Function bodies at namespace or class scope. What is nested in them (lambdas) counts as part of them."""
    code = _PREPROCESSOR.sub(_blank, NOT_CODE.sub(_blank, text))
    found = []
    stack: list[int | None] = []  # the first line of a function, or None for any other brace
    head_start = 0
    for position, character in enumerate(code):
        if character == "{":
            head = code[head_start:position]
            inside = any(start is not None for start in stack)
            is_function = not inside and "(" in _DECORATION.sub("", head)
            first = head_start + len(head) - len(head.lstrip())
            stack.append(code.count("\n", 0, first) + 1 if is_function else None)
        elif character == "}" and stack:
            start = stack.pop()
            if start is not None:
                found.append(Function(start, code.count("\n", 0, position) + 2 - start))
        if character in "{};":
            head_start = position + 1
    return found


def python_functions(text: str) -> list[Function]:
    """All function definitions of a module."""
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [Function(node.lineno, (node.end_lineno or node.lineno) + 1 - node.lineno) for node in nodes]
