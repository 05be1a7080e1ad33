"""A rank that fails alone ends the job within seconds, with its own message; no rank waits for ever, none is left."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
import time
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaign_support import wait_until
from train_support import MLP, PROGRAM, SGD, STRATEGIES, mpirun_program, run, write_spec

# From the failure to the end of the last process, on a machine that may be busy.
SECONDS = 15


class Job:
    """Runs bitrift-train or mpirun with a mark in the environment, by which its processes are found."""

    def __init__(self) -> None:
        self.mark = f"BITRIFT_TEST_MARK={uuid.uuid4().hex}"
        self.environment = os.environ | dict([self.mark.split("=")])

    def processes(self) -> dict[int, dict[str, str]]:
        """Environment of every process that is there, by number."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if self.mark in words:
                found[int(entry.name)] = dict(word.split("=", 1) for word in words if "=" in word)
        return found

    def ends(self, *command: object, codes: tuple[int, ...] = (2,), limit: float = SECONDS) -> str:
        """The text on stderr of a command that fails within `limit` seconds."""
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, timeout=limit, env=self.environment
        )
        assert done.returncode in codes, (done.returncode, done.stderr)
        return done.stderr

    def ranks(self) -> dict[int, int]:
        """Process number of every rank."""
        found = {}
        for pid, environment in self.processes().items():
            try:
                program = os.readlink(f"/proc/{pid}/exe")
            except OSError:
                continue
            if program == str(PROGRAM.resolve()) and "OMPI_COMM_WORLD_RANK" in environment:
                found[int(environment["OMPI_COMM_WORLD_RANK"])] = pid
        return found


@pytest.fixture
def job() -> Iterator[Job]:
    """Fails the test when a process of it is still there two seconds after its end."""
    one = Job()
    yield one
    try:
        wait_until(lambda: not one.processes(), 2, lambda: f"{len(one.processes())} processes are left")
    finally:
        for pid in one.processes():
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    spec = write_spec(folder / "spec.json", MLP, SGD, epochs=10000)
    run("train", spec, "-o", folder / "saved.h5", "--steps", 1)
    return folder / "saved.h5"


def one_error(text: str, *words: str) -> None:
    # prterun's own messages end with a NUL, and ours may follow directly.
    lines = text.replace("\0", "").splitlines()
    errors = [line for line in lines if "error: " in line and line.startswith("bitrift-train")]
    assert len(errors) == 1, text
    for word in words:
        assert word in errors[0], (word, errors[0])


