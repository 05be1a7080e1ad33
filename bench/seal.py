#!/usr/bin/env python3
"""Time of `bitrift seal`, and of `verify` and `repair` with a seal, beside reading, copying and par2.

python bench/seal.py [REPETITIONS] [MEGABYTES]

The file is in the page cache. Without par2 (Debian: par2), its rows are left out: with 1 % of
parity, it cuts a file into 2000 blocks, or into 32768 at most.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from verify import READ

from bench import bitrift, compare


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    megabytes = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "model.safetensors"
        save_file({f"layer{i}.weight": torch.randn(megabytes * 12_500) for i in range(20)}, file)
        commands = {
            "bitrift seal": lambda _: [bitrift(), "seal", str(file), "--force", "--unchecked"],
            "bitrift seal --percent 5": lambda _: [bitrift(), "seal", str(file), "--force", "--percent", "5"],
            "read the file": lambda _: [sys.executable, "-c", READ, str(file)],
            "cp": lambda run: ["cp", str(file), str(folder / "copy")],
        }
        if program := shutil.which("par2"):
            par2 = [program, "create", "-q", "-q", "-r1", "-n1"]
            commands["par2 create"] = lambda run: [*par2, str(folder / f"p{run}"), str(file)]
            commands["par2 create -b32768"] = lambda run: [*par2, "-b32768", str(folder / f"many{run}"), str(file)]
        compare(f"seal {megabytes} MB", commands, repetitions)
        for left in [*folder.glob("p*"), *folder.glob("many*")]:
            left.unlink()
        commands = {
            "bitrift verify": lambda _: [bitrift(), "verify", str(file)],
            "read the file": lambda _: [sys.executable, "-c", READ, str(file)],
        }
        compare(f"verify {megabytes} MB with its seal", commands, repetitions)
        hurt = folder / "hurt.safetensors"
        shutil.copy(file, hurt)
        shutil.copy(f"{file}.seal", f"{hurt}.seal")
        with hurt.open("r+b") as damaged:
            damaged.seek(megabytes * 300_000)
            damaged.write(bytes(megabytes * 9_000))
        commands = {
            "bitrift repair of 0.9 % in a row": lambda _: [bitrift(), "repair", str(hurt), "-o", str(folder / "out")],
            "cp": lambda run: ["cp", str(file), str(folder / "copy")],
        }
        compare(f"repair {megabytes} MB", commands, repetitions)


if __name__ == "__main__":
    main()
