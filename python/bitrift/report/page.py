"""The page: one HTML file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

import bitrift
from bitrift.report import guards, recovery, results, sections, vulnerability, words
from bitrift.report.facts import Facts
from bitrift.report.glossary import TERMS

HERE = Path(__file__).resolve().parent
SECTIONS = (
    ("verdict", "Verdict"),
    ("checks", "Checks"),
    ("limits", "Limits"),
    ("rates", "Rates"),
    ("maps", "Maps"),
    ("comparisons", "Comparisons"),
    ("guards", "Guards"),
    ("recovery", "Recovery"),
    ("trials", "Strangest trials"),
    ("provenance", "Provenance"),
    ("glossary", "Words"),
)
_RESULTS = ("limits", "rates", "maps", "comparisons", "trials")


def _shown(page: dict[str, Any], section: str) -> bool:
    """Whether the page has this section."""
    if section in ("guards", "recovery"):
        return bool(page["judged"] and page[section])
    return page["judged"] or section not in _RESULTS


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _source(script: str) -> str:
    """The script's digest, as a Content-Security-Policy names it: no other script runs."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _byline(facts: Facts) -> str:
    times = facts.report["times"]
    parts = [words.counted(facts.trials, "trial"), words.counted(len(facts.arms), "arm")]
    if times["last"]:
        parts.append(f"last run {words.time(times['last'])}")
    return " \u00b7 ".join(parts)


def render(folder: str | os.PathLike[str], *, state: str = "") -> tuple[str, bool]:
    """The page as HTML, and whether it gives verdicts.

    state: of a page that a server shows and that loads itself again. Raises Error(not_found | bad_file) where the
    folder holds no campaign or its journal is damaged.
    """
    facts = Facts.read(os.fspath(folder))
    page: dict[str, Any] = sections.verdict(facts) | sections.checks(facts) | sections.provenance(facts)
    if page["judged"]:
        page |= sections.limits(facts) | results.rates(facts) | results.propagation(facts)
        page |= results.comparisons(facts) | results.strangest(facts) | vulnerability.maps(facts)
        page |= recovery.recovery(facts) | guards.guards(facts)
    scripts = [(HERE / name).read_text(encoding="utf-8") for name in ("script.js", *(["watch.js"] if state else []))]
    page |= {
        "name": str(facts.spec.get("name") or "campaign"),
        "byline": _byline(facts),
        "folder": facts.folder,
        "version": bitrift.__version__,
        "state": state,
        "watched": bool(state),
        "sections": [one for one in SECTIONS if _shown(page, one[0])],
        "style": Markup((HERE / "style.css").read_text(encoding="utf-8")),
        "scripts": [Markup(script) for script in scripts],
        "script_sources": Markup(" ".join(_source(script) for script in scripts)),
    }
    return _environment().get_template("page.html.j2").render(page=page, terms=TERMS), page["alarm"] is None


def publish(text: str, output: str | os.PathLike[str]) -> None:
    """Replaces a file as a whole: it is never seen half-written. Raises OSError."""
    target = Path(output)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
