"""Checkpoints on the way in a folder: which stay, which one `resume` takes, and how often they are written."""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import pytest
from failure_support import digest, fail_ranks, pairs_of
from train_support import LENET, MLP, PROGRAM, SGD, STRATEGIES, alive, call, mpirun_program, run, write_spec

DATA = {"name": "digits", "train_samples": 640, "test_samples": 160}  # epochs of ten steps
MODES = ("sync", "async")


def name_of(step: int) -> str:
    return f"step-{step:010}.h5"


def steps_in(folder: Path) -> list[int]:
    """Steps of the checkpoints of a folder that holds nothing but them and what belongs to them."""
    names = sorted(path.name for path in folder.iterdir())
    files = [name for name in names if name.endswith(".h5")]
    assert names == sorted(files + [f"{name}.json" for name in files])
    return [int(name[5:-3]) for name in files]


def refusal(*arguments: object) -> str:
    """The one line of a run that is refused."""
    done = call(*arguments)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def fast_spec(path: Path, **changes: Any) -> Path:
    """A network whose learning rate follows from its evaluations: each one is part of the training."""
    plateau = {"name": "plateau", "factor": 0.5, "patience": 0, "threshold": 0.99}
    return write_spec(path, MLP, SGD, **({"data": DATA, "schedule": plateau, "epochs": 3} | changes))


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fast_spec(tmp_path_factory.mktemp("spec") / "spec.json")


@pytest.fixture(scope="module")
def whole(spec: Path) -> Path:
    """The file of a training without checkpoints on the way."""
    run("train", spec, "-o", spec.parent / "whole.h5")
    return spec.parent / "whole.h5"


@pytest.fixture(scope="module")
def whole_of_two(spec: Path) -> tuple[dict[str, Any], Path]:
    """The same on two replicas, and what it printed."""
    out = spec.parent / "whole-of-two.h5"
    return fail_ranks("train", spec, *STRATEGIES["data2"], "--json", "-o", out).json(), out


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder with a name that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="bt-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.mark.parametrize(("strategy", "mode"), [("serial", "sync"), ("serial", "async"), ("data2", "async")])
def test_the_newest_stay_and_each_is_what_a_run_of_so_many_steps_writes(
    spec: Path, tmp_path: Path, strategy: str, mode: str
) -> None:
    words = ("train", spec, *STRATEGIES[strategy])
    plain = run(*words, "-o", tmp_path / "plain.h5")
    folder = tmp_path / "run"
    options = ("--checkpoint-every", 5, "--checkpoint-keep", 4, "--checkpoint-mode", mode)
    result = run(*words, "-o", f"{folder}/", *options)
    assert steps_in(folder) == [15, 20, 25, 30]
    assert result["checkpoint"] == str(folder / name_of(30))
    assert result["checkpoint_seconds"]["written"] == 5
    for key in ("final_digest", "last_loss", "replicas", "replica_digests"):
        assert result[key] == plain[key]
    for step in steps_in(folder):
        with h5py.File(folder / name_of(step)) as file:
            assert file["progress/step"][()] == step
        run(*words, "-o", tmp_path / "alone.h5", "--steps", step)
        assert digest(folder / name_of(step)) == digest(tmp_path / "alone.h5")
    assert digest(folder / name_of(30)) == digest(tmp_path / "plain.h5")


