#!/usr/bin/env python3
"""What a seal notices and restores, over formats and kinds of damage, beside the sums alone (docs/repair.md).

    python studies/seal_damage.py [--trials 200] [--percent 1] [--seed 1] [--format NAME]... [--damage NAME]...

Damages a checkpoint of each format `--trials` times in each way, at random places among all its bytes, and prints how
often the damage was noticed, repaired to the byte, repaired to something else, or refused, with intervals of 95 %
(Clopper and Pearson): with its seal, and without one. Needs the Python package: PYTHONPATH=build/release/python.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import bitrift
import h5py
import numpy as np
import torch
import torch.distributed.checkpoint as dcp
from repair_flips import share
from safetensors.torch import save_file

PAGE = 4096


def tensors() -> dict[str, torch.Tensor]:
    """About 3 MB."""
    torch.manual_seed(1)
    return {f"layer{i}.weight": torch.randn(256, 256) for i in range(12)}


def save_torch(path: Path) -> None:
    torch.save({"model": tensors(), "epoch": 3}, path)


def save_npz(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, **{name: values.numpy() for name, values in tensors().items()})


def save_hdf5(**options: object) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with h5py.File(path, "w") as file:
            for name, values in tensors().items():
                file.create_dataset(name, data=values.numpy(), **options)

    return write


def save_distributed(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(tensors(), checkpoint_id=path)


FORMATS: dict[str, Callable[[Path], None]] = {
    "torch.save": save_torch,
    "npz": save_npz,
    "safetensors": lambda path: save_file(tensors(), path),
    "HDF5": save_hdf5(),
    "HDF5, fletcher32": save_hdf5(chunks=(64, 64), fletcher32=True),
    "DCP": save_distributed,
}

Damage = Callable[[bytearray, random.Random], None]


def flips(count: int) -> Damage:
    def damage(content: bytearray, draw: random.Random) -> None:
        for _ in range(count):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)

    return damage


def burst(size: int) -> Damage:
    def damage(content: bytearray, draw: random.Random) -> None:
        at = draw.randrange(len(content))
        content[at : at + size] = draw.randbytes(len(content[at : at + size]))

    return damage


def zeroed_page(content: bytearray, draw: random.Random) -> None:
    at = draw.randrange(-(-len(content) // PAGE)) * PAGE
    content[at : at + PAGE] = bytes(len(content[at : at + PAGE]))


def torn(content: bytearray, draw: random.Random) -> None:
    """A write of 16 KiB of which only the first sectors reached the disk: the rest is another file's."""
    at = draw.randrange(-(-len(content) // (4 * PAGE))) * 4 * PAGE
    first = at + draw.randrange(32) * 512
    end = min(at + 4 * PAGE, len(content))
    content[first:end] = draw.randbytes(max(0, end - first))


def lost(share: float) -> Damage:
    def damage(content: bytearray, draw: random.Random) -> None:
        size = int(share * len(content))
        at = draw.randrange(len(content) - size)
        content[at : at + size] = bytes(size)

    return damage


DAMAGE: dict[str, Damage] = {
    "one flip": flips(1),
    "three flips": flips(3),
    "ten flips": flips(10),
    "100 random bytes": burst(100),
    "a zeroed page": zeroed_page,
    "a torn write": torn,
    "0.5 % zeroed in a row": lost(0.005),
    "5 % zeroed in a row": lost(0.05),
}


def files_of(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(one for one in path.iterdir() if one.is_file())


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def outcome(path: Path, contents: list[bytes], out: Path) -> str:
    if bitrift.verify(path).sound:
        return "missed"
    try:
        bitrift.repair(path, out)
    except bitrift.Error:
        return "refused"
    same = [one.read_bytes() for one in files_of(out)] == contents
    remove(out)
    return "repaired" if same else "wrong"


def damaged(contents: list[bytes], damage: Damage, draw: random.Random) -> list[bytes]:
    """The files one after the other, as if they were one."""
    whole = b"".join(contents)
    changed = bytearray(whole)
    while changed == whole:
        damage(changed, draw)
    pieces, at = [], 0
    for content in contents:
        pieces.append(bytes(changed[at : at + len(content)]))
        at += len(content)
    return pieces


def outcomes(name: str, damage: str, options: argparse.Namespace, folder: Path) -> tuple[Counter[str], Counter[str]]:
    path, out = folder / "checkpoint", folder / "out"
    FORMATS[name](path)
    bitrift.seal(path, percent=options.percent)
    files = files_of(path)
    seal, aside = folder / "checkpoint.seal", folder / "aside"
    contents = [one.read_bytes() for one in files]
    draw = random.Random(f"{options.seed} {damage} {name}")
    sealed, sums = Counter[str](), Counter[str]()
    for _ in range(options.trials):
        for file, content in zip(files, damaged(contents, DAMAGE[damage], draw), strict=True):
            file.write_bytes(content)
        sealed[outcome(path, contents, out)] += 1
        seal.rename(aside)
        try:
            sums[outcome(path, contents, out)] += 1
        except bitrift.Error:  # not even a checkpoint any more
            sums["refused"] += 1
        aside.rename(seal)
    seal.unlink()
    remove(path)
    return sealed, sums


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--percent", type=float, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", action="append", choices=FORMATS)
    parser.add_argument("--damage", action="append", choices=DAMAGE)
    options = parser.parse_args()
    words = ("missed", "repaired", "wrong", "refused")
    print("| damage | format | by | trials | missed | repaired | wrong | refused |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for damage in options.damage or DAMAGE:
            totals = {"seal": Counter[str](), "sums": Counter[str]()}
            for name in options.format or FORMATS:
                found = outcomes(name, damage, options, Path(folder))
                for by, counts in zip(totals, found, strict=True):
                    totals[by] += counts
                    row = " | ".join(str(counts[one]) for one in words)
                    print(f"| {damage} | {name} | {by} | {options.trials} | {row} |", flush=True)
            for by, counts in totals.items():
                row = " | ".join(share(counts[one], counts.total()) for one in words)
                print(f"| **{damage}** | all | {by} | {counts.total()} | {row} |", flush=True)


if __name__ == "__main__":
    main()
