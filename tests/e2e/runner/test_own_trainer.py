"""Campaigns over a PyTorch script of one's own (docs/own-trainer.md), and every way in which it can end."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import bitrift
import pytest
import verdict
from campaign_support import CONTROLS, campaign, journal_lines, read_incidents, read_rows, wait_until
from own_support import OwnStudy
from verdict_compare import differences

NO_READERS = CONTROLS | {"readers": False}  # each crash of a reader canary imports torch again


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the example with its base."""
    study = OwnStudy(tmp_path_factory.mktemp("trained"))
    study.train_base()
    return study.place


@pytest.fixture
def study(trained: Path, tmp_path: Path) -> OwnStudy:
    shutil.copy(trained / "digits.h5", tmp_path)
    return OwnStudy(tmp_path)


@pytest.fixture(scope="module")
def finished(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> OwnStudy:
    """A whole campaign."""
    study = OwnStudy(tmp_path_factory.mktemp("finished"))
    shutil.copy(trained / "digits.h5", study.place)
    done = study.start("out", "--workers", 2).finish()
    assert done.returncode == 0, done.stderr
    return study


def test_script_of_40_lines_is_the_trainer_of_a_campaign(finished: OwnStudy) -> None:
    folder = finished.place / "out"
    rows = read_rows(folder, check_crc=True)
    trials = [row for row in rows.values() if row["kind"] == "trial"]
    assert len(trials) == 6 and all(row["landed"] and "result" in row for row in trials)
    assert {tuple(row["result"]["changed_tensors"]) for row in trials} == {
        (row["faults"][0]["tensor"],) for row in trials
    }
    assert len({row["result"]["final_digest"] for row in rows.values() if row["kind"] == "envelope"}) == 20
    trainer = json.loads((folder / "campaign.json").read_text())["trainer"]
    assert trainer["runner"] == "python" and trainer["threads"] == 1
    assert not (folder / "incidents.jsonl").read_bytes()


def test_replay_gives_the_same_row(finished: OwnStudy) -> None:
    again = campaign(
        "replay", finished.place / "out", "own/weight.exponent_msb/1", env=finished.environment, cwd=finished.place
    )
    assert again.returncode == 0, again.stderr + again.stdout


def test_killed_driver_takes_the_script_along_and_resumes_to_equal_rows(finished: OwnStudy, study: OwnStudy) -> None:
    # A process that the script starts, in a session of its own.
    study.replace("torch.manual_seed(0)", "torch.manual_seed(0)\n__import__('os').system('setsid sleep 1000 &')")
    driver = study.start("out", "--workers", 1)
    wait_until(lambda: journal_lines(study.place / "out") > 10)
    assert any("sleep 1000" in name for name in driver.descendants().values())
    os.kill(driver.process.pid, 9)
    driver.process.communicate()
    driver.assert_no_process_left()
    done = study.start("out", "--workers", 1).finish()
    assert done.returncode == 0, done.stderr
    assert read_rows(study.place / "out") == read_rows(finished.place / "out")


# An exception: below.
def test_signal_is_an_outcome_and_a_leak_costs_no_verdict(study: OwnStudy) -> None:
    drills = ["segfault@own/weight.exponent_msb/1", "leak@own/exp_avg.exponent_msb/1"]
    options = [word for drill in drills for word in ("--drill", drill)]
    done = study.start("out", "--workers", 2, *options, controls=NO_READERS).finish()
    assert done.returncode == 0, done.stderr
    rows = read_rows(study.place / "out", check_crc=True, may_retract=True)
    failure = rows["own/weight.exponent_msb/1"]["failure"]
    assert (failure["reason"], failure["detail"], failure["signal"]) == ("signal", "Segmentation fault", 11)
    assert len(read_incidents(study.place / "out")) == 2
    assert "are retracted and run again" in done.stderr


@pytest.mark.parametrize("drill", ["ignore-file", pytest.param("flip-nothing", marks=pytest.mark.thorough)])
def test_harness_that_does_not_reach_the_script_is_noticed(study: OwnStudy, drill: str) -> None:
    done = study.start("out", "--drill", drill, "--workers", 1).finish()
    assert done.returncode == 1 and "canary:nan" in done.stderr


def test_exception_in_the_script_is_an_outcome_with_its_last_line(study: OwnStudy) -> None:
    study.replace(
        "    model.eval()\n", "    assert model[0].weight.abs().max() < 1e9, 'what a\\nweight'\n    model.eval()\n"
    )
    models = [{"name": "huge", "tensors": ["model/0.weight"], "what": "set", "value": 1e20, "count": 1}]
    more = {"strata": {"models": models}, "trials_per_stratum": 1, "controls": NO_READERS}
    done = study.start("out", "--workers", 1, **more).finish()
    assert done.returncode == 0, done.stderr
    row = read_rows(study.place / "out")["own/huge/0"]
    assert row["failure"] == {"reason": "exception", "detail": "AssertionError: what a ... weight", "signal": 0}


def test_function_of_the_script_gets_the_arguments_of_its_arm(study: OwnStudy) -> None:
    lines = study.script.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("torch.manual_seed"))
    body = [
        "    import sys; assert sys.argv[1:] == ['--wide', '8'], sys.argv",
        *("    " + line for line in lines[first:]),
    ]
    study.script.write_text("\n".join([*lines[:first], "def main():", *body, ""]))
    arms = [{"name": "own", "parallel": {"kind": "serial"}, "exec": ["--wide", "8"]}]
    runner = {"python": "cnn.py:main", "interpreter": sys.executable}
    del study.environment["BITRIFT_PYTHON"]
    done = study.start("out", "--workers", 1, runner=runner, arms=arms, trials_per_stratum=1).finish()
    assert done.returncode == 0, done.stderr