def test_two_stay_by_default_and_a_file_stays_one(spec: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    run("train", spec, "-o", folder, "--checkpoint-every", 3)
    (folder / "notes.txt").unlink()
    assert steps_in(folder) == [27, 30]
    run("train", spec, "-o", tmp_path / "one.h5", "--checkpoint-every", 3, "--checkpoint-keep", 1)
    assert {path.name for path in tmp_path.iterdir()} == {"run", "one.h5", "one.h5.json"}


def test_a_run_goes_on_from_every_checkpoint(spec: Path, whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run("train", spec, "-o", f"{folder}/", "--checkpoint-every", 2, "--checkpoint-keep", 100)
    for step in steps_in(folder):
        # At 10 and 20 an epoch ends, and its evaluation has changed the learning rate.
        run("resume", folder / name_of(step), "-o", tmp_path / "out.h5")
        assert digest(tmp_path / "out.h5") == digest(whole), step


def newest_step(folder: Path) -> int:
    return max((int(path.name[5:-3]) for path in folder.glob("step-*.h5")), default=0)


def kill_with_children(process: subprocess.Popen[str]) -> None:
    """A program and every rank that it started."""
    found = [process.pid]
    for pid in found:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split()]
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()
    while any(alive(pid) for pid in found):  # what is dying still holds its locks
        time.sleep(0.005)


@pytest.mark.parametrize(("mode", "ranks"), pairs_of(MODES, (2, 1)))
def test_a_killed_run_goes_on_to_the_same_end(tmp_path: Path, scratch: Path, ranks: int, mode: str) -> None:
    chance = random.Random(100 * ranks + len(mode))
    spec = fast_spec(tmp_path / "spec.json", epochs=12)
    options = (*STRATEGIES["serial" if ranks == 1 else "data2"], "--checkpoint-every", 1, "--checkpoint-mode", mode)
    run("train", spec, "-o", tmp_path / "whole.h5", *options)
    folder, kills = tmp_path / "run", 0
    for _ in range(6 if ranks == 1 else 4):
        began = newest_step(folder)
        words = ("resume", folder) if began > 0 else ("train", spec)
        process = subprocess.Popen(
            [PROGRAM, *map(str, (*words, "-o", f"{folder}/", *options))],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(scratch)},  # a killed mpirun leaves its session there
        )
        far = began + chance.randrange(1, 15)
        while newest_step(folder) < far and process.poll() is None:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.01))
        kills += process.poll() is None
        kill_with_children(process)
        assert newest_step(folder) >= far
    assert kills > 0
    result = run("resume", folder, "-o", folder, *options)
    assert digest(folder / name_of(120)) == digest(tmp_path / "whole.h5")
    assert result["checkpoint"] == str(folder / name_of(120))
    assert steps_in(folder) == [119, 120]


def damage(path: Path) -> None:
    """Flips one bit of a weight."""
    with h5py.File(path) as file:
        offset = next(item.id.get_offset() for item in file["model"].values() if item.id.get_offset() is not None)
    raw = bytearray(path.read_bytes())
    raw[offset + 2] ^= 4
    path.write_bytes(raw)


