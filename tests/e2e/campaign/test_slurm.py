"""Shards as tasks of a job array on a real Slurm (docs/slurm.md): cancelled, requeued, out of time; ranks by srun."""

from __future__ import annotations

import json
import pathlib
import subprocess

import pytest
from campaign_support import (
    BIN,
    STUDY_ROWS,
    STUDY_SPEC,
    Study,
    campaign,
    processes_with,
    read_rows,
    reference_study,
    wait_until,
)
from slurm_support import Slurm, missing_programs

MISSING = missing_programs()
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"Slurm is not installed ({', '.join(MISSING)} missing): tools/setup --with-slurm"
)
SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "tools" / "slurm" / "shards.sbatch"


@pytest.fixture(scope="module")
def slurm():
    with Slurm() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return reference_study(tmp_path_factory.mktemp("reference"))


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


def submit(slurm, study, array, folder, *arguments, seconds="0.1"):
    """An array of shards; its number. Logs lie beside the folder."""
    log = f"--output={study.place}/task-%a.log"
    words = [f"--array={array}", log, SCRIPT, study.spec, folder, "--workers", "1", *arguments]
    return slurm.submit(*words, BITRIFT=str(BIN / "bitrift"), FAKE_TRAIN_SECONDS=seconds, **study.env)


def processes_of(job, task):
    """Numbers of the processes of an array's task."""
    return set(processes_with(job, "SLURM_ARRAY_JOB_ID")) & set(processes_with(task, "SLURM_ARRAY_TASK_ID"))


def log_of(study, task):
    return (study.place / f"task-{task}.log").read_text()


def rows_of(folder, shard):
    return sum(path.read_bytes().count(b"\n") for path in folder.glob(f"shards/{shard}-of-*/*/trials.jsonl"))


@pytest.mark.thorough
def test_array_with_a_cancelled_and_a_requeued_task_gives_the_journal_of_one_driver(slurm, reference, study):
    folder = study.place / "array"
    job = submit(slurm, study, "0-2", folder)
    tasks = [f"{job}_{task}" for task in range(3)]
    wait_until(lambda: all(rows_of(folder, shard) >= 5 for shard in (1, 2, 3)))
    # One is cancelled, one learns that its time is up, as two minutes before its limit.
    slurm.run("scancel", tasks[1])
    slurm.run("scancel", "--batch", "--signal=USR1", tasks[2])
    wait_until(lambda: slurm.state(tasks[1]) == "CANCELLED")
    wait_until(lambda: "interrupted; run the same command to resume" in log_of(study, 1))
    wait_until(lambda: not processes_of(job, 1), describe=lambda: "nobody works on a cancelled shard")
    wait_until(lambda: "goes back to the queue" in log_of(study, 2), describe=lambda: log_of(study, 2))
    slurm.run("scontrol", "requeue", tasks[1])
    wait_until(lambda: [slurm.state(task) for task in tasks] == ["COMPLETED"] * 3, timeout=90)
    starts = {shard: len(list(folder.glob(f"shards/{shard}-of-3/0*"))) for shard in (1, 2, 3)}
    assert starts == {1: 1, 2: 2, 3: 2}
    merged = campaign("merge", folder)
    assert merged.returncode == 0 and "missing" not in merged.stdout, merged.stdout
    equal = campaign("diff", reference.place / "plain", folder)
    assert (equal.returncode, equal.stdout) == (0, f"equal: {STUDY_ROWS} rows\n")
    assert read_rows(folder, check_crc=True) == reference.rows


def test_array_of_which_one_task_runs_at_a_time(slurm, reference, study):
    folder = study.place / "throttled"
    job = submit(slurm, study, "1-4%1", folder, "--stand-in-after", "1", seconds="0")
    tasks = [f"{job}_{task}" for task in range(1, 5)]
    wait_until(lambda: [slurm.state(task) for task in tasks] == ["COMPLETED"] * 4, timeout=90)
    assert "shard 2/4 has no driver: standing in for it" in log_of(study, 1)
    assert read_rows(folder, check_crc=True) == reference.rows


@pytest.mark.thorough
def test_tasks_in_any_number_and_at_any_time_give_the_same_rows(slurm, reference, study):
    """Three tasks for four shards; one goes back to the queue, one is cancelled, the fourth joins late."""
    folder = study.place / "any"
    job = submit(slurm, study, "1-4", folder, "--stand-in-after", "2", seconds="0.05")
    slurm.run("scontrol", "hold", f"{job}_4")
    wait_until(lambda: all(rows_of(folder, shard) >= 3 for shard in (1, 2, 3)))
    slurm.run("scontrol", "requeue", f"{job}_1")
    slurm.run("scancel", f"{job}_2")
    wait_until(lambda: "shard 4/4 has no driver" in log_of(study, 3))
    slurm.run("scontrol", "release", f"{job}_4")
    tasks = [f"{job}_{task}" for task in (1, 3, 4)]
    wait_until(lambda: [slurm.state(task) for task in tasks] == ["COMPLETED"] * 3, timeout=120)
    assert slurm.state(f"{job}_2") == "CANCELLED"
    assert read_rows(folder, check_crc=True) == reference.rows


def test_ranks_that_srun_starts_give_the_same_rows(slurm, reference, study):
    launch = "srun --overlap --ntasks=1 {command}"
    study.spec.write_text(json.dumps(STUDY_SPEC | {"worker": {"launch": launch}}))
    folder = study.place / "srun"
    job = submit(slurm, study, "1-1", folder, seconds="0")
    wait_until(lambda: slurm.state(f"{job}_1") in ("COMPLETED", "FAILED"), timeout=90)
    assert slurm.state(f"{job}_1") == "COMPLETED", log_of(study, 1)
    assert read_rows(folder) == reference.rows


TRAINING = {
    "model": {"name": "lenet"},
    "data": {"name": "digits"},
    "batch_size": 64,
    "epochs": 150,
    "seed": 3,
    "optimizer": {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9},
}


@pytest.mark.thorough
def test_training_whose_time_is_up_again_and_again_ends_in_the_same_file(slurm, tmp_path):
    spec, folder, log = tmp_path / "spec.json", tmp_path / "run", tmp_path / "job.log"
    spec.write_text(json.dumps(TRAINING))
    options = ["--parallel", "data", "--ranks", "2", "--checkpoint-every", "300"]
    program = BIN / "bitrift-train"
    script = SCRIPT.with_name("train.sbatch")
    job = slurm.submit(f"--output={log}", "--cpus-per-task=2", script, spec, folder, *options, BITRIFT_TRAIN=program)
    for times in (1, 2):
        files = set(folder.glob("*.h5"))
        wait_until(lambda files=files: slurm.state(job) == "RUNNING" and set(folder.glob("*.h5")) - files, timeout=90)
        slurm.run("scancel", "--batch", "--signal=USR1", job)
        wait_until(lambda times=times: log.read_text().count("goes back to the queue") == times, describe=log.read_text)
    wait_until(lambda: slurm.state(job) == "COMPLETED", timeout=90, describe=log.read_text)
    assert log.read_text().count("asked to end early: saved step") == 2
    golden = tmp_path / "golden.h5"
    command = [program, "train", spec, "-o", golden, *options[:4]]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    assert max(folder.glob("*.h5")).read_bytes() == golden.read_bytes()


@pytest.mark.parametrize("script", ["shards.sbatch", "train.sbatch"])
def test_script_without_arguments_says_how_it_is_called(script):
    done = subprocess.run([SCRIPT.with_name(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "usage: sbatch" in done.stderr
