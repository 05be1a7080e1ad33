#!/usr/bin/env python3
"""10,000 trials of the quickstart campaign in one start: does the driver stay small, quick and steady?

    python studies/long_campaign.py [TRIALS] [--arms 1] [--workers 1] [--keep DIR]

Prints the driver's resident memory on the way and at its highest, the time that `campaign status` takes to read the
journal, and the throughput of the last thousand trials against that of the first: of those that ran to their end, which
all cost the same (`worker.early_end: false`). Biases hold too few bits for so many draws; weights and momentum fill up.
Needs cores that do nothing else; the same by processor time, of the driver and of all it started, which other programs
hardly disturb, is printed beside it.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "e2e" / "campaign"))

from campaign_support import BIN, CONTROLS, PREPARATION_PER_ARM, Driver, journal_lines

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROLES = ["weight", "momentum"]
CELLS = 6
PREPARATION = 3 * PREPARATION_PER_ARM + 15  # rows before the first trial, and some more


def memory(pid: int, key: str) -> int:
    """Bytes by /proc/PID/status; 0 when the process is gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(key + ":")), 0)


def processor_time(pids: list[int]) -> float:
    """Seconds in user and system mode by /proc/PID/stat; processes that are gone count nothing."""
    total = 0
    for pid in pids:
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass
class Watched:
    """What was seen while a campaign ran."""

    most: int = 0  # bytes that the driver ever held
    samples: list[tuple[int, float, float]] = dataclasses.field(default_factory=list)  # rows, driver's s, all ranks' s

    def cost(self, low: int, high: int, which: int) -> float:
        """Processor time per row between two numbers of rows, by the samples next to them."""
        inside = [sample for sample in self.samples if low <= sample[0] <= high]
        (rows, *start), (more, *end) = inside[0], inside[-1]
        return (end[which] - start[which]) / (more - rows)


def watch(driver: Driver, folder: pathlib.Path) -> Watched:
    """Prints the driver's memory as the journal grows."""
    seen, next_lines = Watched(), 0
    while driver.process.poll() is None:
        seen.most = max(seen.most, memory(driver.process.pid, "VmHWM"))
        lines = journal_lines(folder)
        if ranks := driver.ranks():  # at the end they are gone, and their time with them
            seen.samples.append((lines, processor_time([driver.process.pid]), processor_time(ranks)))
        if lines >= next_lines:
            print(f"{lines:>7} rows: driver holds {memory(driver.process.pid, 'VmRSS') / 2**20:6.1f} MiB", flush=True)
            next_lines = lines + 1000
        time.sleep(0.5)
    return seen


def full_trials(folder: pathlib.Path) -> list[float]:
    """Seconds from the start of each trial that ran to its end to the start of the next one, in the order of starts."""
    rows = [json.loads(line)["row"] for line in (folder / "trials.jsonl").read_bytes().splitlines()]
    trials = []
    for row in rows:
        if row["kind"] == "trial":
            start = datetime.datetime.fromisoformat(row["volatile"]["started"]).timestamp()
            trials.append((start, row.get("result", {}).get("status") == "done"))
    trials.sort()
    return [following[0] - one[0] for one, following in itertools.pairwise(trials) if one[1]]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("trials", type=int, nargs="?", default=10_000)
    parser.add_argument("--arms", type=int, default=1, choices=(1, 2, 3), help="of the quickstart's, from the first")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="run there and leave everything")
    options = parser.parse_args()
    spec = json.loads((ROOT / "campaigns" / "quickstart.json").read_text())
    spec["arms"] = spec["arms"][: options.arms]
    spec["trials_per_stratum"] = -(-options.trials // (CELLS * options.arms))
    spec["strata"]["roles"] = ROLES
    spec["controls"] = CONTROLS
    spec["worker"] = {"early_end": False}
    with tempfile.TemporaryDirectory() as temporary:
        place = options.keep or pathlib.Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        (place / "spec.json").write_text(json.dumps(spec))
        folder = place / "campaign"
        began = time.monotonic()
        driver = Driver("run", place / "spec.json", "-o", folder, "--workers", options.workers)
        seen = watch(driver, folder)
        done = driver.finish()
        assert done.returncode == 0, done.stderr
        spent = time.monotonic() - began
        seconds = []
        for _ in range(5):
            start = time.monotonic()
            subprocess.run([BIN / "bitrift", "campaign", "status", folder], check=True, stdout=subprocess.DEVNULL)
            seconds.append(time.monotonic() - start)
        size = (folder / "trials.jsonl").stat().st_size
        trials = full_trials(folder)
        part = min(1000, len(trials) // 3)
        first, last = part / sum(trials[:part]), part / sum(trials[-part:])
        print(f"{journal_lines(folder)} rows in {spent:.0f} s; journal {size / 2**20:.1f} MiB")
        print(f"driver's memory at its highest: {seen.most / 2**20:.1f} MiB (limit 100)")
        print(f"journal opened and counted in {statistics.median(seconds):.2f} s (limit 1)")
        print(f"first {part} full trials: {first:.1f} a second, last {part}: {last:.1f}")
        print(f"ratio {last / first:.3f} (at least 0.95)")
        lines = journal_lines(folder)
        for which, name in enumerate(("driver", "ranks")):
            early = seen.cost(PREPARATION, PREPARATION + part, which)
            late = seen.cost(lines - part, lines, which)
            print(f"processor time a row, {name}: {early * 1e3:.2f} ms first, {late * 1e3:.2f} ms last")


if __name__ == "__main__":
    main()
