#!/usr/bin/env python3
"""Whole-process time and memory of injections, beside the same work done by h5py, by plain C and by cp.

All flip bit 20 of float32 values; the million of flips is drawn from all bits by `bitrift --ber`. `bitrift inject
--in-place` also takes a lock, writes an undo journal, syncs both and reads back what it wrote; the others only flip.
Files are in the page cache, competitors take turns, and `bitrift undo` runs between, untimed.

python bench/inject.py [--mib N] [--repetitions N] [--folder DIR] [CASE...]

  --mib N          size of each file; default: 1024
  --repetitions N  default: 9; a third of that where a run takes seconds
  --folder DIR     where the files lie; default: a temporary folder. Needs four times the size, and gives it back
  CASE             one, tensors, gzip, million, copy; default: all
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import bitrift, compare, helper, make_checkpoint, run

SCRIPT = str(Path(__file__).with_name("flip_h5py.py"))
CHUNK = 1 << 16  # values: 256 KiB
Command = Callable[[int], list[str]]


class Bench:
    """Where the files lie, how large they are, how often a command is run."""

    def __init__(self, folder: Path, mib: int, repetitions: int) -> None:
        self.folder, self.mib, self.repetitions = folder, mib, repetitions
        self.measure = helper("bench_measure")

    def file(self, name: str, tensors: int, chunk: int | None = None) -> Path:
        path = self.folder / name
        if not path.exists():
            make_checkpoint(path, tensors, self.mib * 2**18 // tensors, chunk)
            os.sync()
        return path

    def compare(self, title: str, commands: dict[str, Command], restore: dict[str, Callable[[], object]]) -> None:
        slow = "gzip" in title or "million" in title
        repetitions = max(1, self.repetitions // 3) if slow else self.repetitions
        compare(f"{title}, {self.mib} MiB", commands, repetitions, restore, self.measure)

    def one(self) -> None:
        file = self.file("one.h5", 1)
        commands = {
            "bitrift": in_place(file, "--bits", 20, "--count", 1),
            "C, H5Dget_offset and pwrite": plain(file, 1, 1),
            "h5py, element by element": h5py("elements", file, 1),
        }
        self.compare("one flip, one contiguous tensor", commands, {"bitrift": undo(file)})

    def tensors(self) -> None:
        file = self.file("tensors.h5", 100)
        commands = {
            "bitrift": in_place(file, "--bits", 20, "--count", 1000),
            "C, H5Dget_offset and pwrite": plain(file, 1000, 100),
            "h5py, element by element": h5py("elements", file, 1000),
        }
        # No one pays for what another left to write.
        undone = undo(file)

        def undo_and_sync() -> None:
            undone()
            os.sync()

        restore: dict[str, Callable[[], object]] = dict.fromkeys(commands, os.sync)
        self.compare("1,000 flips, 100 contiguous tensors", commands, restore | {"bitrift": undo_and_sync})

    def gzip(self) -> None:
        file = self.file("gzip.h5", 16, CHUNK)
        other = self.folder / "gzip-h5py.h5"  # it grows by what it moves
        shutil.copyfile(file, other)
        commands = {
            "bitrift, in place": in_place(file, "--bits", 20, "--count", 1000),
            "h5py, element by element": h5py("elements", other, 1000),
            "h5py, chunk by chunk": h5py("chunks", other, 1000),
        }
        self.compare("1,000 flips, gzip chunks", commands, {"bitrift, in place": undo(file)})
        file.unlink()
        other.unlink()

    def million(self) -> None:
        file = self.file("tensors.h5", 100)
        million = in_place(file, "--ber", 1e6 / (self.mib * 2**23))
        manifest = str(self.folder / "manifest.json")
        commands: dict[str, Command] = {
            "bitrift": million,
            "bitrift, --manifest": lambda seed: [*million(seed), "--manifest", manifest],
            "bitrift, --compact-manifest": lambda seed: [*million(seed), "--manifest", manifest, "--compact-manifest"],
            "h5py, vectorised, whole datasets": h5py("datasets", file, 1_000_000),
        }
        back = undo(file)
        self.compare(
            "a million flips, 100 contiguous tensors", commands, {name: back for name in commands if name[0] == "b"}
        )

    def copy(self) -> None:
        file, out = self.file("tensors.h5", 100), self.folder / "out.h5"
        inject = [bitrift(), "inject", str(file), "-o", str(out), "--bits", "20", "--count", "1000"]

        def clear() -> None:
            out.unlink()
            os.sync()  # no one pays for what another left to write

        commands: dict[str, Command] = {
            "cp, sync": lambda _: ["sh", "-c", 'cp "$1" "$2" && sync "$2"', "sh", str(file), str(out)],
            "cp": lambda _: ["cp", str(file), str(out)],
            "bitrift -o, 1,000 flips": lambda seed: [*inject, "--seed", str(seed)],
        }
        self.compare("a copy", commands, dict.fromkeys(commands, clear))


def in_place(file: Path, *options: object) -> Command:
    return lambda seed: [bitrift(), "inject", str(file), "--in-place", *map(str, options), "--seed", str(seed)]


def h5py(how: str, file: Path, count: int) -> Command:
    return lambda seed: [sys.executable, SCRIPT, how, str(file), str(count), str(seed)]


def plain(file: Path, count: int, tensors: int) -> Command:
    program, names = str(helper("bench_plain_flip")), [f"model/layer{index}.weight" for index in range(tensors)]
    return lambda seed: [program, str(file), str(count), str(seed), *names]


def undo(file: Path) -> Callable[[], object]:
    return lambda: run([bitrift(), "undo", str(file)])


CASES = {"one": Bench.one, "tensors": Bench.tensors, "gzip": Bench.gzip, "million": Bench.million, "copy": Bench.copy}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("cases", metavar="CASE", nargs="*", choices=[*CASES, []])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        needed, free = 4 * options.mib * 2**20, shutil.disk_usage(folder).free
        if needed > free:
            raise SystemExit(
                f"{folder}: {needed / 1e9:.1f} GB are needed, {free / 1e9:.1f} are free: --folder or --mib"
            )
        print(f"files in {folder}: up to {needed / 1e9:.1f} GB, removed at the end")
        bench = Bench(Path(folder), options.mib, options.repetitions)
        for name in options.cases or CASES:
            CASES[name](bench)


if __name__ == "__main__":
    main()
