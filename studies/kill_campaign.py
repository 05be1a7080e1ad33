#!/usr/bin/env python3
"""SIGKILL for the driver, for worker ranks and for both, at arbitrary moments: is the journal an undisturbed run's?

    python studies/kill_campaign.py [--driver 50] [--worker 50] [--both 20] [--workers 1] [--shards 1]
                                           [--stand-in | --processes]

BITRIFT_BIN_DIR names the folder that holds bitrift and bitrift-train. A campaign that ends before its kills are spent
is compared, and the rest falls on a new one. A worker is hit only while a run ended since the last hit and while other
runs are left: a worker that is killed twice in a row at its start, or twice in the same run, cannot be told from what
the fault itself might do, and the driver then rightly stops or writes a crash (docs/campaign.md, "When workers die").
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "e2e" / "campaign"))

from campaign_support import (
    BIN,
    CONTROLS,
    STUDY_SPEC,
    Driver,
    fake_trainer,
    read_rows,
    row_id,
    scratch_folders,
    wait_until,
)

ROOT = pathlib.Path(__file__).resolve().parents[1]
STAND_IN_SECONDS = "0.03"
OWN_PREPARATION = 9  # runs of an arm that every shard makes: controls and canaries
CLEAN_RUNS = sum(CONTROLS.values())  # of an arm, which shards divide


@dataclasses.dataclass(frozen=True)
class Part:
    """What one driver does: the whole campaign, or a shard of it."""

    index: int = 1
    count: int = 1

    def arguments(self) -> list[str]:
        return [] if self.count == 1 else ["--shard", f"{self.index}/{self.count}"]

    def root(self, folder: pathlib.Path) -> pathlib.Path:
        return folder if self.count == 1 else folder / "shards" / f"{self.index}-of-{self.count}"

    def lines(self, folder: pathlib.Path, name: str) -> list[bytes]:
        """Whole lines of the files of this name that its drivers wrote."""
        pattern = name if self.count == 1 else f"*/{name}"
        files = sorted(self.root(folder).glob(pattern))
        return [line for file in files for line in file.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


@dataclasses.dataclass
class Campaign:
    """What is run again and again, each time into another folder."""

    place: pathlib.Path
    arms: int
    trials: int
    env: dict[str, str]
    patience_s: float  # the latest moment of a kill after a start

    def start(self, name: str, workers: int, part: Part) -> Driver:
        command = ("run", self.place / "spec.json", "-o", self.place / name, "--workers", workers)
        return Driver(*command, *part.arguments(), env=self.env)

    def missing_in_stage(self, part: Part, rows: int) -> int:
        """Runs of the stage under way that have no row; a little less where shards divide with a remainder."""
        preparation = self.arms * (OWN_PREPARATION + CLEAN_RUNS // part.count)
        return preparation - rows if rows < preparation else preparation + self.trials // part.count - rows


def stand_in_campaign(place: pathlib.Path) -> Campaign:
    """The driver's own part alone: a formula in the place of training."""
    (place / "spec.json").write_text(json.dumps(STUDY_SPEC))
    env = {"BITRIFT_TRAIN_PROGRAM": str(fake_trainer(place)), "FAKE_TRAIN_SECONDS": STAND_IN_SECONDS}
    return Campaign(place, 2, 2 * 4 * 6, env, 1.5)


def quickstart_campaign(place: pathlib.Path) -> Campaign:
    """The shipped example, serially and on two ranks."""
    spec = json.loads((ROOT / "campaigns" / "quickstart.json").read_text())
    spec["arms"] = spec["arms"][:2]
    spec["controls"] = CONTROLS
    (place / "spec.json").write_text(json.dumps(spec))
    cells = len(spec["strata"]["roles"]) * len(spec["strata"]["fields"])
    return Campaign(place, 2, 2 * cells * spec["trials_per_stratum"], {}, 8)


