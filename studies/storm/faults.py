"""Faults at exponential times, from outside."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable

KINDS = ("kill", "hang", "slow")
SLOW = 0.5  # seconds
NEVER = 1e12  # seconds


class Storm:
    """Faults in random ranks from now on: SIGKILL, SIGSTOP for ever or for SLOW. every: mean seconds between them."""

    def __init__(self, every: float, seed: int) -> None:
        self._chance, self._every = random.Random(seed), every
        self._counts = dict.fromkeys(KINDS, 0)
        self._due = time.monotonic() + self._chance.expovariate(1 / every)

    def look(self, ranks: Callable[[], dict[int, int]]) -> None:
        """Strikes if it is time. ranks: finds the process of each."""
        if time.monotonic() < self._due:
            return
        kind = self._chance.choice(KINDS)
        self._counts[kind] += self._strike(ranks(), kind)
        self._due += self._chance.expovariate(1 / self._every)

    def _strike(self, ranks: dict[int, int], kind: str) -> bool:
        if not ranks:
            return False
        victim = ranks[self._chance.choice(sorted(ranks))]
        try:
            os.kill(victim, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
            if kind == "slow":
                time.sleep(SLOW)
                os.kill(victim, signal.SIGCONT)
        except ProcessLookupError:
            return False
        return True

    def __str__(self) -> str:
        return ", ".join(str(self._counts[kind]) for kind in KINDS)
