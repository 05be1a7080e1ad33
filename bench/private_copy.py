#!/usr/bin/env python3
"""Cost of a private copy of a checkpoint in several files, beside copying its folder.

python bench/private_copy.py [MEGABYTES] [FILES] [RUNS]

MEGABYTES of float32 in FILES safetensors files (default: 2000 in 32). The copies are in memory (/dev/shm), as those of
a campaign are; the base is in the page cache. Needs the target bench_private_copy.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

from bench import bitrift


def main() -> None:
    megabytes, files, runs = (int(word) for word in (*sys.argv[1:], *("2000", "32", "200")[len(sys.argv) - 1 :]))
    program = Path(bitrift()).with_name("bench_private_copy")
    shared = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory() as disk, tempfile.TemporaryDirectory(dir=shared) as memory:
        base = Path(disk) / "base"
        base.mkdir()
        names: dict[str, str] = {}
        for i in range(files):
            name = f"model-{i:05}-of-{files:05}.safetensors"
            tensors = {f"layers.{i}.{j}.weight": torch.randn(megabytes * 250_000 // files // 4) for j in range(4)}
            save_file(tensors, base / name)
            names |= dict.fromkeys(tensors, name)
        (base / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
        done = subprocess.run([program, base, f"{memory}/copy", str(runs)], capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        started = time.perf_counter()
        shutil.copytree(base, f"{memory}/whole")
        whole = time.perf_counter() - started
    print(f"{found['bytes'] / 1e6:.0f} MB in {files} files; {runs} runs with one flip each")
    print(f"make the copy      {1e3 * found['make']:8.2f} ms")
    once = found["own_bytes_at_first"] / 1e6
    print(f"alter and restore  {1e3 * found['first']:8.2f} ms, {once:.1f} MB, in a file for the first time")
    print(f"                   {1e3 * found['later']:8.2f} ms later; {found['own_bytes'] / 1e6:.1f} MB at the end")
    print(f"copy the folder    {1e3 * whole:8.2f} ms, {found['bytes'] / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
