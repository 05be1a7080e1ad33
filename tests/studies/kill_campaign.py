#!/usr/bin/env python3
"""SIGKILL for the driver, for worker ranks and for both, at arbitrary moments: is the journal an undisturbed run's?

    python tests/studies/kill_campaign.py [--driver 50] [--worker 50] [--both 20] [--workers 1] [--stand-in]

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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from campaign_support import BIN, Driver, fake_trainer, journal_lines, read_rows, scratch_folders

ROOT = pathlib.Path(__file__).resolve().parents[2]
STAND_IN_SECONDS = "0.03"


@dataclasses.dataclass
class Campaign:
    """What is run again and again, each time into another folder."""

    place: pathlib.Path
    arguments: list[str]
    env: dict[str, str]
    patience_s: float  # the latest moment of a kill after a start
    rows: int = 0

    def start(self, name: str, workers: int) -> Driver:
        spec, *settings = self.arguments
        return Driver("run", spec, "-o", self.place / name, "--workers", workers, *settings, env=self.env)


def stand_in_campaign(place: pathlib.Path) -> Campaign:
    """The driver's own part alone: a formula in the place of training."""
    from campaign_support import STUDY_SPEC

    (place / "spec.json").write_text(json.dumps(STUDY_SPEC))
    env = {"BITRIFT_TRAIN_PROGRAM": str(fake_trainer(place)), "FAKE_TRAIN_SECONDS": STAND_IN_SECONDS}
    return Campaign(place, [str(place / "spec.json")], env, 1.5)


def quickstart_campaign(place: pathlib.Path) -> Campaign:
    """The shipped example, serially and on two ranks."""
    spec = json.loads((ROOT / "campaigns" / "quickstart.json").read_text())
    spec["arms"] = spec["arms"][:2]
    (place / "spec.json").write_text(json.dumps(spec))
    return Campaign(place, [str(place / "spec.json")], {}, 8)


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
    while left := driver.descendants():
        assert time.monotonic() - began < 30, f"processes outlive their driver: {left}"
        time.sleep(0.05)
    return time.monotonic() - began


class Killer:
    def __init__(self, campaign: Campaign, chance: random.Random, left: dict[str, int]):
        self.campaign, self.chance, self.left = campaign, chance, left
        self.done: collections.Counter[str] = collections.Counter()
        self.lines_at_last_hit = -1

    def next_kind(self) -> str | None:
        kinds = [kind for kind, count in self.left.items() for _ in range(count)]
        return self.chance.choice(kinds) if kinds else None

    def hit(self, kind: str) -> None:
        self.left[kind] -= 1
        self.done[kind] += 1

    def others_left(self, folder: pathlib.Path) -> bool:
        """Whether runs are left beside those whose worker was hit, so that none of these is under way again."""
        incidents = folder / "incidents.jsonl"
        hit = set()
        if incidents.exists():
            hit = {json.loads(line)["id"] for line in incidents.read_bytes().splitlines() if line.endswith(b"}")}
        missing = self.campaign.rows - journal_lines(folder)
        return missing > len(hit) + 8 and journal_lines(folder) > self.lines_at_last_hit

    def kill_rank(self, driver: Driver, folder: pathlib.Path) -> bool:
        ranks = driver.ranks()
        if not ranks or not self.others_left(folder):
            return False
        lines = journal_lines(folder)
        if not kill(self.chance.choice(ranks)):
            return False
        self.lines_at_last_hit = lines
        return True

    def disturb(self, driver: Driver, folder: pathlib.Path) -> None:
        """Kills until the driver is dead or done."""
        while (kind := self.next_kind()) is not None:
            end = time.monotonic() + self.chance.uniform(0, self.campaign.patience_s)
            while time.monotonic() < end:
                if driver.process.poll() is not None:
                    return
                time.sleep(0.005)
            if driver.process.poll() is not None:
                return
            if kind == "worker":
                if self.kill_rank(driver, folder):
                    self.hit(kind)
                continue
            if kind == "both":
                ranks = driver.ranks()
                if not ranks:
                    continue
                victims = [driver.process.pid, self.chance.choice(ranks)]
                self.chance.shuffle(victims)
                for pid in victims:
                    kill(pid)
            else:
                kill(driver.process.pid)
            self.hit(kind)
            return


def finish(driver: Driver, folder: pathlib.Path, waits: list[float]) -> bool:
    """Waits; whether the campaign is over. After a kill it is not; any other end but 0 is a failure."""
    out, err = driver.process.communicate()
    waits.append(wait_for_descendants(driver))
    if driver.process.returncode == -signal.SIGKILL:
        return False
    assert driver.process.returncode == 0, f"{folder}: exit code {driver.process.returncode}\n{out}\n{err}"
    return True


def compare(plain: pathlib.Path, folder: pathlib.Path) -> int:
    """Rows of a journal that must equal the undisturbed one, by our own reading and by `compare`."""
    rows = read_rows(folder, check_crc=True)
    assert rows == read_rows(plain), f"{folder}: rows differ"
    subprocess.run([BIN / "bitrift", "campaign", "compare", plain, folder], check=True, stdout=subprocess.DEVNULL)
    assert scratch_folders(folder) == [], f"{folder}: something is left in /dev/shm"
    assert not (folder / "work").exists(), f"{folder}: private copies are left"
    return len(rows)


def run_study(campaign: Campaign, left: dict[str, int], workers: int, seed: int) -> dict[str, float]:
    """Counts, and the longest time that processes outlived their driver.

    Throws AssertionError when anything is lost, doubled or different.
    """
    plain = campaign.place / "plain"
    waits: list[float] = []
    assert finish(campaign.start("plain", workers), plain, waits)
    campaign.rows = journal_lines(plain)
    killer = Killer(campaign, random.Random(seed), dict(left))
    campaigns, starts, rows = 0, 0, 0
    while killer.next_kind() is not None:
        folder = campaign.place / f"killed-{campaigns}"
        campaigns += 1
        over = False
        while not over:
            driver = campaign.start(folder.name, workers)
            starts += 1
            killer.lines_at_last_hit = -1
            killer.disturb(driver, folder)
            over = finish(driver, folder, waits)
        rows += compare(plain, folder)
    return dict(killer.done) | {"campaigns": campaigns, "starts": starts, "rows": rows, "left_s": max(waits)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", type=int, default=50, metavar="N", help="moments at which the driver is killed")
    parser.add_argument("--worker", type=int, default=50, metavar="N", help="moments at which a rank is killed")
    parser.add_argument("--both", type=int, default=20, metavar="N", help="moments at which both are")
    parser.add_argument("--workers", type=int, default=1, help="workers side by side")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--stand-in", action="store_true", help="a formula in the place of training")
    options = parser.parse_args()
    left = {"driver": options.driver, "worker": options.worker, "both": options.both}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        campaign = stand_in_campaign(place) if options.stand_in else quickstart_campaign(place)
        counts = run_study(campaign, left, options.workers, options.seed)
    hits = ", ".join(f"{kind} {counts.get(kind, 0)}" for kind in left)
    spent = time.monotonic() - began
    print(
        f"killed: {hits} times; {options.workers} worker(s), {counts['starts']} starts, {counts['campaigns']} campaigns"
    )
    print(f"after a driver's end all its processes were gone within {counts['left_s']:.1f} s")
    print(f"{counts['rows']} rows, all equal to those of the undisturbed journal ({spent:.0f} s)")


if __name__ == "__main__":
    main()
