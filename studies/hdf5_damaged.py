#!/usr/bin/env python3
"""Flips bits of two sound files, and counts what libhdf5 and bitrift make of them.

    python studies/hdf5_damaged.py [COPIES] [--seed S]

COPIES (default: 2500) of a file in the oldest and of one in the newest format get one to four flipped bits each.
h5py reads every dataset and attribute of a copy in a process of its own, with 10 seconds and 4 GiB; `bitrift ls` lists
it. Set BITRIFT_BIN_DIR to the folder of `bitrift`. Exit codes: 0 bitrift lists or refuses every copy; 1 it does not.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np

SECONDS, MEMORY, MOST_ELEMENTS = 10, 4 << 30, 1_000_000


def make(path: Path, libver: str) -> bytes:
    """A small file with the usual kinds of datasets."""
    with h5py.File(path, "w", libver=libver) as file:
        file["group/plain"] = np.arange(20, dtype="f4")
        file["group/plain"].attrs["numbers"] = np.arange(4)
        file.create_dataset("gzip", data=np.arange(100, dtype="i4"), chunks=(9,), compression="gzip")
        file.create_dataset("scaled", data=np.arange(64, dtype="i4"), chunks=(16,), scaleoffset=0)
        file.create_dataset("grows", data=np.ones((5, 5)), maxshape=(None, None), chunks=(2, 2))
        file.create_dataset("enum", (4,), dtype=h5py.enum_dtype({"a": 0, "b": 1}))
        file["texts"] = ["one", "two"]
        file["pairs"] = np.zeros(3, [("x", "f4"), ("y", "i2", (3,))])
        file["link"] = h5py.SoftLink("/group")
        file.attrs["text"] = "of the root"
    return path.read_bytes()


def read_all(path: Path) -> None:
    """Every value that h5py gives; what it refuses is left out."""

    def read(_: str, item: h5py.Group | h5py.Dataset) -> None:
        for key in item.attrs:
            with suppress(Exception):
                item.attrs[key]
        with suppress(Exception):
            if isinstance(item, h5py.Dataset) and item.size < MOST_ELEMENTS:
                item[()]

    with suppress(Exception), h5py.File(path) as file:
        read("", file)
        file.visititems(read)


def by_libhdf5(path: Path) -> str:
    """The signal that ends a process which reads the file; SIGALRM: it took too long."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        read_all(path)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "reads or refuses it"


def by_bitrift(path: Path) -> str:
    command = [Path(os.environ["BITRIFT_BIN_DIR"]).resolve() / "bitrift", "ls", path]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, errors="replace")
    except subprocess.TimeoutExpired:
        return "hangs"
    if done.returncode == 0:
        return "lists it"
    refused = done.returncode == 2 and not done.stdout and done.stderr.count("\n") == 1
    return "refuses it" if refused else f"ends with {done.returncode}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("copies", type=int, nargs="?", default=2500, help="of each file (default: 2500)")
    parser.add_argument("--seed", type=int, default=7, help="of the flips (default: 7)")
    options = parser.parse_args()
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="hdf5-damaged-") as folder:
        path = Path(folder) / "file.h5"
        for libver in ("earliest", "latest"):
            sound = make(path, libver)
            generator = np.random.default_rng(options.seed)
            for _ in range(options.copies):
                data = bytearray(sound)
                for _ in range(generator.integers(1, 5)):
                    data[generator.integers(len(data))] ^= 1 << int(generator.integers(8))
                path.write_bytes(data)
                seen[f"{libver}: libhdf5 {by_libhdf5(path)}"] += 1
                seen[f"{libver}: bitrift {by_bitrift(path)}"] += 1
    print(f"HDF5 {h5py.version.hdf5_version} of h5py {h5py.version.version}, seed {options.seed}")
    for name, count in sorted(seen.items()):
        print(f"{count:8}  {name}")
    return 1 if any(" ends with " in name or " hangs" in name for name in seen) else 0


if __name__ == "__main__":
    sys.exit(main())
