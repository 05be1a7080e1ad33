#!/usr/bin/env python3
"""What `bitrift verify` notices and `bitrift repair` puts right, over formats and kinds of damage (docs/repair.md).

    python studies/repair_flips.py [--trials 1000] [--seed 1] [--format NAME]... [--damage NAME]...

Damages a file of each format `--trials` times in each way, at random places among the bytes that its sums cover, and
prints how often the damage was noticed, repaired to the byte, repaired to something else, or refused, with intervals
of 95 % (Clopper and Pearson). Needs the Python package: PYTHONPATH=build/release/python.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import bitrift
from bitrift.program import program

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e" / "integrity"))
from summed_files import WRITERS, covered  # noqa: E402

TRAINING = {
    "model": {"name": "mlp", "hidden": [32]},
    "data": {"name": "digits"},
    "optimizer": {"name": "adam", "learning_rate": 0.003},
    "batch_size": 64,
    "epochs": 1,
    "seed": 1,
}


def trained(name: str) -> Callable[[Path], None]:
    """Writes a checkpoint of bitrift-train in one of its formats."""

    def write(path: Path) -> None:
        spec = path.with_suffix(".json")
        spec.write_text(json.dumps(TRAINING))
        command = [program("bitrift-train"), "train", spec, "-o", path, "--format", name]
        subprocess.run(list(map(str, command)), check=True, capture_output=True)

    return write


FORMATS = WRITERS | {f"bitrift {name}": trained(name) for name in ("hdf5", "npz-deflate", "pytorch")}


def some_byte(places: list[tuple[int, int]], draw: random.Random) -> int:
    at = draw.randrange(sum(end - first for first, end in places))
    for first, end in places:
        if at < end - first:
            return first + at
        at -= end - first
    raise AssertionError


def flips(count: int) -> Callable[[bytearray, list[tuple[int, int]], random.Random], None]:
    def damage(content: bytearray, places: list[tuple[int, int]], draw: random.Random) -> None:
        for _ in range(count):
            content[some_byte(places, draw)] ^= 1 << draw.randrange(8)

    return damage


def pair(content: bytearray, places: list[tuple[int, int]], draw: random.Random) -> None:
    """Two bits in one word of four bytes, counted from the beginning of the part."""
    first, end = draw.choices(places, [end - first for first, end in places])[0]
    word = first + (draw.randrange(end - first) // 4) * 4
    for bit in draw.sample(range(8 * min(4, end - word)), 2):
        content[word + bit // 8] ^= 1 << bit % 8


def block(size: int, fill: bool) -> Callable[[bytearray, list[tuple[int, int]], random.Random], None]:
    def damage(content: bytearray, places: list[tuple[int, int]], draw: random.Random) -> None:
        first, end = max(places, key=lambda place: place[1] - place[0])
        at = first + draw.randrange(max(1, end - first - size))
        stop = min(end, at + size)
        content[at:stop] = bytes(stop - at) if fill else draw.randbytes(stop - at)

    return damage


DAMAGE = {
    "one flip": flips(1),
    "two flips in a word": pair,
    "two flips anywhere": flips(2),
    "three flips anywhere": flips(3),
    "16 random bytes": block(16, False),
    "512 zeros": block(512, True),
}


def places_of(path: Path) -> list[tuple[int, int]]:
    found = bitrift.verify(path)
    if found.format == "hdf5" and any(part.sum == "CRC-32C" for part in found.parts):
        tensors = {one.path: one for one in bitrift.list_tensors(path)}
        names = [part.part.removeprefix("values of ") for part in found.parts if part.sum == "CRC-32C"]
        here = [(tensors[name].offset, tensors[name].stored_bytes) for name in names]
        return [(offset, offset + size) for offset, size in here if offset is not None]
    return covered(path)


def outcome(path: Path, content: bytes, damaged: bytes, out: Path) -> str:
    """A copy whose tensors are right counts as repaired: some bits of deflated data decode to nothing."""
    path.write_bytes(damaged)
    if bitrift.verify(path).sound:
        return "missed"
    try:
        bitrift.repair(path, out)
    except bitrift.Error:
        return "refused"
    if out.read_bytes() == content:
        return "repaired"
    path.write_bytes(content)
    return "wrong" if bitrift.diff(path, out) else "repaired"


def share(count: int, of: int) -> str:
    low, high = bitrift.clopper_pearson(count, of)
    return f"{100 * count / of:.2f} % ({100 * low:.2f} to {100 * high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", action="append", choices=FORMATS)
    parser.add_argument("--damage", action="append", choices=DAMAGE)
    options = parser.parse_args()
    print("| damage | format | trials | missed | repaired | wrong | refused |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for damage in options.damage or DAMAGE:
            total: Counter[str] = Counter()
            for name in options.format or FORMATS:
                path, out = Path(folder) / "file", Path(folder) / "out"
                FORMATS[name](path)
                content, places = path.read_bytes(), places_of(path)
                draw, counts = random.Random(f"{options.seed} {damage} {name}"), Counter[str]()
                for _ in range(options.trials):
                    damaged = bytearray(content)
                    while damaged == content:
                        DAMAGE[damage](damaged, places, draw)
                    counts[outcome(path, content, bytes(damaged), out)] += 1
                total += counts
                words = [str(counts[one]) for one in ("missed", "repaired", "wrong", "refused")]
                print(f"| {damage} | {name} | {options.trials} | {' | '.join(words)} |", flush=True)
            runs = total.total()
            words = [share(total[one], runs) for one in ("missed", "repaired", "wrong", "refused")]
            print(f"| **{damage}** | all | {runs} | {' | '.join(words)} |", flush=True)


if __name__ == "__main__":
    main()
