"""What a trial of your own script costs: in a campaign, in a bare loop, and in a process of its own.

    own_trainer.py [--trials 60] [--processes 3]

The script is examples/own-trainer/cnn.py. The bare loop loads, trains an epoch and evaluates in one warm Python
process, and nothing else. The campaign's time is that of its trials, from the start of the first to the end of the
last, on one worker. The process of its own is `python -m bitrift.runner` with the same file. All three run one after
the other, twice, and the faster time of each counts. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import ROOT, bitrift

EXAMPLE = ROOT / "examples" / "own-trainer"
LOOP = """
import sys, time
import bitrift.runner, bitrift.torch, torch
torch.set_num_threads(1)
calls = {}
bitrift.runner.serve = lambda **given: (calls.update(given), sys.stdout.flush(), run())
def run():
    times = []
    for _ in range(int(sys.argv[2])):
        began = time.perf_counter()
        bitrift.torch.load_into("digits.h5", calls["model"], calls["optimizer"])
        calls["train_epoch"]()
        list(map(float, calls["evaluate"]()))
        times.append(time.perf_counter() - began)
    print(sum(times[2:]) / len(times[2:]))
    raise SystemExit
import runpy
runpy.run_path(sys.argv[1])
"""


def python(place: Path, *words: object) -> str:
    """Runs Python in a folder; what it prints."""
    environment = os.environ | {"BITRIFT_DATA_DIR": str(ROOT / "data"), "PYTHONPATH": f"{place}:{package()}"}
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, cwd=place, env=environment, check=True, capture_output=True, text=True).stdout


def package() -> Path:
    """The package of the program under test."""
    return Path(bitrift()).parents[1] / "python"


def bare_loop(place: Path, trials: int) -> float:
    """Seconds of a trial without any harness."""
    return float(python(place, "-c", LOOP, "cnn.py", trials).split()[-1])


def own_process(place: Path, processes: int) -> float:
    """Seconds of a trial that starts Python and PyTorch."""
    began = time.perf_counter()
    for _ in range(processes):
        python(place, "-m", "bitrift.runner", "cnn.py", "--checkpoint", "digits.h5")
    return (time.perf_counter() - began) / processes


def campaign(place: Path, trials: int) -> float:
    """Seconds of a trial of a campaign on one worker."""
    spec = json.loads((EXAMPLE / "campaign.json").read_text())
    spec.pop("$schema")
    spec |= {"strata": {"roles": ["weight"], "fields": ["mantissa"]}, "trials_per_stratum": trials}
    spec["controls"] = {"envelope": 20, "held_out": 4, "jitter": 4}
    (place / "campaign.json").write_text(json.dumps(spec))
    shutil.rmtree(place / "out", ignore_errors=True)
    environment = os.environ | {"BITRIFT_DATA_DIR": str(ROOT / "data"), "BITRIFT_PYTHON": sys.executable}
    command = [bitrift(), "campaign", "run", "campaign.json", "-o", "out", "--workers", "1"]
    subprocess.run(command, cwd=place, env=environment, check=True, capture_output=True)
    rows = [json.loads(line)["row"] for line in (place / "out" / "trials.jsonl").read_text().splitlines()]
    found = [row["volatile"] for row in rows if row["kind"] == "trial"]
    starts = [datetime.datetime.fromisoformat(one["started"].replace("Z", "+00:00")) for one in found]
    last = max(start + datetime.timedelta(seconds=one["seconds"]) for start, one in zip(starts, found, strict=True))
    return (last - min(starts)).total_seconds() / len(found)


def main() -> None:
    """Measures and prints the times and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=60, help="trials of the campaign and of the bare loop")
    parser.add_argument("--processes", type=int, default=3, help="trials in processes of their own")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for file in EXAMPLE.glob("*.py"):
            shutil.copy(file, place)
        python(place, "cnn.py")
        found = [
            (bare_loop(place, options.trials), campaign(place, options.trials), own_process(place, options.processes))
            for _ in range(2)
        ]
    loop, ours, process = (min(times) for times in zip(*found, strict=True))
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    print(f"bare loop            {1e3 * loop:8.1f} ms a trial")
    print(f"campaign             {1e3 * ours:8.1f} ms a trial, {ours / loop:.2f} x the bare loop")
    print(f"process of its own   {1e3 * process:8.1f} ms a trial, {process / ours:.1f} x the campaign")


if __name__ == "__main__":
    main()
