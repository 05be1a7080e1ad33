#!/usr/bin/env python3
"""10,000 trials of the quickstart campaign in one start: does the driver stay small, quick and steady?

    python tests/studies/long_campaign.py [TRIALS] [--arms 1] [--workers 1] [--keep DIR]

Prints the driver's resident memory on the way and at its highest, the time that `campaign status` takes to read the
journal, and the throughput of the last thousand trials against that of the first: of those that ran to their end, which
all cost the same (`worker.early_end: false`). Biases hold too few bits for so many draws; weights and momentum fill up.
Needs cores that do nothing else.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from campaign_support import BIN, Driver, journal_lines

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROLES = ["weight", "momentum"]
CELLS = 6


def memory(pid: int, key: str) -> int:
    """Bytes by /proc/PID/status; 0 when the process is gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(key + ":")), 0)


def watch(driver: Driver, folder: pathlib.Path) -> int:
    """Prints the driver's memory as the journal grows; the most that it ever held."""
    most, next_lines = 0, 0
    while driver.process.poll() is None:
        most = max(most, memory(driver.process.pid, "VmHWM"))
        if (lines := journal_lines(folder)) >= next_lines:
            print(f"{lines:>7} rows: driver holds {memory(driver.process.pid, 'VmRSS') / 2**20:6.1f} MiB", flush=True)
            next_lines = lines + 1000
        time.sleep(0.5)
    return most


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
    spec["worker"] = {"early_end": False}
    with tempfile.TemporaryDirectory() as temporary:
        place = options.keep or pathlib.Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        (place / "spec.json").write_text(json.dumps(spec))
        folder = place / "campaign"
        began = time.monotonic()
        driver = Driver("run", place / "spec.json", "-o", folder, "--workers", options.workers)
        most = watch(driver, folder)
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
        print(f"driver's memory at its highest: {most / 2**20:.1f} MiB (limit 100)")
        print(f"journal opened and counted in {statistics.median(seconds):.2f} s (limit 1)")
        print(f"first {part} full trials: {first:.1f} a second, last {part}: {last:.1f}")
        print(f"ratio {last / first:.3f} (at least 0.95)")


if __name__ == "__main__":
    main()
