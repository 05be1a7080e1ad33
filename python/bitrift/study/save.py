"""Writes a checkpoint in a native format: `python -m bitrift.study.save BASE.h5 FORMAT PATH`.

The part `kill` of `bitrift-train checkpoint-study` starts it for libraries that do not work in a forked process. It
stops itself before it writes; the study lets it continue.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from bitrift.study.formats import FORMATS, read_state, warm_up


def main(words: Sequence[str] | None = None) -> None:
    """Parses a command line, stops, and writes."""
    base, form, path = sys.argv[1:] if words is None else words
    warm_up([form])
    state = read_state(Path(base))
    os.kill(os.getpid(), signal.SIGSTOP)
    FORMATS[form].write(state, Path(path))


if __name__ == "__main__":
    main()