@pytest.mark.parametrize("strategy", ["serial", "data2", "pipeline2"])
def test_what_is_damaged_is_skipped(spec: Path, tmp_path: Path, strategy: str) -> None:
    folder = tmp_path / "run"
    run("train", spec, "-o", f"{folder}/", "--checkpoint-every", 4, "--checkpoint-keep", 9, "--steps", 20)
    assert steps_in(folder) == [4, 8, 12, 16, 20]
    shutil.copy(folder / name_of(12), tmp_path / "valid.h5")
    damage(folder / name_of(20))
    raw = (folder / name_of(16)).read_bytes()
    (folder / name_of(16)).write_bytes(raw[: len(raw) // 2])
    shutil.copy(folder / name_of(4), folder / name_of(99))
    done = call("resume", folder, "-o", folder, "--checkpoint-keep", 2, *STRATEGIES[strategy])
    assert done.returncode == 0, done.stderr
    warnings = [line for line in done.stderr.splitlines() if "skipped" in line]
    assert len(warnings) == 3, done.stderr
    for step, why in ((99, "its step is 4"), (20, "does not match its stored checksum"), (16, "")):
        assert any(name_of(step) in line and why in line for line in warnings)
    assert f"resuming from {folder / name_of(12)}" in done.stderr
    # The damaged one of the last step is in the way of nothing, and neither is the misnamed one of a later one.
    assert sorted(int(path.name[5:-3]) for path in folder.glob("step-*.h5")) == [20, 30, 99]
    run("resume", tmp_path / "valid.h5", "-o", tmp_path / "out.h5", *STRATEGIES[strategy])
    assert digest(folder / name_of(30)) == digest(tmp_path / "out.h5")


def test_without_a_valid_one_there_is_one_line(spec: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    assert "holds no checkpoint" in refusal("resume", folder)
    for step in (4, 8):
        (folder / name_of(step)).write_bytes(b"")
    for options in ((), STRATEGIES["data2"]):
        line = refusal("resume", folder, "-o", folder, *options)
        assert "none of its 2 checkpoint(s) is valid" in line and name_of(8) in line
    assert "no-such" in refusal("resume", f"{tmp_path}/no-such/")


@pytest.mark.parametrize("strategy", ["serial", "data2"])
def test_one_run_at_a_time_writes_there(tmp_path: Path, strategy: str) -> None:
    folder = tmp_path / "run"
    spec = fast_spec(tmp_path / "long.json", epochs=1000000)
    words = ("train", spec, "-o", f"{folder}/", "--checkpoint-every", 5, *STRATEGIES[strategy])
    first = subprocess.Popen([*map(str, (PROGRAM, *words))], stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        while not list(folder.glob("step-*.h5")):
            assert first.poll() is None
            time.sleep(0.05)
        again = ("resume", folder, "-o", folder, *STRATEGIES[strategy])
        assert "another run writes its checkpoints there" in refusal(*again)
        assert first.poll() is None
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    deadline = time.monotonic() + 60
    while (done := call(*again, "--steps", 1)).returncode == 2 and time.monotonic() < deadline:
        time.sleep(0.1)  # ranks that a killed mpirun leaves end by themselves
    assert done.returncode == 0, done.stderr


def test_all_ranks_take_the_file_of_rank_0(spec: Path, tmp_path: Path) -> None:
    """Also under a launcher of the user's."""
    folder = tmp_path / "run"
    run("train", spec, "-o", f"{folder}/", "--checkpoint-every", 4, "--steps", 8)
    damage(folder / name_of(8))
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = [mpirun_program(), "--oversubscribe", "-n", "2", str(PROGRAM), "resume", str(folder), "-o", str(folder)]
    done = subprocess.run(
        [*command, "--parallel", "data", "--ranks", "2", "--steps", "1", "--json"],
        env=os.environ | root,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert sum("skipped" in line for line in done.stderr.splitlines()) == 1
    assert steps_in(folder) == [4, 5, 8]


@pytest.mark.parametrize(("strategy", "mode"), [("serial", "sync"), ("serial", "async"), ("data2", "async")])
def test_auto_follows_from_the_times_that_it_reports(tmp_path: Path, strategy: str, mode: str) -> None:
    spec = write_spec(tmp_path / "spec.json", LENET, SGD, data=DATA, epochs=12)
    words = ("train", spec, *STRATEGIES[strategy])
    plain = run(*words, "-o", tmp_path / "plain.h5")
    mean = 0.05
    options = ("--checkpoint-every", "auto", "--mtbf", mean, "--checkpoint-mode", mode)
    result = run(*words, "-o", f"{tmp_path}/run/", *options)
    assert digest(tmp_path / "plain.h5") == digest(tmp_path / "run" / name_of(120))
    assert result["final_digest"] == plain["final_digest"] and result["last_loss"] == plain["last_loss"]
    times = result["checkpoint_seconds"]
    assert times["written"] >= 2
    chosen = times["interval"]
    cost, step = chosen["cost"], chosen["step"]
    assert chosen["mean_time_between_failures"] == mean and 0 < step < result["seconds"] and cost > 0
    young, ratio = math.sqrt(2 * cost * mean), cost / (2 * mean)
    daly = young * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost if ratio < 1 else mean
    if mode == "async":
        expected = max(chosen["persist"], daly)
        assert times["persist"]["max"] >= times["persist"]["median"] >= 0
    else:
        expected = daly
        assert "persist" not in times and "persist" not in chosen
    assert chosen["seconds"] == pytest.approx(expected, rel=1e-12)
    assert chosen["steps"] == max(1, math.floor(expected / step + 0.5))
    assert times["blocking"]["max"] >= times["blocking"]["median"] > 0
    assert times["blocking"]["total"] >= times["blocking"]["max"]


def test_auto_writes_the_first_after_four_steps(spec: Path, tmp_path: Path) -> None:
    """With failures every thousand years there is no second one."""
    folder = tmp_path / "run"
    result = run("train", spec, "-o", f"{folder}/", "--checkpoint-every", "auto", "--mtbf", 3e10)
    assert steps_in(folder) == [4, 30] and result["checkpoint_seconds"]["written"] == 1


def test_the_spec_says_it_and_the_command_line_overrides_it(tmp_path: Path) -> None:
    spec = fast_spec(tmp_path / "spec.json", checkpoint={"every": 10, "mode": "async", "keep": 3})
    run("train", spec, "-o", f"{tmp_path}/a/")
    assert steps_in(tmp_path / "a") == [10, 20, 30]
    run("train", spec, "-o", f"{tmp_path}/b/", "--checkpoint-every", 14, "--checkpoint-keep", 1)
    assert steps_in(tmp_path / "b") == [30]
    result = run("train", spec, "-o", f"{tmp_path}/c/", "--checkpoint-every", 0)
    assert steps_in(tmp_path / "c") == [30] and "checkpoint_seconds" not in result
    with h5py.File(tmp_path / "a" / name_of(30)) as file:
        assert "checkpoint" not in json.loads(file.attrs["spec"])
    assert digest(tmp_path / "a" / name_of(30)) == digest(tmp_path / "c" / name_of(30))
    auto = fast_spec(tmp_path / "auto.json", checkpoint={"every": "auto"})
    assert "give --mtbf SECONDS" in refusal("train", auto, "-o", tmp_path / "x.h5")
    assert run("train", auto, "-o", tmp_path / "x.h5", "--mtbf", 5)["checkpoint_seconds"]["written"] >= 1


@pytest.mark.parametrize(("mode", "every"), pairs_of(MODES, ("auto", 3)))
def test_a_job_is_launched_again_from_a_folder(
    spec: Path, whole_of_two: tuple[dict[str, Any], Path], tmp_path: Path, mode: str, every: object
) -> None:
    words = ("train", spec, *STRATEGIES["data2"], "--json")
    plain, plain_file = whole_of_two
    options = ["--on-failure", "relaunch", "--checkpoint-every", every, "--checkpoint-mode", mode]
    if every == "auto":
        options += ["--mtbf", 0.01]
    folder = tmp_path / "run"
    ended = fail_ranks(*words, "-o", f"{folder}/", *options, "--kill", "1@24:update")
    result = ended.json()
    (recovery,) = result["recoveries"]
    assert recovery["kind"] == "relaunch" and 0 < recovery["step"] < 24
    assert result["final_digest"] == plain["final_digest"] and result["replicas"] == plain["replicas"]
    assert digest(folder / name_of(30)) == digest(plain_file)
    assert len(steps_in(folder)) == 2


def test_a_recovery_in_place_takes_the_newest_file(tmp_path: Path) -> None:
    """The process that takes the lost one's place finds other files than those that the run began with."""
    layout = ("--parallel", "data", "--ranks", 3)
    spec = fast_spec(tmp_path / "spec.json", batch_size=60)
    plain = fail_ranks("train", spec, *layout, "--json", "-o", tmp_path / "plain.h5").json()
    folder = tmp_path / "run"
    run("train", spec, "-o", f"{folder}/", *layout, "--steps", 3)
    options = ("--on-failure", "respawn", "--state-from", "file", "--checkpoint-every", 4, "--checkpoint-keep", 1)
    ended = fail_ranks("resume", folder, "-o", folder, *layout, "--json", *options, "--kill", "1@15:backward")
    result = ended.json()
    assert result["recoveries"][0]["step"] == 12
    assert result["final_digest"] == plain["final_digest"]
    assert steps_in(folder) == [30]


@pytest.mark.parametrize("mode", MODES)
def test_a_full_disk_leaves_the_older_ones(tmp_path: Path, mode: str) -> None:
    spec = fast_spec(tmp_path / "spec.json", epochs=40)
    run("train", spec, "-o", tmp_path / "whole.h5")
    folder = tmp_path / "run"
    options = ("--checkpoint-every", "1", "--checkpoint-mode", mode)
    process = subprocess.Popen(
        [PROGRAM, "train", spec, "-o", f"{folder}/", *options],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    while len(list(folder.glob("step-*.h5"))) < 2:
        assert process.poll() is None
        time.sleep(0.001)
    # From now on no file may have more than 4 kB.
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2 and "File too large" in errors, errors
    assert len(steps_in(folder)) == 2
    run("resume", folder, "-o", folder)
    assert digest(folder / name_of(400)) == digest(tmp_path / "whole.h5")


def test_what_makes_no_sense_is_refused(spec: Path, whole: Path, tmp_path: Path) -> None:
    out, folder = tmp_path / "out.h5", tmp_path / "run"
    run("train", spec, "-o", f"{folder}/", "--steps", 12)
    start = folder / name_of(12)
    for command, options, words in (
        (("train", spec, "-o", out), ("--checkpoint-every", 2, "--checkpoint-keep", 2), "needs a folder"),
        (("resume", start), ("--checkpoint-every", 2), "needs -o"),
        (("resume", start), ("--checkpoint-keep", 2), "--checkpoint-keep needs -o"),
        (("resume", start), ("--checkpoint-mode", "sync"), "--checkpoint-mode needs -o"),
        (("resume", start), ("--checkpoint-writer", "shared"), "--checkpoint-writer needs -o"),
        (("resume", start), ("--mtbf", 10), "--mtbf needs -o"),
        (("train", spec, "-o", out), ("--checkpoint-every", "auto"), "give --mtbf SECONDS"),
        (("train", spec, "-o", out), ("--mtbf", 10), "only by --checkpoint-every auto"),
        (("train", spec, "-o", out), ("--checkpoint-every", "often"), "or auto; found 'often'"),
        (("train", spec, "-o", out), ("--checkpoint-every", -3), "--checkpoint-every"),
        (("train", spec, "-o", out), ("--checkpoint-every", "auto", "--mtbf", 0), "seconds above 0"),
        (("train", spec, "-o", out), ("--checkpoint-every", "auto", "--mtbf", "nan"), "seconds above 0"),
        (("train", spec, "-o", out), ("--checkpoint-keep", 0), "--checkpoint-keep"),
        (("train", spec, "-o", f"{folder}/"), (), f"holds {start.name} of an earlier run"),
        (("resume", whole, "-o", f"{out}/"), ("--checkpoint-mode", "async"), "needs --checkpoint-every"),
        (("train", spec, "-o", f"{spec}/"), (), "cannot be made"),
        (
            ("train", spec, "-o", out, *STRATEGIES["data2"]),
            ("--checkpoint-every", "auto", "--mtbf", 10, "--on-failure", "shrink"),
            "cannot be combined with --on-failure shrink",
        ),
    ):
        assert words in refusal(*command, *options), (command, options)
    run("resume", start, "-o", tmp_path / "other.h5", "--steps", 1)
    older = tmp_path / "older"
    run("train", spec, "-o", f"{older}/", "--steps", 5)
    line = refusal("resume", older / name_of(5), "-o", folder)
    assert f"holds {start.name}, which is newer than step 5" in line
    assert not out.exists() and steps_in(folder) == [12]
