"""Checkpoints to kill injections on, and what a kill left behind, for test_inject_killed.py."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import inject_support as support
import numpy as np
from inject_support import BITRIFT, undo_ranges

SHIM = Path(os.environ.get("BITRIFT_KILL_SHIM", BITRIFT.parent.parent / "tests/e2e/libkill_at_call.so"))


def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: a kill leaves the same there, and a sync costs nothing."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)


def contiguous(path: Path, elements: int) -> Path:
    support.model_file(path, elements)
    with h5py.File(path, "r+") as file:
        del file["checksum"]
    return path


def with_checksums(path: Path, elements: int) -> Path:
    """Each altered tensor takes its CRC-32C, in a dataset of its own, with it."""
    return support.model_file(path, elements)


def growing(path: Path, elements: int, libver: str = "earliest") -> Path:
    """Chunks of one value, which take more room once they are altered: the file grows."""
    with h5py.File(path, "w", libver=libver) as file:
        for name in ("model/a.weight", "model/b.weight"):
            values = np.ones(elements // 2, "<f4")
            chunks = (max(100, elements // 60),)
            file.create_dataset(name, data=values, chunks=chunks, compression="gzip", shuffle=True)
    return path


def growing_with_sums(path: Path, elements: int) -> Path:
    """The same under an index that has checksums, which follow."""
    return growing(path, elements, "v110")


@dataclass
class Victim:
    """A file, its bytes before and after an injection, and the call that makes the one of the other."""

    path: Path
    before: bytes
    after: bytes
    call: list[str]

    @property
    def journal(self) -> Path:
        return self.path.with_name(self.path.name + ".undo")

    def leftovers(self) -> list[Path]:
        """Journals that were not whole yet when the program was killed."""
        return sorted(self.path.parent.glob(f".{self.path.name}.undo.tmp-*"))

    @property
    def grows(self) -> bool:
        return len(self.after) > len(self.before)

    def put(self, content: bytes, journal: bytes | None) -> None:
        """Makes the file and its journal what they are to be; nothing else is left."""
        self.path.write_bytes(content)
        for other in (self.journal, *self.leftovers()):
            other.unlink(missing_ok=True)
        if journal is not None:
            self.journal.write_bytes(journal)

    def reset(self) -> None:
        self.put(self.before, None)

    def altered(self) -> bytes:
        """Injects; returns the journal."""
        self.reset()
        subprocess.run(self.call, check=True, capture_output=True)
        return self.journal.read_bytes()

    def half_way(self) -> bytes:
        """The bytes of the file in the middle of an injection: all of the tail, and every other range."""
        found = bytearray(self.before + self.after[len(self.before) :])
        for offset, _, new in undo_ranges(self.journal)[::2]:
            found[offset : offset + len(new)] = new
        assert self.before != found != self.after
        return bytes(found)

    def phase(self) -> str:
        """How far a killed injection came; fails on a file that no way of dying explains."""
        now = self.path.read_bytes()
        if not self.journal.exists():
            assert now == self.before, "the file was altered before its journal was there"
            return "journal half-written" if self.leftovers() else "before the journal"
        if now == self.before:
            return "journal written"
        if now == self.after:
            return "all bytes written"
        size = len(self.before)
        assert size <= len(now) <= len(self.after)
        changed = [now[offset : offset + len(new)] != old for offset, old, new in undo_ranges(self.journal)]
        if any(changed):
            return "bytes half-written"
        assert now[:size] == self.before
        return "tail half-written" if len(now) < len(self.after) else "tail written"


def victim(path: Path, *options: object) -> Victim:
    """Injects into a file once, to know what comes out."""
    before = path.read_bytes()
    call = [str(BITRIFT), "inject", str(path), "--in-place", "--seed", "7", *map(str, options)]
    subprocess.run(call, check=True, capture_output=True)
    found = Victim(path, before, path.read_bytes(), call)
    assert found.after != before
    found.reset()
    return found


def run_until(call: list[str], at: int, half: bool) -> str | None:
    """Runs a call, to be killed at its at-th alteration of a file; that alteration, None if it ended before."""
    environment = {**os.environ, "LD_PRELOAD": str(SHIM), "BITRIFT_KILL_AT": str(at)}
    # A sanitizer wants to be the first library otherwise.
    environment["ASAN_OPTIONS"] = environment.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    if half:
        environment["BITRIFT_KILL_HALF"] = "1"
    done = subprocess.run(call, env=environment, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == -9:
        return done.stderr.splitlines()[-1]
    assert done.returncode == 0, (done.returncode, done.stderr)
    return None