def test_mistakes_are_one_line(study: OwnStudy) -> None:
    arm = study.spec["arms"][0]
    (study.place / "no-python").write_text("#!/bin/sh\nexit 10\n")
    (study.place / "no-python").chmod(0o755)
    cases = [
        ({"runner": {"python": "none.py"}}, "runner.python: no file"),
        ({"runner": {}}, "runner: expected exactly one of 'exec' and 'python'"),
        ({"runner": {"python": "cnn.py", "exec": {"command": ["x"]}}}, "expected exactly one of 'exec' and 'python'"),
        ({"runner": {"exec": {"command": ["x"]}, "interpreter": "x"}}, "runner.interpreter: is for runner.python"),
        ({"runner": {"python": "cnn.py", "interpreter": "./no-python"}}, "no-python cannot import bitrift; install"),
        ({"runner": {"python": "cnn.py", "interpreter": "none"}}, "none cannot be started; install"),
        (
            {"arms": [arm | {"scope": {"replicas": [0]}}]},
            "arms[0].scope: is only for bitrift-train; a program of runner.py",
        ),
        (
            {"worker": {"launch": "srun {command}"}},
            "worker.launch: starts the ranks of bitrift-train; with runner.python",
        ),
        ({"propagation": {"steps": [1]}}, "propagation: compares states within bitrift-train"),
    ]
    for changes, says in cases:
        done = study.start("out", **changes).finish()
        assert (done.returncode, done.stderr.count("\n")) == (2, 1) and says in done.stderr, done.stderr
        assert not (study.place / "out").exists()


def test_script_that_cannot_start_stops_the_campaign_with_its_exception(study: OwnStudy) -> None:
    study.replace("bitrift.runner.serve(", "0 and bitrift.runner.serve(")
    done = study.start("out", "--workers", 1).finish()
    says = "workers cannot be started: RuntimeError: cnn.py ended without a call of bitrift.runner.serve()"
    assert done.returncode == 2 and says in done.stderr, done.stderr


@pytest.mark.parametrize("seconds", [1.5, pytest.param(22, marks=pytest.mark.thorough)])
def test_script_that_takes_too_long_to_start_is_told_which_key_to_raise(study: OwnStudy, seconds: float) -> None:
    study.replace("bitrift.runner.serve(", "__import__('time').sleep(600)\nbitrift.runner.serve(")
    done = study.start("out", "--workers", 1, controls=NO_READERS, worker={"start_deadline_s": seconds}).finish()
    assert done.returncode == 2, done.stderr
    says = f"it was not ready after {seconds} s; if it needs longer, raise worker.start_deadline_s"
    assert says in done.stderr and "report it" not in done.stderr
    assert ("the process has connected, and still loads" in done.stderr) == (seconds > 20)


def test_start_deadline_may_differ_from_start_to_start(finished: OwnStudy) -> None:
    folder = finished.place / "out"
    before = (folder / "trials.jsonl").read_bytes()
    for worker in ({"start_deadline_s": 500}, {}):
        done = finished.start("out", worker=worker).finish()
        assert done.returncode == 0, done.stderr
        stored = json.loads((folder / "campaign.json").read_text())["spec"]["worker"]
        assert stored.get("start_deadline_s") == worker.get("start_deadline_s")
        assert (folder / "trials.jsonl").read_bytes() == before
    identity = (folder / "campaign.json").read_bytes()
    assert finished.start("out", worker={"start_deadline_s": 9}, seed=6).finish().returncode == 2
    assert (folder / "campaign.json").read_bytes() == identity


def test_script_without_an_accuracy_is_judged_by_its_loss(study: OwnStudy) -> None:
    study.replace(
        "    return cross_entropy(logits, test_labels), accuracy", "    return cross_entropy(logits, test_labels)"
    )
    wanted = {"checkpoint": "digits.h5", "min_test_accuracy": 0.5}
    done = study.start("out", "--workers", 1, controls=NO_READERS, base=wanted).finish()
    assert done.returncode == 2 and "reports no test accuracy, but min_test_accuracy" in done.stderr, done.stderr
    done = study.start("out", "--workers", 2, controls=NO_READERS).finish()
    assert done.returncode == 0, done.stderr
    assert "by test_loss.\n" in done.stdout and "blind to rises of test_loss below" in done.stdout
    assert "test_accuracy" not in (study.place / "out" / "trials.jsonl").read_text()


