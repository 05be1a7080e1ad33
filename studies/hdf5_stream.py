#!/usr/bin/env python3
"""Compares bitrift's reader with libhdf5 on a stream of random files, which libhdf5 writes.

    python studies/hdf5_stream.py [--seconds 600 | --files N] [--seed S] [--keep DIR] [--json]

File i of the stream comes from seed S + i alone: `--seed T --files 1` makes file T again. A file on which both disagree
stays in DIR, and its seed is printed. Each file is made and compared in a process of its own, because some requests
crash the library while it writes; such a file is counted and left out. Set BITRIFT_BIN_DIR to the folder of `bitrift`.
Exit codes: 0 no divergence; 1 divergences.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import secrets
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

os.environ.pop("HDF5_PLUGIN_PATH", None)  # libhdf5 reads it when it is loaded, and then makes other files of some seeds
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "e2e" / "hdf5"))

from hdf5_compare import Divergence, compare
from random_hdf5 import REFUSED, Maker

T = TypeVar("T")

SECONDS_EACH = 180  # more than a hanging bitrift gets (hdf5_compare.py)
MOST_BYTES = 100 << 20  # libhdf5 can lose its way in files with addresses of 4 bytes


@dataclass
class Result:
    """What was seen in one file."""

    seen: Counter[str] = field(default_factory=Counter)
    divergence: str = ""


def one_file(seed: int) -> Result:
    """Makes and compares file `seed` in the current folder."""
    maker = Maker(Path(f"{seed}.h5"), seed)
    result = Result(maker.seen)
    try:
        maker.make()
    except REFUSED as error:
        return Result(Counter({"not written": 1, f"not written: {str(error)[:80]}": 1}))
    except Exception:
        result.divergence = "the file cannot be made: " + traceback.format_exc(limit=-4)
        return result
    try:
        compare(maker.made.path, seed, maker.seen)
    except Divergence as error:
        result.divergence = str(error)
    except Exception:
        result.divergence = "the comparer failed: " + traceback.format_exc(limit=-4)
    return result


def in_child(work: Callable[[], T], seconds: int) -> T | str:
    """What `work` returns, done in a process that may crash or hang: then the name of the signal that ended it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(seconds)
        resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream_of_text in (1, 2):  # libhdf5 and its plugins print what goes wrong
            os.dup2(nowhere, stream_of_text)
        result = work()
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(result, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    status = os.waitpid(child, 0)[1]
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else pickle.loads(answer)


def stream(first: int, seconds: float, files: int | None, keep: Path) -> tuple[Counter[str], dict[int, str]]:
    """Counts of all files, and what diverged by its seed."""
    seen: Counter[str] = Counter()
    diverged: dict[int, str] = {}
    end = time.monotonic() + seconds
    seed = first
    while seed - first < files if files is not None else time.monotonic() < end:
        with tempfile.TemporaryDirectory(prefix="hdf5-stream-") as folder:
            os.chdir(folder)
            done = in_child(lambda seed=seed: one_file(seed), SECONDS_EACH)
            if isinstance(done, str):
                print(f"seed {seed}: libhdf5 ended the process with {done}", file=sys.stderr, flush=True)
                done = Result(Counter({"libhdf5 crashed": 1, f"libhdf5 crashed: {done}": 1}))
            if done.divergence:
                diverged[seed] = done.divergence
                print(f"seed {seed}: {done.divergence}", file=sys.stderr, flush=True)
                shutil.copytree(folder, keep / str(seed), dirs_exist_ok=True)
            os.chdir("/")
        seen.update(done.seen)
        seed += 1
    seen["files"] = seed - first
    return seen, diverged


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="how long (default: 600)")
    parser.add_argument("--files", type=int, help="how many files, instead of how long")
    parser.add_argument("--seed", type=int, help="of the first file; default: chosen at random")
    parser.add_argument("--keep", type=Path, default=Path("hdf5-stream-found"), help="where files stay that diverge")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    first = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    seen, diverged = stream(first, options.seconds, options.files, options.keep.resolve())
    if options.json:
        print(json.dumps({"seed": first, "seen": seen, "diverged": diverged}))
    else:
        for name, count in sorted(seen.items()):
            print(f"{count:8}  {name}")
        print(f"seed {first}: {len(diverged)} divergences in {seen['files']} files")
        for seed in diverged:
            print(f"run again: python studies/hdf5_stream.py --seed {seed} --files 1")
    return 1 if diverged else 0


if __name__ == "__main__":
    sys.exit(main())
