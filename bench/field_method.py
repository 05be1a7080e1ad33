"""Trials an hour of bitrift against the field's method: the same faults, the same losses, the same verdicts.

    field_method.py [--trials 300] [--field-trials 12] [--keep FOLDER]

LeNet on the shipped digits, data-parallel on two ranks, one epoch after the fault. bitrift runs a campaign with
bitrift-train's workers; its rate is that of the trial stage, from the start of the first trial to the end of the last.
The field's method takes some of the same trials, spread over the strata: copy the checkpoint, flip the bit with h5py,
start two ranks of Python's DistributedDataParallel (examples/pytorch-ddp/train.py), load, train, evaluate. Then every
number of both is compared, and `bitrift analyze` judges each trial twice, by either result against the same controls.

Run it on a machine that does nothing else; the load average is printed.
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
from typing import Any

import h5py
import numpy as np

from bench import ROOT, bitrift

Row = dict[str, Any]
EXAMPLE = ROOT / "examples" / "pytorch-ddp" / "train.py"
COMPARED = ("status", "steps", "nonfinite_step", "nonfinite_state", "replicas", "last_loss")


def write_spec(path: Path, trials: int) -> None:
    """The quickstart's study with its data-parallel arm alone; `trials` spread over its strata."""
    spec = json.loads((ROOT / "campaigns" / "quickstart.json").read_text())
    spec.pop("$schema")
    spec["name"] = "field-method"
    spec["arms"] = [{"name": "data-2", "parallel": {"kind": "data", "ranks": 2}}]
    strata = len(spec["strata"]["roles"]) * len(spec["strata"]["fields"])
    spec["trials_per_stratum"] = max(1, trials // strata)
    path.write_text(json.dumps(spec, indent=2))


def read_rows(folder: Path) -> list[Row]:
    return [json.loads(line)["row"] for line in (folder / "trials.jsonl").read_text().splitlines()]


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def line_of(row: Row) -> bytes:
    """A line of a journal (docs/journal.md)."""
    text = json.dumps(row, separators=(",", ":")).encode()
    return b'{"crc32c":"%08x","row":%s}\n' % (crc32c(text), text)


def trials_an_hour(trials: list[Row]) -> tuple[float, float]:
    """Trials an hour of the trial stage, and the mean seconds of a trial."""

    def start(row: Row) -> datetime.datetime:
        return datetime.datetime.fromisoformat(row["volatile"]["started"].replace("Z", "+00:00"))

    end = max(start(row) + datetime.timedelta(seconds=row["volatile"]["seconds"]) for row in trials)
    wall = (end - min(start(row) for row in trials)).total_seconds()
    return 3600 * len(trials) / wall, sum(row["volatile"]["seconds"] for row in trials) / len(trials)


def flip(file: Path, fault: Row) -> None:
    """The bit of a float32 tensor, by h5py."""
    with h5py.File(file, "r+") as h5:
        values = h5[fault["tensor"]][()]
        pattern = values.reshape(-1).view(np.uint32)
        if int(pattern[fault["element"]]) != int(fault["old"], 16):
            raise SystemExit(f"{fault['tensor']}[{fault['element']}] is not what the journal says")
        for bit in fault["bits"]:
            pattern[fault["element"]] ^= np.uint32(1 << bit)
        h5[fault["tensor"]][...] = values


def by_the_field(base: Path, place: Path, faults: list[Row]) -> tuple[dict[str, Any], float]:
    """One trial: the result, and its wall seconds."""
    begin = time.perf_counter()
    file, out = place / "trial.h5", place / "result.json"
    shutil.copy(base, file)
    for fault in faults:
        flip(file, fault)
    command = [sys.executable, EXAMPLE, "--resume", file, "--epochs", "1", "--ranks", "2", "--result", out]
    subprocess.run(list(map(str, command)), check=True)
    return json.loads(out.read_text()), time.perf_counter() - begin


def comparable(result: Row) -> Row:
    """What both programs must agree in, numbers as texts that keep every bit."""

    def exact(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: exact(one) for key, one in value.items()}
        if isinstance(value, list):
            return [exact(one) for one in value]
        return value.hex() if isinstance(value, float) else value

    found: Row = {key: result.get(key) for key in COMPARED}
    if isinstance(found["last_loss"], str) and found["last_loss"]:
        found["last_loss"] = float.fromhex(found["last_loss"])
    numbers = [
        {key: float(value) if key.endswith(("loss", "accuracy")) else value for key, value in evaluation.items()}
        for replica in result["replicas"]
        for evaluation in replica
    ]
    return {key: value for key, value in found.items() if key != "replicas"} | {
        "last_loss": exact(found["last_loss"]),
        "replicas": exact(numbers),
    }


def verdict(campaign: Path, place: Path, row: Row, others: list[Row]) -> str:
    """The reason that `bitrift analyze` gives one trial, judged against the campaign's controls."""
    folder = place / "judged"
    folder.mkdir(exist_ok=True)
    for name in ("campaign.json", "base.h5"):
        shutil.copy(campaign / name, folder)
    # Alone it is the first draw of its stratum: rows after a gap would wait for the others.
    alone = row | {"id": row["id"] | {"draw": 0}}
    (folder / "trials.jsonl").write_bytes(b"".join(map(line_of, [*others, alone])))
    done = subprocess.run([bitrift(), "analyze", folder, "--json"], capture_output=True, text=True, check=True)
    lines = json.loads(done.stdout)["groups"]
    reasons = {reason for line in lines for reason, count in line["reasons"].items() if count}
    if len(reasons) != 1:
        raise SystemExit(f"one trial, {len(reasons)} reasons: {reasons}")
    return reasons.pop()


def as_row(row: Row, found: Row, golden_ours: Row, golden_field: Row) -> Row:
    """The campaign's row with the field's result: digests of two programs differ, so equality with golden counts."""
    equal = found["final_digest"] == golden_field["final_digest"]
    digest = golden_ours["final_digest"] if equal else "0" * 32
    result = {key: value for key, value in row["result"].items() if key not in ("returned_step", *COMPARED)}
    result |= {"nonfinite_state": found["nonfinite_state"], "status": found["status"], "steps": found["steps"]}
    texts = {'"nan"': '"NaN"', '"inf"': '"Infinity"', '"-inf"': '"-Infinity"'}  # the journal's words
    replicas = json.dumps(found["replicas"])
    for text, word in texts.items():
        replicas = replicas.replace(text, word)
    result["replicas"] = json.loads(replicas)
    if "nonfinite_step" in found:
        result["nonfinite_step"] = found["nonfinite_step"]
    result |= {"detail": "", "final_digest": digest, "replica_digests": [digest] * 2, "last_loss": ""}
    return row | {"result": result}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=300, help="of the campaign, spread over nine strata")
    parser.add_argument("--field-trials", type=int, default=12, help="of these, by the field's method")
    parser.add_argument("--keep", type=Path, help="folder of the campaign; by default a temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="field-") as temporary:
        place = Path(temporary)
        campaign = options.keep or place / "campaign"
        write_spec(place / "spec.json", options.trials)
        subprocess.run([bitrift(), "campaign", "run", place / "spec.json", "-o", campaign], check=True)
        rows = read_rows(campaign)
        trials = [row for row in rows if row["kind"] == "trial"]
        others = [row for row in rows if row["kind"] != "trial"]
        golden = next(row["result"] for row in rows if row["id"]["stratum"] == "control")
        rate, seconds = trials_an_hour(trials)
        chosen = trials[:: max(1, len(trials) // options.field_trials)][: options.field_trials]
        by_the_field(campaign / "base.h5", place, [])  # warm: files in memory, byte code written
        golden_field, _ = by_the_field(campaign / "base.h5", place, [])
        times, wrong = [], 0
        for row in chosen:
            found, took = by_the_field(campaign / "base.h5", place, row["faults"])
            times.append(took)
            same = comparable(row["result"]) == comparable(found)
            ours = verdict(campaign, place, row, others)
            theirs = verdict(campaign, place, as_row(row, found, golden, golden_field), others)
            wrong += not same or ours != theirs
            name = f"{row['id']['stratum']}/{row['id']['draw']}"
            print(f"{name:<24} {took:6.2f} s   numbers {'equal' if same else 'DIFFER'}   {ours:<16} {theirs}")
        if comparable(golden) != comparable(golden_field):
            print("the golden runs differ")
            wrong += 1
    field_rate = 3600 * len(times) / sum(times)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"\n{os.cpu_count()} cores, load average {load}")
    print(f"bitrift       {len(trials):>6} trials  {1e3 * seconds:9.1f} ms a trial  {rate:10.0f} trials an hour")
    print(f"field method  {len(times):>6} trials  {1e3 * sum(times) / len(times):9.1f} ms a trial  {field_rate:10.0f}")
    print(f"ratio {rate / field_rate:.0f}; {wrong} of {len(times)} trials differ in a number or a verdict")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