@pytest.mark.parametrize("drop", ["serve", pytest.param("load", marks=pytest.mark.thorough)])
def test_script_that_does_not_load_the_optimizer_ends_with_the_name_of_the_role(study: OwnStudy, drop: str) -> None:
    if drop == "serve":
        study.replace("optimizer=optimizer, train_epoch", "train_epoch")
    else:
        forgets = (
            "load=lambda path: bitrift.torch.load_into(path, model), state=lambda: [model, optimizer], train_epoch"
        )
        study.replace("model=model, optimizer=optimizer, train_epoch", forgets)
    done = study.start("out", "--workers", 1).finish()
    assert done.returncode == 1, done.stderr
    assert "arm 'own': canary:reads-exp_avg: the trainer does not read role exp_avg: a run with all" in done.stderr
    remedy = done.stderr.splitlines()[-1]
    assert remedy.startswith("bitrift: this says what to change: python -m bitrift.runner /"), remedy
    assert remedy.endswith("/base.h5 --check")
    assert "reads-weight" not in done.stderr and not (study.place / "out" / "summary.json").exists()


def test_stratum_that_nothing_reads_is_pointed_out(study: OwnStudy) -> None:
    study.replace("optimizer=optimizer, train_epoch", "train_epoch")
    done = study.start("out", "--workers", 1, controls=NO_READERS, trials_per_stratum=5).finish()
    assert done.returncode == 0 and "All trials bitwise: own exp_avg.exponent_msb (5)" in done.stdout, done.stdout
    summary = json.loads((study.place / "out" / "summary.json").read_text())
    assert summary["all_bitwise"] == [{"arm": "own", "stratum": "exp_avg.exponent_msb", "trials": 5}]


def test_loop_in_the_style_of_hugging_face_is_judged_by_its_perplexity(tmp_path: Path) -> None:
    study = OwnStudy(tmp_path, "language_model.py", "language-model.h5")
    study.replace("read_text(0, 640)", "read_text(0, 96)")  # three steps an epoch
    study.train_base()
    done = study.start("out", "--workers", 2, trials_per_stratum=2, controls=NO_READERS).finish()
    assert done.returncode == 0, done.stderr
    assert "by perplexity" in done.stdout and "blind to rises of perplexity below" in done.stdout, done.stdout
    rows = read_rows(study.place / "out")
    golden = rows["own/control/0"]["result"]
    (last,) = golden["replicas"][0]
    assert (golden["steps"], last["epoch"]) == (3, 4) and set(last["lower_is_better"]) == {"perplexity"}
    assert not {"test_loss", "test_accuracy"} & last.keys()
    assert rows["own/canary:nan/0"]["result"]["nonfinite_step"] == 1  # the generator's first loss
    (arm,) = verdict.read_arms(study.place / "out")
    ours = [one for one in arm.verdicts() if one.kind == "trial"]
    assert differences(ours, bitrift.outcomes(study.place / "out", kinds=["trial"])) == []


# Two ranks that end by a signal: test_campaign.py.
def test_two_ranks_train_with_distributed_data_parallel(tmp_path: Path) -> None:
    study = OwnStudy(tmp_path, "cnn_ddp.py", "digits-ddp.h5")
    study.train_base()
    arms = [{"name": "two", "parallel": {"kind": "data", "ranks": 2}}]
    more = {"arms": arms, "trials_per_stratum": 1, "controls": NO_READERS}
    done = study.start("out", "--drill", "raise@two/weight.exponent_msb/0", **more).finish()
    assert done.returncode == 0, done.stderr
    rows = read_rows(study.place / "out")
    golden = rows["two/control/0"]["result"]
    assert len(golden["replicas"]) == 2 and golden["replicas"][0] == golden["replicas"][1]
    assert golden["steps"] == 23 and len(set(golden["replica_digests"])) == 1  # 1437 digits in steps of 2 x 32
    failure = {"reason": "exception", "detail": "RuntimeError: drill: raise", "signal": 0}
    assert rows["two/weight.exponent_msb/0"]["failure"] == failure
    assert [row["failure"] for row in read_incidents(study.place / "out")] == [failure, failure]
    assert rows["two/exp_avg.exponent_msb/0"]["landed"]


def test_ranks_that_never_meet_are_told_to(study: OwnStudy) -> None:
    arms = [{"name": "own", "parallel": {"kind": "data", "ranks": 2}}]
    done = study.start("out", arms=arms).finish()
    assert done.returncode == 2 and "2 ranks were started, but torch.distributed has 1: call" in done.stderr, (
        done.stderr
    )
