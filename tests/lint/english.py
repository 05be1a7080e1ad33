"""Phrases to avoid in documents, strings and comments, and the English text of a file."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path
from typing import NamedTuple

from code_size import NOT_CODE

FENCED = re.compile(r"^[ \t]*```.*?^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]*`")
COMMENT_MARK = re.compile(r"^[ \t]*(?:///?<?|/?\*+|#+)", re.MULTILINE)
PYTHON_TEXT = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


class Habit(NamedTuple):
    """A phrase to avoid, as a regular expression in which a space matches any white space, line ends included."""

    phrase: str
    instead: str
    example: str

    def pattern(self) -> re.Pattern[str]:
        """The phrase, compiled; the case of letters does not matter."""
        return re.compile(self.phrase.replace(" ", r"\s+"), re.IGNORECASE)


HABITS = (
    Habit(r"\b(?:go|goes|going|went|gone) on\b(?! (?:the|a|disk)\b)", "resume, continue", "the same command goes on"),
    Habit(r"\bat fault\b", "is wrong; usage or input error", "the input is at fault"),
    Habit(r"\bforeign\b", "third-party, another program's", "a foreign API"),
    Habit(
        r"\b(?:error of|input or) the call\b|\bthe call(?: or|, the)\b|\bwrong call\b",
        "usage, command line",
        "wrong call",
    ),
    Habit(r"\b(?:is|are|was|were) through\b(?! (?:the|a|an|its|this)\b)", "has finished", "the shard that is through"),
    Habit(r"\bamid\b", "during, in the middle of", "stop amid a round"),
    Habit(r"\bst(?:ands?|ood|anding) behind\b", "follows, comes after", "what it is stands behind it"),
    Habit(r"\bwaits? behind\b|\bbehind a (?:draw|gap)\b", "is excluded until", "rows wait behind a draw"),
    Habit(
        r"(?-i:\b(?:Asked|Compared|Counted|Kept|Needed|Printed|Refused|Shown) (?:is|are)\b)",
        "begin with the subject",
        "Needed are therefore",
    ),
    Habit(r"(?-i:\bOf) [a-z ]+ there (?:is|are)\b", "begin with the subject", "Of a run there is no trace"),
    Habit(r"\btold (?:apart|as|by|from|without)\b", "is shown as, is inferred from, differs by", "are told as bytes"),
    Habit(r"\bfor want of\b", "because there is no", "for want of a cluster"),
    Habit(r"\bwhat stands\b", "the text, the value; everything before or after", "what stands there is merged"),
    Habit(
        r"\bby the name of\b|\b(?:ends|ended|refused|refuses|stopped|stops)(?: \w+){0,3} by (?:its |the )?name\b",
        "is refused, and the message names it",
        "an empty stratum is refused by name",
    ),
    Habit(
        r"(?<!\s)(?<!\bthere) (?:is|are) no (?!(?:longer|more|less|later|better|worse|need|such|other|way|one|different"
        r"|larger|smaller|greater|fewer|higher|lower|faster|slower|earlier|older|newer)\b)\w+",
        "is not a, is not part of; there is no",
        "a type that is no compound",
    ),
    Habit(r"\bone's own\b", "your own", "a reader of one's own"),
    Habit(r"\banew\b", "again; recompute, redraw", "computed anew"),
    Habit(r"\bof ours\b", "of bitrift; our", "a file of ours"),
    Habit(r"\bsigns? of life\b", "heartbeat", "it gave no sign of life"),
    Habit(r"\bmend(?:s|ed|ing)?\b", "fix, repair", "mend what it names"),
    Habit(r"\bbut for\b", "except", "equal but for buffers"),
    Habit(r"\bhang(?:s|ing)? on\b", "depends on, is attached to", "no result hangs on one order"),
    Habit(r"\bwhoever\b", "anyone who, the program that", "whoever reads opens the file again"),
    Habit(r"\bdrawn from the system\b", "chosen at random", "drawn from the system, and printed"),
    Habit(
        r"\b(?:is|are) another one\b|\bone of them is another\b", "differs, has changed", "where one of them is another"
    ),
    Habit(
        r"(?<!\b(?:left|rows|runs)\s)(?<!\bchecks\s)(?<!\bdisk\s)(?<!\bwhat\sis\s)"
        r"\bbehind (?:the|an?|its|their|this|these|those|every|each|all|any|it|them|one|step|which|\d+)\b"
        r"|\b(?:comes?|came|lies?|lay|ends?|right|directly) behind\b",
        "after, beyond, past; before which",
        "the step behind the base",
    ),
    Habit(
        r"(?-i:\bOf)\b(?! (?:(?:the|these|those|all|\d+)\b[^.;:]*,|those:))",
        "begin with the subject, or write what it is",
        "Of one arm.",
    ),
    Habit(r"(?-i:\bWho)\b(?![^.?!]*\?)", "the program that, the ranks that; Which", "Who failed."),
    Habit(r"\bmeanwhile\b", "in the meantime; while it does so", "what it wrote meanwhile"),
)


def blank(text: str) -> str:
    """As many lines, without a character in them."""
    return re.sub(r"[^\n]", " ", text)


def without_fences(text: str) -> str:
    """A Markdown page whose fenced code blocks are blank."""
    return FENCED.sub(lambda match: blank(match[0]), text)


def cpp_prose(text: str) -> str:
    """Comments and strings of a C++ source; the rest is blank."""
    out, end = [], 0
    for match in NOT_CODE.finditer(text):
        out += [blank(text[end : match.start()]), match[0].replace('"', " ")]
        end = match.end()
    return COMMENT_MARK.sub(" ", "".join([*out, blank(text[end:])]))


def python_prose(text: str) -> str:
    """Comments and strings of a Python source; the rest is blank."""
    lines = [[" "] * len(line) for line in text.splitlines()]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in PYTHON_TEXT:
            (row, column), shown = token.start, token.string.replace('"', " ")
            for i, part in enumerate(shown.split("\n")):
                first = column if i == 0 else 0
                lines[row - 1 + i][first : first + len(part)] = part
    return COMMENT_MARK.sub(" ", "\n".join("".join(line) for line in lines))


def prose(path: Path, text: str) -> str:
    """The English text of a file, on the lines that it has there: all else is blank."""
    if path.suffix == ".md":
        return INLINE_CODE.sub(lambda match: blank(match[0]), without_fences(text))
    if path.suffix in {".h", ".cpp"}:
        return cpp_prose(text)
    if path.suffix == ".py":
        return python_prose(text)
    return COMMENT_MARK.sub(" ", text)
