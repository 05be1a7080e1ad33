"""Deaths and signals outside the training: while ranks start and load, after the result, of mpirun, of the driver."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from failure_support import RECOVERIES, Bases, Watched, digest, ranks_of, segments
from train_support import ADAM, PROGRAM, SGD, alive, call, error_lines, run, write_spec

AGAIN = "a rank was lost before the training began; starting the ranks again (try "


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Bases:
    return Bases(tmp_path_factory.mktemp("bases"))


@pytest.fixture
def base(bases: Bases) -> Path:
    return bases.file("sgd")


@pytest.fixture
def scratch() -> Iterator[Path]:
    """For TMPDIR: the paths of mpirun's sockets must be short."""
    with tempfile.TemporaryDirectory(prefix="bt-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def wait_until(found: Callable[[], object], training: subprocess.Popen[str]) -> None:
    while not found():
        assert training.poll() is None
        time.sleep(0.005)


def kill_rank(job: Watched, victim: int, ranks: int) -> int:
    """Kills a rank as soon as all have been started. Returns the process."""
    wait_until(lambda: len(ranks_of(job.mark)) == ranks, job.process)
    process = ranks_of(job.mark)[victim]
    os.kill(process, signal.SIGKILL)
    return process


@pytest.mark.parametrize("recovery", ["shrink", pytest.param("spare", marks=pytest.mark.thorough), "respawn"])
@pytest.mark.parametrize("delay", [0, 0.15, pytest.param(0.3, marks=pytest.mark.thorough)])
def test_ranks_are_started_again_if_one_dies_before_the_training(
    bases: Bases, tmp_path: Path, scratch: Path, recovery: str, delay: float
) -> None:
    """Within MPI_Init without a delay; later, in MPI_Init, while loading or in the training."""
    out = tmp_path / "out.h5"
    job = Watched(bases.words("sgd", "data", out, *RECOVERIES[recovery]), scratch)
    ranks = 6 if recovery == "spare" else 4
    wait_until(lambda: len(ranks_of(job.mark)) == ranks, job.process)
    time.sleep(delay)
    victims = ranks_of(job.mark)
    os.kill(victims[1], signal.SIGKILL)
    ended = job.end(60, ())
    assert (ended.code, ended.left) == (0, 0), ended.err
    assert digest(out) == bases.golden("sgd", "data")
    again = AGAIN + "2 of 5)" in ended.err
    assert again or (delay > 0 and ended.json()["recoveries"]), ended.err
    assert list(scratch.glob("bitrift*")) == []


def test_a_rank_that_dies_before_the_driver_has_seen_it_is_missed(bases: Bases, tmp_path: Path, scratch: Path) -> None:
    out = tmp_path / "out.h5"
    job = Watched(bases.words("sgd", "data", out, *RECOVERIES["shrink"]), scratch)
    wait_until(lambda: list(scratch.glob("bitrift-mpirun.*")), job.process)
    time.sleep(0.01)  # mpirun has been started, and starts no ranks for a while
    os.kill(job.process.pid, signal.SIGSTOP)
    dead = kill_rank(job, 3, 4)
    while Path(f"/proc/{dead}").exists():
        time.sleep(0.005)
    os.kill(job.process.pid, signal.SIGCONT)
    ended = job.end(60, ())
    assert (ended.code, ended.left, ended.err.count(AGAIN)) == (0, 0, 1), ended.err
    assert digest(out) == bases.golden("sgd", "data")


def test_ranks_that_die_in_every_start_end_the_run_in_one_line(bases: Bases, tmp_path: Path, scratch: Path) -> None:
    job = Watched(bases.words("sgd", "data", tmp_path / "out.h5", *RECOVERIES["shrink"]), scratch)
    killed = set()
    for _ in range(5):
        wait_until(lambda: len(ranks_of(job.mark)) == 4 and not killed & set(ranks_of(job.mark).values()), job.process)
        killed.add(kill_rank(job, 2, 4))
    ended = job.end(60, ())
    assert (ended.code, ended.left) == (1, 0), ended.err
    assert ended.err.count(AGAIN) == 4
    assert ended.errors == ["bitrift-train: error: a rank was lost before the training began, 5 times in a row"]
    assert not (tmp_path / "out.h5").exists()


@pytest.mark.parametrize("recovery", ["shrink", pytest.param("respawn", marks=pytest.mark.thorough), "relaunch"])
def test_a_rank_that_runs_out_of_memory_is_a_rank_that_fails(
    base: Path, tmp_path: Path, scratch: Path, recovery: str
) -> None:
    """What a rank has is enough for its steps; the work of another one, or its evaluation, needs more."""
    words = ["resume", base, "--parallel", "data", "--ranks", 4, "--steps", 400]
    run(*words, "-o", tmp_path / "golden.h5")
    kill = ["--on-failure", recovery, "--kill", "1@380:forward"]
    job = Watched((*words, "--json", "-o", tmp_path / "out.h5", *kill), scratch)
    assert job.line.wait(60)
    for victim in (2, 3):
        resource.prlimit(ranks_of(job.mark)[victim], resource.RLIMIT_AS, (2**20, 2**20))
    ended = job.end(60, ())
    assert (ended.code, ended.left) == (0, 0), ended.err
    assert digest(tmp_path / "out.h5") == digest(tmp_path / "golden.h5")
    assert "memory" in ended.err and re.search(r"warning: rank [23] ends: ", ended.err), ended.err
    assert ended.json()["recoveries"]


@pytest.mark.parametrize("recovery", ["none", "relaunch", "shrink"])
def test_a_death_after_the_result_changes_nothing(bases: Bases, tmp_path: Path, scratch: Path, recovery: str) -> None:
    out = tmp_path / "out.h5"
    job = Watched(bases.words("sgd", "data", out, "--on-failure", recovery), scratch)
    wait_until(lambda: len(ranks_of(job.mark)) == 4, job.process)
    victim = ranks_of(job.mark)[1]
    while (scratch / "out").stat().st_size == 0:
        time.sleep(0.0005)
    try:
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        pass  # the run was over first
    ended = job.end(60, ())
    assert (ended.code, ended.left, ended.errors) == (0, 0, []), ended.err
    assert ended.json().get("recoveries", []) == []
    assert digest(out) == bases.golden("sgd", "data")


LONG = 0.8  # seconds without progress that are a hang
STEPS = 400


@pytest.fixture(scope="module")
def long_run(bases: Bases) -> tuple[list[object], str]:
    """The words of a run of a second or two on four ranks, and the digest of its file."""
    words: list[object] = ["resume", bases.file("sgd"), "--parallel", "data", "--ranks", 4, "--steps", STEPS]
    run(*words, "-o", bases.folder / "long.h5")
    return words, digest(bases.folder / "long.h5")


@pytest.mark.parametrize(
    ("recovery", "victim"), [("shrink", 2), ("respawn", 0), ("spare", 4), ("relaunch", 3), ("none", 1)]
)
def test_a_stopped_rank_is_ended_and_replaced(
    long_run: tuple[list[object], str], tmp_path: Path, scratch: Path, recovery: str, victim: int
) -> None:
    """Also an idle one: rank 4 with `spare`."""
    words, golden = long_run
    out = tmp_path / "out.h5"
    options = ["--on-failure", recovery, "--detect-hang", LONG, "--json", "-o", out]
    job = Watched((*words, *options), scratch)
    assert job.line.wait(60)
    process = ranks_of(job.mark)[victim]
    os.kill(process, signal.SIGSTOP)
    ended = job.end(60, ())
    assert ended.left == 0 and f"(process {process}) has been stopped for more than {LONG} s" in ended.err, ended.err
    if recovery == "none":
        assert ended.code != 0 and len(ended.errors) == 1 and not out.exists()
        return
    assert (ended.code, digest(out)) == (0, golden), ended.err
    failed = [rank for one in ended.json().get("recoveries", []) for rank in one["failed"]]
    assert failed == ([] if recovery in ("spare", "relaunch") else [victim])


@pytest.mark.thorough
@pytest.mark.parametrize("options", [("--detect-hang", "auto"), ()], ids=["auto", "default"])
def test_a_minute_is_the_limit_where_steps_are_short(
    long_run: tuple[list[object], str], tmp_path: Path, scratch: Path, options: tuple[object, ...]
) -> None:
    words, golden = long_run
    job = Watched((*words, "--on-failure", "shrink", *options, "--json", "-o", tmp_path / "out.h5"), scratch)
    assert job.line.wait(60)
    os.kill(ranks_of(job.mark)[2], signal.SIGSTOP)
    began = time.monotonic()
    ended = job.end(120, ())
    assert (ended.code, digest(tmp_path / "out.h5")) == (0, golden), ended.err
    assert "has been stopped for more than 60 s; ending it (--detect-hang auto)" in ended.err
    assert time.monotonic() - began > 60


def test_a_rank_that_is_stopped_for_a_moment_goes_on(
    long_run: tuple[list[object], str], tmp_path: Path, scratch: Path
) -> None:
    words, golden = long_run
    options = ["--on-failure", "shrink", "--detect-hang", 3, "--json", "-o", tmp_path / "out.h5"]
    job = Watched((*words, *options), scratch)
    assert job.line.wait(60)
    for _ in range(2):
        for process in ranks_of(job.mark).values():
            os.kill(process, signal.SIGSTOP)
            time.sleep(0.4)
            os.kill(process, signal.SIGCONT)
    ended = job.end(60, ())
    assert (ended.code, digest(tmp_path / "out.h5")) == (0, golden), ended.err
    assert ended.json().get("recoveries", []) == [] and "ending it" not in ended.err


def test_a_rank_that_runs_without_getting_on_is_ended(tmp_path: Path, scratch: Path) -> None:
    """A layer takes rank 0 longer than the limit; the other ranks wait for it, and are left alone."""
    # 131 billion operations in fp64, many times what one core does in 0.1 s
    model = {"name": "mlp", "hidden": [8000, 8000]}
    spec = write_spec(tmp_path / "spec.json", model, SGD, batch_size=1024, precision="fp64")
    options = ["--parallel", "pipeline", "--ranks", 2, "--micro-batches", 1, "--epochs", 1, "--detect-hang", 0.1]
    job = Watched(("train", spec, "-o", tmp_path / "out.h5", *options), scratch)
    ended = job.end(60, ())
    assert (ended.left, ended.err.count("has made no progress for more than 0.1 s")) == (0, 1), ended.err
    assert ended.code != 0 and len(ended.errors) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--ranks", 2, "--parallel", "data", "--detect-hang", 0), "expected 0.1 to 1e+06 seconds, auto or off"),
        (("--ranks", 2, "--parallel", "data", "--detect-hang", "soon"), "expected 0.1 to 1e+06 seconds, auto or off"),
        (("--detect-hang", 5), "a run of one rank is watched only with --on-failure relaunch"),
    ],
)
def test_what_cannot_be_watched_is_refused(base: Path, options: tuple[object, ...], words: str) -> None:
    done = call("resume", base, "--steps", 1, *options)
    assert done.returncode == 2 and words in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_the_next_start_removes_what_a_killed_driver_left(base: Path, tmp_path: Path, scratch: Path) -> None:
    steps = ["resume", base, "--parallel", "data", "--ranks", 2, "--steps"]
    job = Watched((*steps, 100_000), scratch)
    wait_until(lambda: len(segments(ranks_of(job.mark).values())) == 2, job.process)
    time.sleep(0.2)  # the driver looks for them every 20 ms
    files = {Path(name) for name in segments(ranks_of(job.mark).values())}
    (folder,) = scratch.glob("bitrift-mpirun.*")
    job.process.kill()
    job.end(60, ())
    assert folder.exists()
    left = [file for file in files if file.exists()]
    living = Watched((*steps, 100_000), scratch)
    wait_until(lambda: len(segments(ranks_of(living.mark).values())) == 2, living.process)
    assert not folder.exists() and not [file for file in left if file.exists()]
    theirs = {Path(name) for name in segments(ranks_of(living.mark).values())}
    run(*steps, 1, env=os.environ | {"TMPDIR": str(scratch)})
    assert all(file.exists() for file in theirs) and len(list(scratch.glob("bitrift-mpirun.*"))) == 1
    living.process.terminate()
    assert living.end(60, ()).code == 128 + signal.SIGTERM
    assert not list(scratch.glob("bitrift*"))


