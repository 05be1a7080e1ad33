"""Numbers and sentences, as the page shows them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

METRIC_NAMES = {
    "test_accuracy": "test accuracy",
    "test_capped_loss": "capped test loss",
    "test_loss": "test loss",
    "train_accuracy": "training accuracy",
    "train_loss": "training loss",
}


def number(value: Any) -> float | None:
    """A number of JSON, where those that are not finite are strings."""
    return None if value is None else float(value)


def count(value: int) -> str:
    """1,620."""
    return f"{value:,}"


def counted(value: int, noun: str, several: str = "") -> str:
    """1 trial; 2 trials."""
    return f"{count(value)} {noun if value == 1 else several or noun + 's'}"


def points(share: float) -> str:
    """A share in percent without the sign: 92.5, 1.46, <0.01; exact at 0 and 100 only."""
    percent = 100 * share
    if percent in (0, 100):
        return f"{percent:.0f}"
    if percent < 0.005:
        return "<0.01"
    if percent >= 99.995:
        return ">99.99"
    return f"{percent:.1f}" if 10 <= percent < 99 else f"{percent:.2f}"


def percent(share: float) -> str:
    """92.5 %."""
    return f"{points(share)}\u00a0%"


def level(share: float) -> str:
    """A confidence or a level, which is a round number: 95 %."""
    return f"{100 * share:.3g}\u00a0%"


def interval(ends: Sequence[float]) -> str:
    """0.23 to 4.66 %."""
    return f"{points(ends[0])} to {percent(ends[1])}"


def decimal(value: Any) -> str:
    """A metric or a change: 0.0671, 3.5e+37, not a number."""
    known = number(value)
    if known is None:
        return "none"
    if math.isnan(known):
        return "NaN"
    if math.isinf(known):
        return "infinite" if known > 0 else "-infinite"
    if known == 0 or 1e-4 <= abs(known) < 1e6:
        return f"{known:.4f}".rstrip("0").rstrip(".") if known != int(known) else f"{known:.0f}"
    return f"{known:.2e}"


def metric(value: Any) -> str:
    """A metric with four decimals: 0.0670."""
    known = number(value)
    return f"{known:.4f}" if known is not None and abs(known) < 1e6 else decimal(value)


def margin(share: float) -> str:
    """1 point; 2.5 points."""
    return f"{100 * share:g} point{'' if share == 0.01 else 's'}"


def p_value(value: Any) -> str:
    """As `bitrift compare` prints it."""
    known = number(value)
    if known is None:
        return "none"
    return "below 0.0001" if known < 1e-4 else f"{known:.4f}"


def listed(words: Iterable[str]) -> str:
    """A, b and c. At least one."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def duration(seconds: float) -> str:
    """38 s; 12 min; 3.4 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def time(text: str) -> str:
    """2026-01-31 12:00 UTC, of ISO 8601."""
    return f"{text[:10]} {text[11:16]} UTC" if len(text) >= 16 else text


def command(words: Sequence[str]) -> str:
    """For a shell."""
    return shlex.join(words)


def change(metric: str, better: str, value: float) -> tuple[str, str]:
    """A change for the worse: its direction, and its size in points, percent or the metric's own unit."""
    direction = "falls" if better == "higher" else "rises"
    if metric not in METRIC_NAMES:
        return direction, f"{value:.3g}"
    return direction, f"{100 * value:.2f} points" if better == "higher" else f"{100 * value:.1f}\u00a0%"


def resolution(metric: str, better: str, value: Any) -> str:
    """What a campaign cannot see of a metric."""
    known = number(value)
    name = METRIC_NAMES.get(metric, metric)
    if known is None:
        return f"no change of {name} would be called SDC"
    direction, size = change(metric, better, known)
    return f"{direction} of {name} below {size}"