@pytest.mark.parametrize("strategy", ["data2", "hybrid2x2"])
def test_a_replica_file_that_is_missing_damaged_or_of_another_moment(
    job: Job, saved: Path, tmp_path: Path, strategy: str
) -> None:
    options = STRATEGIES.get(strategy, ["--parallel", "hybrid", "--ranks", "4", "--stages", "2"])
    common = [PROGRAM, "resume", saved, "-o", tmp_path / "out.h5", *options, "--replica-file"]
    one_error(job.ends(*common, f"1={tmp_path / 'no.h5'}"), "no.h5")
    torn = tmp_path / "torn.h5"
    torn.write_bytes(saved.read_bytes()[: saved.stat().st_size // 2])
    one_error(job.ends(*common, f"1={torn}"), "torn.h5")
    later = tmp_path / "later.h5"
    run("resume", saved, "--steps", 1, "-o", later)
    one_error(job.ends(*common, f"1={later}"), "same step")
    one_error(job.ends(*common, f"2={saved}"), "no replica 2")
    assert not (tmp_path / "out.h5").exists()


def write_png(path: Path, value: int, *, damaged: bool = False) -> None:
    """A grey square of 8x8; damaged: the header is right and the pixels are not."""
    pixels = zlib.compress(b"".join(b"\0" + bytes([value]) * 8 for _ in range(8)))
    if damaged:
        pixels = b"\0" * len(pixels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))


def test_an_image_that_only_one_rank_reads(job: Job, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    for kind in ("cat", "dog"):
        for number in range(8):
            write_png(folder / "train" / kind / f"{number}.png", 10 * number, damaged=(kind, number) == ("dog", 5))
            write_png(folder / "val" / kind / f"{number}.png", 10 * number)
    data = {"name": "folder", "path": str(folder), "resize": 8, "crop": 8}
    spec = write_spec(tmp_path / "spec.json", MLP, SGD, data=data, batch_size=4, epochs=1)
    command = [PROGRAM, "train", spec, "-o", tmp_path / "out.h5", *STRATEGIES["data2"]]
    text = job.ends(*command, codes=(2, 3))
    one_error(text, "dog/5.png", "rank ")
    assert not (tmp_path / "out.h5").exists()


def test_a_rank_without_memory(job: Job, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.json", {"name": "mlp", "hidden": [6144, 6144]}, SGD)
    words = ["train", spec, "-o", tmp_path / "out.h5", "--steps", 1, *STRATEGIES["data2"]]
    # Enough address space for the libraries, not for the gradients of 150 MB and what belongs to them.
    limited = 'ulimit -v 1200000; exec "$0" "$@"'
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    job.environment |= root | {"OMPI_MCA_mpi_yield_when_idle": "1"}
    command = [mpirun_program(), "--oversubscribe", "--bind-to", "none", "-n", 1, PROGRAM, *words]
    command += [":", "-n", 1, "sh", "-c", limited, PROGRAM, *words]
    text = job.ends(*command, codes=(2, 3), limit=60)
    assert "bitrift-train: error: rank 1: " in text and "memory" in text, text
    assert not (tmp_path / "out.h5").exists()


def bytes_written(trace: Path) -> int:
    """The bytes so far of a trace that does not have its name yet."""
    try:
        return sum(path.stat().st_size for path in trace.parent.glob(f".{trace.name}.tmp-*"))
    except FileNotFoundError:
        return 0  # the launcher tries the name before the ranks start


@pytest.mark.parametrize("strategy", ["data2", "pipeline2"])
@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_is_killed(job: Job, saved: Path, tmp_path: Path, strategy: str, victim: int) -> None:
    command = [str(PROGRAM), "resume", str(saved), "-o", str(tmp_path / "out.h5"), *STRATEGIES[strategy]]
    trace = tmp_path / "trace.jsonl"
    command += ["--trace", str(trace)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=job.environment) as process:
        wait_until(lambda: bytes_written(trace) > 0, describe=job.ranks)
        ranks = job.ranks()
        assert sorted(ranks) == [0, 1], ranks
        os.kill(ranks[victim], signal.SIGKILL)
        killed = time.monotonic()
        code = process.wait(timeout=SECONDS)
        assert time.monotonic() - killed < SECONDS
        assert code == 1
        assert process.stderr is not None
        assert "error: a rank was lost, and with it the run; see --on-failure\n" in process.stderr.read()
    assert not (tmp_path / "out.h5").exists()


@pytest.mark.parametrize("recovery", ["none", "shrink", "relaunch"])
def test_an_mpirun_that_starts_no_rank_is_named(saved: Path, tmp_path: Path, recovery: str) -> None:
    command = [PROGRAM, "resume", saved, "-o", tmp_path / "out.h5", "--parallel", "data", "--ranks", "2"]
    environment = os.environ | {"BITRIFT_MPIRUN": "/bin/false"}
    done = subprocess.run(
        [*command, "--on-failure", recovery], capture_output=True, text=True, env=environment, check=False
    )
    ended = "/bin/false ended with exit code 1 before a rank had started on this machine; "
    assert done.returncode == 1
    assert done.stderr.endswith(f"bitrift-train: error: {ended}see what it says\n")
    assert "was lost" not in done.stderr and "lost a rank" not in done.stderr
    assert (f"{ended}launching the job again from the start" in done.stderr) == (recovery == "relaunch")


def test_what_a_killed_mpirun_left_does_not_stop_a_later_one(saved: Path, tmp_path: Path) -> None:
    # Open MPI names a run's session folder by mpirun's process number, and numbers come again.
    temporary, mpirun = tmp_path / "tmp", tmp_path / "mpirun"
    temporary.mkdir()
    mpirun.write_text(
        "#!/bin/sh\n"
        f"folder={temporary}/ompi.$$; mkdir -p $folder\n"
        "for name in tool tool.$$ tool.prterun-vm-$$@0; do echo x > $folder/pmix.vm.$name; done\n"
        f'exec {mpirun_program()} "$@"\n'
    )
    mpirun.chmod(0o755)
    environment = os.environ | {"TMPDIR": str(temporary), "BITRIFT_MPIRUN": str(mpirun)}
    run("resume", saved, "-o", tmp_path / "out.h5", "--steps", 1, *STRATEGIES["data2"], env=environment)
    (left,) = temporary.iterdir()
    assert left.name.startswith("ompi.")


def test_the_steps_that_a_killed_job_lost_are_counted(job: Job, saved: Path, tmp_path: Path) -> None:
    """After a kill that the run expects, which leaves a note of where it was, and one that nobody planned."""
    out = tmp_path / "out"
    command = [PROGRAM, "resume", saved, "-o", f"{out}/", "--epochs", 200, *STRATEGIES["data2"], "--json"]
    command += ["--checkpoint-every", 10, "--checkpoint-keep", 3, "--on-failure", "relaunch", "--kill", "1@25:update"]
    words = [str(word) for word in command]
    with subprocess.Popen(words, stdout=-1, stderr=-1, text=True, env=job.environment) as process:
        assert process.stdout is not None and process.stderr is not None
        seen = ""
        while not re.search("again from step .*(epoch .*){4}", seen, re.DOTALL):
            line = process.stderr.readline()
            assert line, seen
            seen += line
        os.kill(job.ranks()[0], signal.SIGKILL)
        out_text, err = process.communicate(timeout=60)
    assert process.returncode == 0, seen + err
    result = json.loads(out_text)
    planned, other = result["recoveries"]
    assert (planned["failed"], planned["step"], planned["steps_lost"], planned["steps_redone"]) == ([1], 20, 4, 5)
    assert other["failed"] == [] and other["step"] % 10 == 0
    reached = [int(step) for step in re.findall(r"epoch \d+, step (\d+):", seen)][-1]
    last = [int(step) for step in re.findall(r"epoch \d+, step (\d+):", err)][-1]
    before = last - result["steps"]  # the base's own steps
    assert reached <= before + other["step"] + other["steps_lost"] < last
    assert other["steps_redone"] - other["steps_lost"] in (0, 1)
