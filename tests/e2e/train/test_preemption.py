"""Trainings that are asked to end early, by SIGTERM or SIGUSR1 (docs/training.md, "Preemption")."""

from __future__ import annotations

import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import h5py
import pytest
from failure_support import RECOVERIES, Ended, Watched, digest, ranks_of
from train_support import LENET, SGD, call, run, write_spec

LAYOUTS = {
    "serial": (),
    "data": ("--parallel", "data", "--ranks", 2),
    "pipeline": ("--parallel", "pipeline", "--ranks", 2, "--micro-batches", 2),
    "hybrid": ("--parallel", "hybrid", "--ranks", 4, "--stages", 2, "--micro-batches", 2),
}
STEPS_AN_EPOCH = 1437 // 64


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spec")
    return write_spec(folder / "spec.json", LENET, SGD, epochs=2000)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """For TMPDIR: the paths of mpirun's sockets must be short."""
    with tempfile.TemporaryDirectory(prefix="bt-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def preempt(job: Watched, name: str) -> Ended:
    """The end of a training that is asked after its first epoch."""
    assert job.line.wait(60), job.process.poll()
    time.sleep(0.02)
    os.kill(job.process.pid, getattr(signal, name))
    return job.end(60, ())


def step_of(file: Path) -> int:
    with h5py.File(file) as checkpoint:
        return int(checkpoint["progress/step"][()])


def saved(ended: Ended, out: Path) -> tuple[int, list[str]]:
    """The step that was saved, and the option that trains the rest."""
    assert (ended.code, ended.left, ended.errors) == (os.EX_TEMPFAIL, 0, []), ended.err
    said = re.findall(r"asked to end early: saved step (\d+) in (\S+); resume it with (--\w+) (\d+)\n", ended.err)
    ((step, file, option, left),) = said
    assert step_of(Path(file)) == int(step) and str(out) in file
    return int(step), [option, left]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1"])
def test_file_is_that_of_a_run_of_as_many_steps(
    spec: Path, tmp_path: Path, scratch: Path, layout: str, name: str
) -> None:
    out = tmp_path / "out.h5"
    ended = preempt(Watched(("train", spec, "-o", out, *LAYOUTS[layout]), scratch), name)
    step, rest = saved(ended, out)
    assert rest == ["--epochs", str(2000 - step // STEPS_AN_EPOCH)]
    run("train", spec, "-o", tmp_path / "golden.h5", "--steps", step, *LAYOUTS[layout])
    assert digest(out) == digest(tmp_path / "golden.h5")
    assert not list(scratch.glob("bitrift*"))


def test_resumed_training_ends_as_an_undisturbed_one(spec: Path, tmp_path: Path, scratch: Path) -> None:
    out = tmp_path / "out.h5"
    words = ("train", spec, "-o", out, "--steps", 600, *LAYOUTS["data"])
    step, rest = saved(preempt(Watched(words, scratch), "SIGUSR1"), out)
    assert rest == ["--steps", str(600 - step)] and 0 < step < 600
    run("resume", out, "-o", out, *rest, *LAYOUTS["data"])
    run("train", spec, "-o", tmp_path / "golden.h5", "--steps", 600, *LAYOUTS["data"])
    assert digest(out) == digest(tmp_path / "golden.h5")


def test_folder_is_continued_again_and_again(spec: Path, tmp_path: Path, scratch: Path) -> None:
    folder = tmp_path / "run"
    options = ("-o", f"{folder}/", "--checkpoint-every", 7, "--checkpoint-mode", "async", *LAYOUTS["data"])
    step, _ = saved(preempt(Watched(("train", spec, *options), scratch), "SIGTERM"), folder)
    for _ in range(2):
        before = step
        step, _ = saved(preempt(Watched(("resume", folder, *options), scratch), "SIGUSR1"), folder)
        assert step > before
    run("train", spec, "-o", tmp_path / "golden.h5", "--steps", step, *LAYOUTS["data"])
    assert digest(max(folder.glob("*.h5"))) == digest(tmp_path / "golden.h5")


@pytest.mark.parametrize("recovery", [*RECOVERIES, "relaunch"])
def test_with_every_recovery_and_after_a_failure(spec: Path, tmp_path: Path, scratch: Path, recovery: str) -> None:
    out = tmp_path / "out.h5"
    how = ("--on-failure", "relaunch", "--checkpoint-every", 5) if recovery == "relaunch" else RECOVERIES[recovery]
    words = ("train", spec, "-o", out, *LAYOUTS["data"], *how, "--kill", "1@9:backward")
    step, _ = saved(preempt(Watched(words, scratch), "SIGTERM"), out)
    run("train", spec, "-o", tmp_path / "golden.h5", "--steps", step, *LAYOUTS["data"])
    assert digest(out) == digest(tmp_path / "golden.h5")


@pytest.mark.parametrize("recovery", ["shrink", "respawn", "relaunch"])
def test_a_rank_that_dies_while_the_run_ends_early(spec: Path, tmp_path: Path, scratch: Path, recovery: str) -> None:
    out = tmp_path / "out.h5"
    job = Watched(("train", spec, "-o", out, *LAYOUTS["data"], "--on-failure", recovery), scratch)
    assert job.line.wait(60)
    victim = ranks_of(job.mark)[1]
    os.kill(job.process.pid, signal.SIGUSR1)
    os.kill(victim, signal.SIGKILL)
    step, _ = saved(job.end(60, ()), out)
    run("train", spec, "-o", tmp_path / "golden.h5", "--steps", step, *LAYOUTS["data"])
    assert digest(out) == digest(tmp_path / "golden.h5")


@pytest.mark.parametrize("layout", ["serial", "data"])
def test_before_the_training_there_is_nothing_to_save(spec: Path, tmp_path: Path, scratch: Path, layout: str) -> None:
    out = tmp_path / "out.h5"
    for name, code in (("SIGUSR1", os.EX_TEMPFAIL), ("SIGTERM", None)):
        job = Watched(("train", spec, "-o", out, *LAYOUTS[layout]), scratch)
        handled = f"/proc/{job.process.pid}/status"
        mask = 1 << (signal.SIGUSR1 - 1)
        while not int(re.search(r"SigCgt:\s*(\w+)", Path(handled).read_text())[1], 16) & mask:
            assert job.process.poll() is None
            time.sleep(0.001)
        os.kill(job.process.pid, getattr(signal, name))
        ended = job.end(60, ())
        assert ended.left == 0, ended.err
        if out.exists():  # the training had begun after all
            saved(ended, out)
            out.unlink()
        elif code is not None:
            assert ended.code == code and "ended by SIGUSR1 before there was anything to save" in ended.err
        else:
            assert ended.code == (-signal.SIGTERM if layout == "serial" else 128 + signal.SIGTERM), ended.err


def test_run_without_an_output_ends_at_once(spec: Path, tmp_path: Path, scratch: Path) -> None:
    base = tmp_path / "base.h5"
    run("train", spec, "-o", base, "--steps", 1)
    ended = preempt(Watched(("resume", base, *LAYOUTS["data"]), scratch), "SIGTERM")
    assert (ended.code, ended.left) == (128 + signal.SIGTERM, 0)
    assert ended.errors == ["bitrift-train: error: ended by SIGTERM before the run was over"]


def test_a_rank_takes_sigusr1(spec: Path, tmp_path: Path, scratch: Path) -> None:
    """As srun sends it to all of them."""
    out = tmp_path / "out.h5"
    job = Watched(("train", spec, "-o", out, *LAYOUTS["data"], "--json"), scratch)
    assert job.line.wait(60)
    os.kill(ranks_of(job.mark)[1], signal.SIGUSR1)  # one is enough
    ended = job.end(60, ())
    saved(ended, out)


def test_signals_that_the_caller_ignores_stay_ignored(spec: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    ignored = (signal.SIGUSR1, signal.SIGTERM)

    def ignore() -> None:
        for name in ignored:
            signal.signal(name, signal.SIG_IGN)

    done = call("train", spec, "-o", out, "--steps", 30, preexec_fn=ignore)
    assert done.returncode == 0 and step_of(out) == 30


def test_sigterm_to_all_processes_ends_the_run_without_a_new_file(spec: Path, tmp_path: Path, scratch: Path) -> None:
    """As a time limit of Slurm sends it: the ranks have no time to save."""
    out = tmp_path / "out.h5"
    job = Watched(("train", spec, "-o", out, *LAYOUTS["data"]), scratch)
    assert job.line.wait(60)
    for process in (job.process.pid, *ranks_of(job.mark).values()):
        os.kill(process, signal.SIGTERM)
    ended = job.end(60, ())
    assert (ended.code, ended.left) in ((128 + signal.SIGTERM, 0), (os.EX_TEMPFAIL, 0)), ended.err
    assert out.exists() == (ended.code == os.EX_TEMPFAIL)
    assert not list(scratch.glob("bitrift*"))