@pytest.mark.parametrize("options", [(), ("--detect-hang", 1)])
def test_a_rank_alone_is_launched_again(base: Path, tmp_path: Path, options: tuple[object, ...]) -> None:
    """Nobody survives it but the driver."""
    words = ["resume", base, "--steps", 9]
    run(*words, "-o", tmp_path / "golden.h5")
    how = "stop" if options else "kill"
    again = ["--on-failure", "relaunch", "--checkpoint-every", 3, "--kill", f"0@5:backward={how}", *options]
    result = run(*words, "-o", f"{tmp_path}/run/", *again)
    (recovery,) = result["recoveries"]
    assert (recovery["failed"], recovery["steps_lost"]) == ([0], 1)
    last = max((tmp_path / "run").glob("*.h5"))
    assert last.read_bytes() == (tmp_path / "golden.h5").read_bytes()


@pytest.mark.parametrize("recovery", ["none", "shrink", "relaunch"])
def test_a_lost_mpirun_changes_no_complete_result(
    bases: Bases, base: Path, tmp_path: Path, scratch: Path, recovery: str
) -> None:
    """mpirun waits for a rank that hangs after the result was told."""
    options = ["--on-failure", recovery, "--detect-hang", "off", "--kill", "1@2:leave=stop"]
    out = tmp_path / "out.h5"
    words = ["resume", base, "-o", out, "--parallel", "data", "--ranks", 2, "--steps", 2, "--json", *options]
    job = Watched(tuple(words), scratch)
    wait_until(lambda: (scratch / "out").read_text(), job.process)
    (launcher,) = Path(f"/proc/{job.process.pid}/task/{job.process.pid}/children").read_text().split()
    os.kill(int(launcher), signal.SIGKILL)
    ended = job.end(30, ())
    assert (ended.code, ended.left) == (0, 0), ended.err
    assert "mpirun was ended by signal 9 when the run was over" in ended.err
    run("resume", base, "-o", tmp_path / "golden.h5", "--parallel", "data", "--ranks", 2, "--steps", 2)
    assert digest(out) == digest(tmp_path / "golden.h5")


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (4_000_000_000, 4_000_000_000))


