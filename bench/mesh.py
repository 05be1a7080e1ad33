#!/usr/bin/env python3
"""Allreduce by the schedules of `bitrift mesh plan` beside MPI_Allreduce, on 4 to 16 ranks.

python bench/mesh.py [REPETITIONS]     after `cmake --build --preset release --target bench_mesh_allreduce`

All schemes take turns with MPI_Allreduce in one run. With more ranks than cores, the times are those of the machine's
scheduler as much as of the schemes, and only the ratios say something.
"""

from __future__ import annotations

import os
import subprocess
import sys

from bench import helper

# Ranks, mesh and dead chips.
CASES: list[tuple[str, ...]] = [
    ("4", "2x2"),
    ("8", "3x3", "1,1"),
    ("9", "3x3"),
    ("12", "4x4", "1,1,2x2"),
    ("15", "4x4", "0,0"),
    ("16", "4x4"),
]
# As bitrift-train starts its ranks.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_btl": "^ofi",
}


def mpirun() -> str:
    """The one that the programs were built with, or that BITRIFT_MPIRUN names."""
    cache = (helper("bench_mesh_allreduce").resolve().parents[1] / "CMakeCache.txt").read_text()
    named = next(line for line in cache.splitlines() if line.startswith("MPIEXEC_EXECUTABLE:"))
    return os.environ.get("BITRIFT_MPIRUN") or named.split("=", 1)[1]


def main() -> None:
    repetitions = sys.argv[1] if len(sys.argv) > 1 else "15"
    program = str(helper("bench_mesh_allreduce"))
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}", flush=True)
    for ranks, mesh, *dead in CASES:
        command = [mpirun(), "--oversubscribe", "--bind-to", "none", "-n", ranks, program, repetitions, mesh, *dead]
        subprocess.run(command, check=True, env=os.environ | ENVIRONMENT)


if __name__ == "__main__":
    main()
