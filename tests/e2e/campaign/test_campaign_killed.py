"""SIGKILL at arbitrary moments, around a stand-in for the trainer; studies/kill_campaign.py does it at length."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "studies"))

import kill_campaign


# One driver: test_campaign_driver.py.
@pytest.mark.parametrize(
    ("workers", "shards"), [*(pytest.param(n, 1, marks=pytest.mark.thorough) for n in (1, 4)), (1, 3)]
)
def test_driver_worker_and_both_killed_at_arbitrary_moments_leave_an_equal_journal(tmp_path, workers, shards):
    left = {"driver": 3, "worker": 3, "both": 2}
    campaign = kill_campaign.stand_in_campaign(tmp_path)
    counts = kill_campaign.run_study(campaign, left, workers, seed=workers, shards=shards)
    assert {kind: counts[kind] for kind in left} == left
    assert counts["starts"] > 5
