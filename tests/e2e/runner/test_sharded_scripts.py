"""Scripts with sharded parameters: FSDP, with checkpoints of torch.distributed.checkpoint."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bitrift.runner.__main__ import environments
from bitrift.runner.serving import seed_all
from campaign_support import CONTROLS, Driver, campaign, read_rows

SCRIPT = Path(__file__).with_name("sharded.py")
ENVIRONMENT = {"BITRIFT_PYTHON": sys.executable, "BITRIFT_TRAIN_PROGRAM": ""}
WEIGHT = "4.weight"  # cut evenly
SITES = [
    "weight_gradient",
    *(pytest.param(site, marks=pytest.mark.thorough) for site in ("parameter", "update")),
]


def on_two_ranks(place: Path, *words: str, **environment: str) -> str:
    """What rank 0 prints."""
    command = [sys.executable, SCRIPT.name, *words]
    ranks = [
        subprocess.Popen(
            command,
            cwd=place,
            env=os.environ | environment | own,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for own in environments(2)
    ]
    printed = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], printed
    return printed[0]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sharded")
    shutil.copy(SCRIPT, place)
    on_two_ranks(place, "--save", "base")
    return place


def runner(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bitrift.runner", SCRIPT.name, "--checkpoint", "base", "--ranks", "2", *words]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("site", SITES)
def test_strikes_are_what_the_script_would_do_itself(trained: Path, site: str) -> None:
    """An element counts in what its rank holds."""
    ended = runner(trained, "--strike", f"{site}:{WEIGHT}@3:1.0.5.26")
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    seed = str(seed_all("epoch", 0, 3))
    by_hand = on_two_ranks(trained, "--alter", site, EPOCH_SEED=seed)
    loss, accuracy = re.findall(r"ends with (\S+) (\S+)", by_hand)[0]
    last = result["replicas"][0][-1]
    assert (last["test_loss"], last["test_accuracy"]) == (float(loss), float(accuracy))
    (struck,) = result["altered_values"]
    assert struck["times"] == 1
    plain = json.loads(runner(trained).stdout)
    assert plain["replicas"][0][-1]["test_loss"] != last["test_loss"]


def start(place: Path, out: str, strata: dict[str, Any]) -> Driver:
    spec = {
        "name": "sharded",
        "seed": 5,
        "base": {"checkpoint": "base"},
        "runner": {"python": SCRIPT.name},
        "arms": [{"name": "two", "parallel": {"kind": "data", "ranks": 2}}],
        "strata": strata,
        "trials_per_stratum": 3,
        "controls": CONTROLS,
    }
    (place / f"{out}.json").write_text(json.dumps(spec))
    return Driver("run", f"{out}.json", "-o", out, "--workers", 1, env=ENVIRONMENT, cwd=place)


@pytest.mark.thorough
def test_campaign_on_what_two_ranks_saved(trained: Path) -> None:
    done = start(trained, "out", {"roles": ["weight", "exp_avg"], "fields": ["exponent_msb"]}).finish()
    assert done.returncode == 0, done.stderr
    rows = read_rows(trained / "out", check_crc=True)
    trials = [row for row in rows.values() if row["kind"] == "trial"]
    assert len(trials) == 6 and all(row["landed"] for row in trials)
    assert {len(row["result"]["replicas"]) for row in trials} == {2}
    again = campaign("replay", "out", "two/weight.exponent_msb/1", env=ENVIRONMENT, cwd=trained)
    assert again.returncode == 0, again.stderr + again.stdout


@pytest.mark.thorough
def test_parameters_that_ranks_hold_unequal_parts_of_are_left_out(trained: Path) -> None:
    done = start(
        trained, "compute", {"compute": {"sites": ["activation", "weight_gradient"], "fields": ["sign"]}}
    ).finish()
    assert done.returncode == 0, done.stderr
    computed = json.loads((trained / "compute" / "campaign.json").read_text())["spec"]["strata"]["compute"][
        "computations"
    ]
    sizes = {one["name"]: one["elements"] for one in computed["parameters"]}
    assert sizes == {"3.weight": 36, "3.bias": 4, "4.weight": 16, "4.bias": 2}
    trials = [row for row in read_rows(trained / "compute").values() if row["kind"] == "trial"]
    assert len(trials) == 6 and all(row["landed"] for row in trials)


@pytest.mark.thorough
def test_resume_of_parts_is_audited(trained: Path) -> None:
    command = [sys.executable, "-m", "bitrift", "audit", "resume", SCRIPT.name, "--ranks", "2", "--seed-epochs"]
    done = subprocess.run(command, cwd=trained, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "a resume equals an uninterrupted training bit for bit (1 + 1 epochs, 2 ranks)" in done.stdout
    sets = "set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)"
    text = (trained / SCRIPT.name).read_text()
    assert text.count(sets) == 1
    command[5] = "forgets.py"
    (trained / command[5]).write_text(text.replace(sets, "model.load_state_dict(weights)\n    optimizer.state.clear()"))
    done = subprocess.run(command, cwd=trained, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stderr + done.stdout
    assert "  state of optimizer: [0]/step is not there after the load; without it the training differs" in done.stdout
