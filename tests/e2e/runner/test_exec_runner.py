"""Campaigns over a training program that is not ours (docs/exec-runner.md): every way in which it can end."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from campaign_support import CONTROLS, Driver, campaign, read_incidents, read_rows, wait_until
from exec_trainer import MODES

PROGRAM = Path(__file__).with_name("exec_trainer.py")


class Study:
    """A base that bitrift-train could not read, and a spec that draws every element of its first weight once."""

    def __init__(self, place: Path) -> None:
        self.place = place
        base = place / "base.h5"
        with h5py.File(base, "w") as file:
            for name, size in {"fc1.weight": len(MODES), "fc1.bias": 2, "fc2.weight": 4, "fc2.bias": 2}.items():
                file[f"model/{name}"] = np.linspace(0.25, 1, size, dtype=np.float32)
            file["note"] = "a text of variable length, as other programs store them"
            offset = file["model/fc1.weight"].id.get_offset()
        words = [sys.executable, "-S", str(PROGRAM), "{checkpoint}", "{result}", "{epochs}", "{folder}/base.h5"]
        self.spec = {
            "name": "exec",
            "seed": 5,
            "base": {"checkpoint": "base.h5"},
            "runner": {"exec": {"command": words}},
            "arms": [
                {"name": "own", "parallel": {"kind": "serial"}, "exec": [str(offset), "--order-seed", "{order_seed}"]}
            ],
            "strata": {"tensors": ["model/fc1.weight"], "roles": ["weight"], "fields": ["exponent_msb"]},
            "trials_per_stratum": len(MODES),
            # A jitter run would alter several of the weights that tell the program what to do.
            "controls": CONTROLS | {"jitter": 0},
            "worker": {"deadline_s": 4},
        }

    def write(self, **changes: object) -> Path:
        path = self.place / "spec.json"
        path.write_text(json.dumps(self.spec | changes))
        return path

    def start(self, name: str, *arguments: object, **changes: object) -> Driver:
        environment = {"BITRIFT_TRAIN_PROGRAM": ""}  # nothing of bitrift-train is needed
        return Driver("run", self.write(**changes), "-o", self.place / name, *arguments, env=environment)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict]]:
    """A whole campaign, and the row of every mode. Its end checks that no process is left."""
    study = Study(tmp_path_factory.mktemp("exec"))
    done = study.start("out", "--workers", 2).finish()
    assert done.returncode == 0, done.stderr
    rows = read_rows(study.place / "out", check_crc=True)
    trials = [row for row in rows.values() if row["kind"] == "trial"]
    return study.place / "out", {MODES[row["faults"][0]["element"]]: row for row in trials}


def test_every_way_to_end_is_a_row_of_its_own(finished: tuple[Path, dict[str, dict]]) -> None:
    folder, rows = finished
    assert set(rows) == set(MODES) and all(row["landed"] for row in rows.values())
    failures = {mode: row["failure"] for mode, row in rows.items() if row.get("failure")}
    assert set(failures) == {"raise", "signal", "hang", "garbage", "nothing", "exit"}
    assert failures["raise"]["detail"] == "exit code 1: ValueError: this weight is strange"
    assert failures["exit"]["detail"] == "exit code 3: out of patience"
    assert (failures["signal"]["reason"], failures["signal"]["signal"]) == ("signal", 11)
    assert failures["hang"]["reason"] == "hang"
    assert failures["garbage"]["detail"] == "result.json:2: replicas: expected array, found number 7"
    assert failures["nothing"]["detail"] == "exit code 0, but no result file was written"
    assert {failures[mode]["reason"] for mode in ("raise", "garbage", "nothing", "exit")} == {"exception"}
    assert rows["grandchild"]["result"]["final_digest"] == "grandchild"
    assert len(read_incidents(folder)) == 2 * len(failures)


def test_outcomes_and_the_table_are_those_of_any_campaign(finished: tuple[Path, dict[str, dict]]) -> None:
    summary = json.loads((finished[0] / "summary.json").read_text())
    assert summary["trials"] == len(MODES)
    stored = json.loads((finished[0] / "campaign.json").read_text())
    assert stored["trainer"]["runner"] == "exec" and stored["trainer"]["command"][0] == sys.executable
    text = json.dumps(summary)
    assert all(reason in text for reason in ("exception", "signal", "hang", "within_noise", "high_test_loss"))


def test_replay_gives_the_same_row(finished: tuple[Path, dict[str, dict]]) -> None:
    for mode in ("differ", "exit"):
        key = finished[1][mode]["id"]
        again = campaign("replay", finished[0], f"{key['arm']}/{key['stratum']}/{key['draw']}")
        assert again.returncode == 0, again.stderr + again.stdout


def test_killed_driver_takes_the_command_and_its_orphans_along(tmp_path: Path) -> None:
    driver = Study(tmp_path).start("out", "--workers", 1, worker={"deadline_s": 60})
    wait_until(lambda: any("sleep 1000" in name for name in driver.descendants().values()))
    os.kill(driver.process.pid, 9)
    driver.process.communicate()
    driver.assert_no_process_left()


@pytest.mark.parametrize("drill", ["ignore-file", "flip-nothing"])
def test_harness_that_does_not_reach_the_command_is_noticed(tmp_path: Path, drill: str) -> None:
    done = Study(tmp_path).start("out", "--drill", drill, "--workers", 2).finish()
    assert done.returncode == 1 and "canary" in done.stderr


def test_mistakes_in_the_spec_name_the_key(tmp_path: Path) -> None:
    study = Study(tmp_path)
    arm = study.spec["arms"][0]
    without = {key: value for key, value in study.spec.items() if key != "runner"}
    cases = [
        (
            {"runner": {"exec": {"command": ["x", "{chekpoint}"]}}},
            "runner.exec.command[1]: '{chekpoint}' is not a placeh",
        ),
        ({"runner": {"exec": {"command": []}}}, "runner.exec.command: expected at least 1 item(s), found 0"),
        ({"arms": [arm | {"exec": ["{nothing}"]}]}, "arms[0].exec[0]: '{nothing}' is not a placeholder"),
        ({"arms": [arm | {"scope": {"replicas": [0]}}]}, "arms[0].scope: is only for bitrift-train"),
        ({"arms": [arm | {"guards": {"nonfinite": True}}]}, "arms[0].guards: is only for bitrift-train"),
        ({"worker": {"launch": "srun {command}"}}, "worker.launch: starts the ranks of bitrift-train"),
    ]
    for changes, text in cases:
        done = study.start("out", **changes).finish()
        assert done.returncode == 2 and text in done.stderr, done.stderr
    study.spec = without
    done = study.start("out").finish()
    assert done.returncode == 2 and "arms[0].exec: is for a command or a script, but there is" in done.stderr


def test_command_that_is_not_there_stops_the_campaign_by_name(tmp_path: Path) -> None:
    done = Study(tmp_path).start("out", runner={"exec": {"command": ["no-such-program"]}}).finish()
    assert done.returncode == 2 and "cannot start no-such-program" in done.stderr, done.stderr


NUMPY_TRAINER = """
import hashlib, json, sys
import numpy as np
file, out, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
seed = int(sys.argv[4]) if len(sys.argv) > 4 else 0
draw = np.random.default_rng(1)
x = draw.normal(size=(240, 6))
y = x @ np.arange(1, 7) + draw.normal(size=240) > 0
with np.load(file) as kept:
    w, b = kept["fc.weight"][0].astype(float), float(kept["fc.bias"][0])