def process_campaign(place: pathlib.Path) -> Campaign:
    """Ranks that fail and are replaced: what the driver's death must not leave behind are their replacements too."""
    spec = json.loads((ROOT / "campaigns" / "process" / "data.json").read_text())
    spec["arms"] = [arm for arm in spec["arms"] if arm["name"] in ("spare", "respawn")]
    spec["controls"] = CONTROLS
    spec["trials_per_stratum"] = 4
    (place / "spec.json").write_text(json.dumps(spec))
    phases = len(spec["strata"]["process"]["phases"])
    return Campaign(place, 2, 2 * phases * spec["trials_per_stratum"], {}, 8)


def kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def wait_for_descendants(driver: Driver) -> float:
    """Seconds until nothing is left that the dead driver started: two on a machine that does nothing else.

    A rank that is still loading its libraries notices only when it connects, so a loaded machine needs more.
    """
    began = time.monotonic()
    wait_until(lambda: not driver.descendants(), 30, lambda: f"processes outlive their driver: {driver.descendants()}")
    return time.monotonic() - began


def ended(driver: Driver, folder: pathlib.Path, waits: list[float]) -> bool:
    """Whether a driver that ended has finished. After a kill it has not; any other exit code but 0 is a failure."""
    out, _ = driver.process.communicate()
    waits.append(wait_for_descendants(driver))
    if driver.process.returncode == -signal.SIGKILL:
        return False
    assert driver.process.returncode == 0, f"{folder}: exit code {driver.process.returncode}\n{out}\n{driver.said()}"
    return True


class Killer:
    def __init__(
        self, campaign: Campaign, workers: int, parts: list[Part], chance: random.Random, left: dict[str, int]
    ):
        self.campaign, self.workers, self.parts, self.chance, self.left = campaign, workers, parts, chance, left
        self.done: collections.Counter[str] = collections.Counter()
        self.starts = 0
        self.waits: list[float] = []
        self.rows_at_last_hit: dict[Part, int] = {}

    def next_kind(self) -> str | None:
        kinds = [kind for kind, count in self.left.items() for _ in range(count)]
        return self.chance.choice(kinds) if kinds else None

    def start(self, folder: pathlib.Path, part: Part) -> Driver:
        self.starts += 1
        self.rows_at_last_hit.pop(part, None)
        return self.campaign.start(folder.name, self.workers, part)

    def may_lose_a_worker(self, folder: pathlib.Path, part: Part) -> bool:
        """Whether other runs of the stage are left, so that none whose worker was hit is under way again."""
        lines = [json.loads(line)["row"] for line in part.lines(folder, "trials.jsonl")]
        rows: set[str] = set()
        for row in lines:  # a worker that is lost in its check takes unconfirmed rows along
            rows = rows - set(row["ids"]) if row["kind"] == "retract" else rows | {row_id(row)}
        hit = {json.loads(line)["id"] for line in part.lines(folder, "incidents.jsonl")} - rows
        left = self.campaign.missing_in_stage(part, len(rows)) > len(hit) + 8
        return left and len(lines) > self.rows_at_last_hit.get(part, -1)

    def strike(self, kind: str, driver: Driver, folder: pathlib.Path, part: Part) -> bool:
        """Kills; False when there was nothing to kill, or not now."""
        ranks = driver.ranks()
        if kind != "driver" and not ranks:
            return False
        if kind == "worker":
            if not self.may_lose_a_worker(folder, part):
                return False
            self.rows_at_last_hit[part] = len(part.lines(folder, "trials.jsonl"))
            return kill(self.chance.choice(ranks))
        victims = [driver.process.pid] + ([self.chance.choice(ranks)] if kind == "both" else [])
        self.chance.shuffle(victims)
        struck = [kill(pid) for pid in victims]
        return all(struck)

    def run(self, folder: pathlib.Path, *, undisturbed: bool = False) -> None:
        """One campaign to its end, with all the kills that fall on it; a driver that was killed starts again."""
        drivers = {part: self.start(folder, part) for part in self.parts}
        while drivers:
            kind = None if undisturbed else self.next_kind()
            moment = time.monotonic() + self.chance.uniform(0, self.campaign.patience_s)
            while drivers and time.monotonic() < moment:
                for part, driver in list(drivers.items()):
                    if driver.process.poll() is None:
                        continue
                    del drivers[part]
                    if not ended(driver, folder, self.waits):
                        drivers[part] = self.start(folder, part)
                time.sleep(0.005)
            if drivers and kind is not None:
                part = self.chance.choice(sorted(drivers, key=lambda one: one.index))
                if self.strike(kind, drivers[part], folder, part):
                    self.left[kind] -= 1
                    self.done[kind] += 1


