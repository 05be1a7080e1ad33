"""Scripts whose ranks share an optimizer state or keep what they did not send, and --check with several ranks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from bitrift.runner.__main__ import environments
from campaign_support import CONTROLS, campaign, read_rows

SCRIPT = Path(__file__).with_name("communicating.py")
ENVIRONMENT = {"BITRIFT_PYTHON": sys.executable, "BITRIFT_TRAIN_PROGRAM": ""}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("communicating")
    shutil.copy(SCRIPT, place)
    command = [sys.executable, SCRIPT.name, "--save", "base.pt"]
    ranks = [subprocess.Popen(command, cwd=place, env=os.environ | own) for own in environments(2)]
    assert [rank.wait(120) for rank in ranks] == [0, 0]
    return place


def run(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bitrift.runner", SCRIPT.name, "--checkpoint", "base.pt", "--ranks", "2", *words]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120, check=False)


def check(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(place, "--check", *words)


# ZeroRedundancyOptimizer calls step() of the optimizer that it wraps.
@pytest.mark.parametrize("site", ["update", "weight_gradient"])
def test_the_step_of_a_wrapped_optimizer_is_no_second_one(trained: Path, site: str) -> None:
    done = run(trained, "--strike", f"{site}:0.weight@3:1.0.5.30")
    assert done.returncode == 0 and "never reached" not in done.stderr, done.stderr
    result = json.loads(done.stdout)
    assert result["steps"] == 4  # 128 samples on two ranks, in batches of 16
    assert len(result["altered_values"]) == 1


def test_nothing_is_found_where_all_is_right(trained: Path) -> None:
    done = check(trained)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("nothing found that would stop or spoil a campaign") == 1


def test_what_the_ranks_find_is_said_once(trained: Path) -> None:
    done = check(trained, "--", "--trap", "counter")
    assert done.returncode == 1, done.stdout + done.stderr
    said, cure = done.stdout.splitlines()
    assert said.startswith("two runs of the same file differ: ") and said.endswith((" on rank 0", " on rank 1")), said
    assert "the first run changed steps" in cure and "sampler" not in cure


def test_an_exception_on_one_rank_ends_all(trained: Path) -> None:
    done = check(trained, "--", "--trap", "raises")
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "a run fails: ValueError: only rank 1 has a problem",
        "  the script must train and evaluate from this checkpoint",
    ]


def test_runs_begin_as_in_a_fresh_process_and_a_campaign_names_the_check(trained: Path) -> None:
    spec = {
        "name": "communicating",
        "seed": 1,
        "base": {"checkpoint": "base.pt"},
        "runner": {"python": SCRIPT.name},
        "arms": [{"name": "two", "parallel": {"kind": "data", "ranks": 2}}],
        "strata": {"roles": ["weight", "exp_avg"], "fields": ["exponent_msb"]},
        "trials_per_stratum": 2,
        "controls": CONTROLS,
    }
    (trained / "spec.json").write_text(json.dumps(spec))
    done = campaign("run", "spec.json", "-o", "results", "--workers", "1", env=ENVIRONMENT, cwd=trained)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = read_rows(trained / "results")
    controls = {row["result"]["final_digest"] for name, row in rows.items() if name.startswith("two/control/")}
    assert len(controls) == 1
    # The state of an optimizer whose rank has no slots for a parameter counts, too.
    states = torch.load(trained / "base.pt", weights_only=False)["optimizer"]["state"]
    assert sorted(states) == [0, 1, 2, 3]
    arms = [{"name": "two", "parallel": {"kind": "data", "ranks": 2}, "exec": ["--trap", "counter"]}]
    (trained / "trap.json").write_text(json.dumps(spec | {"arms": arms}))
    done = campaign("run", "trap.json", "-o", "trapped", "--workers", "1", env=ENVIRONMENT, cwd=trained)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stderr.rstrip().endswith("/base.pt --check --ranks 2 -- --trap counter")