@pytest.mark.parametrize(
    "options", [(), ("--parallel", "data", "--ranks", 2), ("--on-failure", "relaunch")], ids=["one", "two", "relaunch"]
)
def test_too_little_memory_is_said_in_one_line(tmp_path: Path, options: tuple[object, ...]) -> None:
    spec = write_spec(tmp_path / "spec.json", {"name": "mlp", "hidden": [65_536, 65_536]}, ADAM)
    done = call("train", spec, "-o", tmp_path / "out.h5", "--steps", 1, *options, preexec_fn=_limit_memory)
    assert done.returncode == 2, done.stderr
    lines = error_lines(done.stderr)
    said = "not enough memory (you tried to allocate 17179869184 bytes"
    assert lines and all(said in line for line in lines), done.stderr
    assert not (tmp_path / "out.h5").exists()


LOOP = """
#include <signal.h>
static void loop(int signal) { for (;;) (void)signal; }
__attribute__((constructor)) static void begin(void) { signal(SIGUSR2, loop); }
"""


def test_a_rank_that_calculates_for_ever_ends_with_driver_and_mpirun(
    base: Path, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not in MPI, where it would notice."""
    library = tmp_path / "loop.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-xc", "-", "-o", library], input=LOOP, text=True, check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    words = ["resume", base, "--parallel", "data", "--ranks", 2, "--steps", 100_000, "--detect-hang", "off"]
    job = Watched(tuple(words), scratch)
    wait_until(lambda: len(segments(ranks_of(job.mark).values())) == 2, job.process)
    ranks = ranks_of(job.mark)
    os.kill(ranks[1], signal.SIGUSR2)
    time.sleep(0.5)
    job.process.kill()
    until = time.monotonic() + 10
    while any(map(alive, ranks.values())) and time.monotonic() < until:
        time.sleep(0.05)
    left = [rank for rank, process in ranks.items() if alive(process)]
    job.end(10, ())
    assert left == []


@pytest.mark.parametrize(("name", "recovery"), [("SIGINT", "none"), ("SIGINT", "shrink"), ("SIGHUP", "relaunch")])
def test_a_signal_ends_all_ranks_in_one_line(base: Path, tmp_path: Path, name: str, recovery: str) -> None:
    """The exit code is the one that a shell would give, nothing stays behind, and checkpoints are whole."""
    folder, scratch = tmp_path / "run", tmp_path / "scratch"
    scratch.mkdir()
    command = [PROGRAM, "resume", base, "-o", f"{folder}/", "--parallel", "data", "--ranks", 2, "--steps", 100_000]
    command += ["--checkpoint-every", 20, "--checkpoint-keep", 3, "--on-failure", recovery]
    training = subprocess.Popen(
        list(map(str, command)), env=os.environ | {"TMPDIR": str(scratch)}, stderr=subprocess.PIPE, text=True
    )
    while not list(folder.glob("*.h5")):
        assert training.poll() is None
        time.sleep(0.05)
    training.send_signal(getattr(signal, name))
    _, said = training.communicate(timeout=60)
    assert training.returncode == 128 + getattr(signal, name)
    assert [line for line in said.splitlines() if "error" in line] == [
        f"bitrift-train: error: ended by {name} before the run was over"
    ], said
    assert list(scratch.iterdir()) == []
    run("resume", folder, "-o", tmp_path / "out.h5", "--steps", 1)


@pytest.mark.parametrize("recovery", ["none", "shrink", "relaunch"])
def test_a_lost_mpirun_is_named_or_started_again(base: Path, tmp_path: Path, recovery: str) -> None:
    folder, out = tmp_path / "run", tmp_path / "out.h5"
    steps = ["--parallel", "data", "--ranks", 2, "--steps", 300]
    command = [PROGRAM, "resume", base, "-o", f"{folder}/", *steps, "--checkpoint-every", 20, "--on-failure", recovery]
    training = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)
    while not list(folder.glob("*.h5")):
        assert training.poll() is None
        time.sleep(0.05)
    (launcher,) = Path(f"/proc/{training.pid}/task/{training.pid}/children").read_text().split()
    ranks = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    files = segments(map(int, ranks))
    assert len(files) == 2
    os.kill(int(launcher), signal.SIGKILL)
    _, said = training.communicate(timeout=100)
    assert [name for name in files if Path(name).exists()] == []
    if recovery == "relaunch":
        assert training.returncode == 0 and "launching the job again from step" in said, said
        run("resume", base, "-o", out, *steps)
        last = max(folder.glob("*.h5"), key=lambda path: int("".join(filter(str.isdigit, path.stem)) or 0))
        assert last.read_bytes() == out.read_bytes()
    else:
        assert training.returncode == 1, said
        assert "bitrift-train: error: mpirun was ended by signal 9, and with it the run; --on-failure relaunch" in said