steps, evaluations = 0, []

def measured(kind, rows):
    p = np.clip(1 / (1 + np.exp(-np.clip(x[rows] @ w + b, -500, 500))), 1e-9, 1 - 1e-9)
    loss = float(-np.where(y[rows], np.log(p), np.log(1 - p)).mean())
    return {f"{kind}_loss": loss, f"{kind}_accuracy": float(((p > 0.5) == y[rows]).mean())}

def evaluate(epoch):
    train = measured("train", slice(160)) if steps else {}
    evaluations.append({"epoch": epoch, "step": steps} | train | measured("test", slice(160, 240)))

with np.errstate(all="ignore"):
    if epochs == 0:
        evaluate(1)
    for epoch in range(epochs):
        for rows in np.random.default_rng([seed, epoch]).permutation(160).reshape(20, 8):
            wrong = 1 / (1 + np.exp(-np.clip(x[rows] @ w + b, -500, 500))) - y[rows]
            w, b, steps = w - 0.3 * x[rows].T @ wrong / 8, b - 0.3 * wrong.mean(), steps + 1
        evaluate(epoch + 2)
digest = hashlib.sha256(w.tobytes() + np.float64(b).tobytes()).hexdigest()
result = {"status": "done", "replicas": [evaluations], "steps": steps, "final_digest": digest, "test_targets": 80}
if not (np.isfinite(w).all() and np.isfinite(b)):
    result = {"status": "nonfinite", "steps": steps, "nonfinite_step": 1, "replicas": [[]], "final_digest": digest}
json.dump(result, open(out, "w"))
"""


def test_the_base_may_be_a_file_of_the_program_itself(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(NUMPY_TRAINER)
    np.savez(tmp_path / "model.npz", **{"fc.weight": np.ones((1, 6), "f4"), "fc.bias": np.zeros(1, "f4")})
    study = Study(tmp_path)
    command = [sys.executable, str(tmp_path / "train.py"), "{checkpoint}", "{result}", "{epochs}", "{order_seed}"]
    changes = {
        "base": {"checkpoint": "model.npz"},
        "runner": {"exec": {"command": command}},
        "arms": [{"name": "own", "parallel": {"kind": "serial"}}],
        "strata": {"roles": ["weight"], "fields": ["exponent_msb", "mantissa"]},
        "trials_per_stratum": 5,
        "controls": CONTROLS | {"jitter": 4},
        "worker": {"deadline_s": 60},
    }
    done = study.start("own", "--workers", 2, **changes).finish()
    assert done.returncode == 0, done.stderr
    rows = read_rows(tmp_path / "own", check_crc=True)
    assert (tmp_path / "own" / "base.npz").read_bytes() == (tmp_path / "model.npz").read_bytes()
    trials = [row for row in rows.values() if row["kind"] == "trial"]
    assert len(trials) == 10 and len({row["result"]["final_digest"] for row in trials}) > 5
    assert "own: 10 trials" in done.stderr