def compare(plain: pathlib.Path, folder: pathlib.Path, parts: list[Part]) -> int:
    """Rows of a journal that must equal the undisturbed one, by our own reading and by `compare`."""
    rows = read_rows(folder, check_crc=True, may_retract=True)
    assert rows == read_rows(plain), f"{folder}: rows differ"
    subprocess.run([BIN / "bitrift", "campaign", "diff", plain, folder], check=True, stdout=subprocess.DEVNULL)
    for part in parts:
        assert scratch_folders(part.root(folder)) == [], f"{folder}: something is left in /dev/shm"
    assert not list(folder.rglob("work")), f"{folder}: private copies are left"
    return len(rows)


def run_study(campaign: Campaign, left: dict[str, int], workers: int, seed: int, shards: int = 1) -> dict[str, float]:
    """Counts, and the longest time that processes outlived their driver.

    Throws AssertionError when anything is lost, doubled or different.
    """
    whole = [Part()]
    parts = [Part(index, shards) for index in range(1, shards + 1)]
    plain = campaign.place / "plain"
    Killer(campaign, workers, whole, random.Random(0), {}).run(plain, undisturbed=True)
    killer = Killer(campaign, workers, parts, random.Random(seed), dict(left))
    campaigns, rows = 0, 0
    while killer.next_kind() is not None:
        assert campaigns < 20 + sum(left.values()), f"too few kills hit something: {killer.left} are left"
        folder = campaign.place / f"killed-{campaigns}"
        campaigns += 1
        killer.run(folder)
        rows += compare(plain, folder, parts)
    counts = {"campaigns": campaigns, "starts": killer.starts, "rows": rows, "left_s": max(killer.waits)}
    return dict(killer.done) | counts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", type=int, default=50, metavar="N", help="moments at which the driver is killed")
    parser.add_argument("--worker", type=int, default=50, metavar="N", help="moments at which a rank is killed")
    parser.add_argument("--both", type=int, default=20, metavar="N", help="moments at which both are")
    parser.add_argument("--workers", type=int, default=1, help="workers side by side")
    parser.add_argument("--shards", type=int, default=1, help="drivers that share the campaign's folder")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--stand-in", action="store_true", help="a formula in the place of training")
    parser.add_argument("--processes", action="store_true", help="trials in which ranks fail, for --driver alone")
    options = parser.parse_args()
    if options.processes and options.worker + options.both > 0:
        parser.error("--processes: the trials kill workers themselves; give --worker 0 --both 0")
    left = {"driver": options.driver, "worker": options.worker, "both": options.both}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        make = process_campaign if options.processes else stand_in_campaign if options.stand_in else quickstart_campaign
        campaign = make(place)
        counts = run_study(campaign, left, options.workers, options.seed, options.shards)
    hits = ", ".join(f"{kind} {counts.get(kind, 0)}" for kind in left)
    drivers = f"{options.shards} driver(s) with {options.workers} worker(s)"
    print(f"killed: {hits} times; {drivers}, {counts['starts']} starts, {counts['campaigns']} campaigns")
    print(f"after a driver's end all its processes were gone within {counts['left_s']:.1f} s")
    print(f"{counts['rows']} rows, all equal to those of the undisturbed journal ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    main()
