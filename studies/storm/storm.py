#!/usr/bin/env python3
"""A training in a storm of faults: how much of the time is useful, and does it end in the same file?

    python studies/storm/storm.py [--minutes 30] [--every 30] [--recoveries respawn,restart,relaunch] [--seed 1]
                                  [--beside torchrun,torchft]

Trains a LeNet on four ranks for a fixed number of steps, which take --minutes when nobody disturbs them, and again
under each recovery while faults strike a random rank from outside, at exponential times with a mean of --every seconds:
SIGKILL, SIGSTOP for ever (noticed after two seconds), or SIGSTOP for half a second, in equal shares. Goodput is the
undisturbed time divided by the disturbed one: the undisturbed training runs before and after, and their mean counts.

Recovery `expand` is shrink with --expand-after 200.

--beside: PyTorch's DistributedDataParallel trains the same model under the same kinds of faults, at moments from the
same seed. Under torchrun it saves every 200 steps, and a collective call that takes longer than two seconds ends its
worker. Under torchft (heartbeats every 100 ms, lost after 500 ms), the study starts a rank again that has ended or has
been stopped for two seconds. Each is ended after five times --minutes.

Prints a table. Exit code 1 when a file differs or a run fails. BITRIFT_BIN_DIR names the folder of bitrift-train.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "e2e" / "train"))

from failure_support import RECOVERIES, Bases, Ended, Watched, digest, ranks_of
from faults import NEVER, Storm
from rivals import EVERY, HANG, RANKS, Rival, row_of, torchft, torchrun
from train_support import run

ALL = {
    **RECOVERIES,
    "expand": ("--on-failure", "shrink", "--expand-after", str(EVERY)),
    "relaunch": ("--on-failure", "relaunch", "--checkpoint-every", str(EVERY)),
}
RIVALS: dict[str, Rival] = {"torchrun": torchrun, "torchft": torchft}


def train(words: tuple[object, ...], every: float, seed: int) -> tuple[Ended, Storm]:
    """A run under faults."""
    with tempfile.TemporaryDirectory(prefix="bw-", ignore_cleanup_errors=True) as folder:
        job = Watched(words, Path(folder))
        job.line.wait(60)
        storm = Storm(every, seed)
        while job.process.poll() is None:
            storm.look(lambda: ranks_of(job.mark))
            time.sleep(0.02)
        return job.end(10, ()), storm


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--every", type=float, default=30)
    parser.add_argument("--recoveries", default="respawn,restart,relaunch")
    parser.add_argument("--beside", default="")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="bw-") as scratch:
        base, out = Bases(Path(scratch)).file("sgd"), Path(scratch) / "out.h5"
        layout = ("--parallel", "data", "--ranks", RANKS)
        speed = run("resume", base, "-o", out, *layout, "--steps", 1000)["seconds"] / 1000
        steps = max(100, int(60 * options.minutes / speed))
        words = ("resume", base, "-o", out, *layout, "--steps", steps, "--json")

        def quiet() -> float:
            ended, _ = train(words, NEVER, options.seed)
            return ended.ended - ended.began

        undisturbed = [quiet()]
        golden = digest(out)
        disturbed = {}
        for recovery in filter(None, options.recoveries.split(",")):
            out.unlink()
            ended, storm = train((*words, *ALL[recovery], "--detect-hang", HANG), options.every, options.seed)
            same = digest(out) == golden
            if ended.code != 0 or not same:
                wrong += 1
                lines = [line for line in ended.err.splitlines() if "info: epoch" not in line]
                print(f"WRONG {recovery}: exit code {ended.code}, same file: {same}", *lines, sep="\n", flush=True)
            disturbed[recovery] = (ended, storm, same)
        undisturbed.append(quiet())
        mean = sum(undisturbed) / 2
        print(f"{steps} steps; undisturbed {undisturbed[0]:.1f} s before and {undisturbed[1]:.1f} s after")
        print("| recovery | faults (kill, hang, slow) | recoveries | steps redone | samples lost ", end="")
        print("| seconds | goodput | same file |", flush=True)
        for recovery, (ended, storm, same) in disturbed.items():
            known = ended.json()["recoveries"] if ended.code == 0 and '"recoveries"' in ended.out else []
            redone = sum(one["steps_redone"] for one in known)
            seconds = ended.ended - ended.began
            lost = "0" if same else "?"
            print(f"| {recovery} | {storm} | {len(known)} | {redone} | {lost} ", end="")
            print(f"| {seconds:.1f} | {mean / seconds:.3f} | {same} |", flush=True)
        for name in filter(None, options.beside.split(",")):
            spec = base.with_suffix(".json")
            print(row_of(name, RIVALS[name], spec, options.minutes, options.every, options.seed), flush=True)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{os.cpu_count()} cores, load average {load}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
