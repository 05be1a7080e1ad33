"""Ranks on two nodes: one fails, all on a node do, or the node is gone. The nodes share a disk, and no memory."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import uuid
from pathlib import Path
from typing import Literal

import pytest
from failure_support import LAYOUTS, MOMENTUM, digest, end_processes, marked_processes
from nodes_support import FIRST, SCRIPT, SECOND, two_nodes
from train_support import LENET, PROGRAM, error_lines, mpirun_program, run, write_spec

pytestmark = two_nodes

RANKS = 4  # of LAYOUTS["data"]; 0 and 1 on the first node, 2 and 3 on the second
EPOCHS = 30
STEPS_OF_EPOCH = 22


class Nodes:
    """Runs bitrift-train with ranks on both nodes, and takes the second away."""

    def __init__(self, place: Path, base: Path, epochs: int) -> None:
        self.place = place
        self.hosts = place / "hosts"
        self.hosts.write_text(f"{FIRST} slots=2\n{SECOND} slots=2\n")
        self.mark = f"BITRIFT_TEST_MARK={uuid.uuid4().hex}"
        self.out = place / "out.h5"
        words = ["resume", base, "-o", self.out, *LAYOUTS["data"], "--epochs", epochs, "--json"]
        self.words = [str(word) for word in words]

    def start(self, *command: object) -> subprocess.Popen[str]:
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        nodes = {"PRTE_MCA_plm_ssh_agent": str(self.place / "agent"), "PRTE_MCA_prte_default_hostfile": str(self.hosts)}
        usual = {"OMPI_MCA_mpi_yield_when_idle": "1"}  # as bitrift-train sets it, for an mpirun of one's own
        return subprocess.Popen(
            ["unshare", "--net", str(SCRIPT), str(self.place), *map(str, command)],
            env=os.environ | root | nodes | usual | dict([self.mark.split("=")]),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *options: object, mpirun: tuple[object, ...] = ()) -> tuple[int, str, str]:
        """Exit code, stdout and stderr. mpirun: its command, where bitrift-train does not start it."""
        process = self.start(*mpirun, PROGRAM, *self.words, *options)
        try:
            out, err = process.communicate(timeout=240)
        finally:
            end_processes(self.mark)
        return process.returncode, out, err

    def on_second(self) -> list[int]:
        """Processes of the second node: ranks, and the daemon that started them."""
        found = {pid: space_of(pid) for pid in marked_processes(self.mark)}
        first = {space_of(pid) for pid in found if program_of(pid) == "mpirun"}
        return [pid for pid, space in found.items() if space not in first and program_of(pid) != "sleep"]

    def lose_second(self, *options: object, how: Literal["dies", "cut"] = "dies") -> tuple[int, str, str]:
        """The same for a run whose second node is gone after the third epoch: nothing runs there, or no cable is."""
        process = self.start(PROGRAM, *self.words, *options)
        seen = ""
        try:
            assert process.stderr is not None
            while "epoch 4," not in seen:
                line = process.stderr.readline()
                assert line, seen
                seen += line
            lost = self.on_second()
            assert {program_of(pid) for pid in lost} >= {"prted", "bitrift-train"}
            if how == "cut":
                command = ["nsenter", "--target", str(lost[0]), "--net", "ip", "link", "set", "cable1", "down"]
                subprocess.run(command, check=True)
            else:
                for pid in lost:
                    os.kill(pid, signal.SIGKILL)
            out, err = process.communicate(timeout=240)
        finally:
            end_processes(self.mark)
        return process.returncode, out, seen + err


def program_of(pid: int) -> str:
    try:
        name = Path(os.readlink(f"/proc/{pid}/exe")).name
    except OSError:
        return ""
    return "mpirun" if name == "prterun" else name


def result_in(out: str) -> dict:
    """The JSON on stdout, where mpirun may say that it lost a daemon, before the result or as the job ends."""
    begin = out.index("{\n")
    return json.JSONDecoder().raw_decode(out[begin:])[0]


def space_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    spec = write_spec(folder / "spec.json", LENET, MOMENTUM)
    run("train", spec, "-o", folder / "base.h5", "--epochs", 1)
    return folder / "base.h5"


def golden(base: Path, epochs: int) -> str:
    file = base.with_name(f"golden-{epochs}.h5")
    if not file.exists():
        run("resume", base, "-o", file, *LAYOUTS["data"], "--epochs", epochs)
    return digest(file)


@pytest.mark.parametrize(
    ("recovery", "kills", "ranks"),
    [
        ("shrink", ["0@5:backward"], 3),
        ("shrink", ["2@5:backward", "3@5:backward"], 2),
        ("spare", ["3@5:update"], 4),
        ("respawn", ["3@5:reduce"], 4),
        ("restart", ["1@5:forward"], 4),
        ("relaunch", ["3@5:update"], 4),
    ],
)
def test_the_result_does_not_change(base: Path, tmp_path: Path, recovery: str, kills: list[str], ranks: int) -> None:
    nodes = Nodes(tmp_path, base, 1)
    words = [word for kill in kills for word in ("--kill", kill)]
    code, out, err = nodes.run("--on-failure", recovery, *words)
    assert code == 0, err
    assert digest(nodes.out) == golden(base, 1)
    (found,) = result_in(out)["recoveries"]
    assert (found["kind"], found["ranks_after"]) == (recovery, ranks)
    # Nodes may share no folder for temporary files; then a relaunch does not see the note of a rank on the second.
    if recovery != "relaunch":
        assert found["failed"] == [int(kill[0]) for kill in kills]


def test_a_node_that_is_gone_is_launched_again(base: Path, tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, base, EPOCHS)
    code, out, err = nodes.lose_second("--on-failure", "relaunch")
    assert code == 0, err
    assert digest(nodes.out) == golden(base, EPOCHS)
    (found,) = result_in(out)["recoveries"]
    assert found["failed"] == [] and found["step"] == 0
    # Three epochs were seen; reading their lines and killing takes a while.
    assert 3 * STEPS_OF_EPOCH <= found["steps_lost"] < EPOCHS * STEPS_OF_EPOCH
    assert found["steps_redone"] - found["steps_lost"] in (0, 1)


def test_a_node_that_is_gone_ends_other_recoveries(base: Path, tmp_path: Path) -> None:
    """Open MPI 5.0.11 ends the whole job then."""
    nodes = Nodes(tmp_path, base, EPOCHS)
    code, out, err = nodes.lose_second("--on-failure", "shrink")
    assert code == 1 and "{" not in out, out
    assert not nodes.out.exists()
    (line,) = error_lines(err)
    assert "mpirun ended the whole job" in line and "--on-failure relaunch" in line


def test_a_cable_that_is_cut_ends_the_run(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection is closed, and keepalives find it."""
    for name, value in {"time": 3, "intvl": 1, "probes": 3}.items():
        monkeypatch.setenv(f"PRTE_MCA_oob_tcp_keepalive_{name}", str(value))
    nodes = Nodes(tmp_path, base, EPOCHS)
    code, _, err = nodes.lose_second("--on-failure", "shrink", how="cut")
    assert code == 1 and not nodes.out.exists()
    (line,) = error_lines(err)
    assert "mpirun ended the whole job" in line


@pytest.mark.thorough
def test_a_cable_that_is_cut_is_noticed_by_default(base: Path, tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, base, EPOCHS)
    code, _, err = nodes.lose_second("--on-failure", "shrink", how="cut")
    assert code == 1 and "mpirun ended the whole job" in err


def test_an_mpirun_of_ones_own(base: Path, tmp_path: Path) -> None:
    mpirun = (mpirun_program(), "--with-ft", "ulfm", "--map-by", "slot", "-np", RANKS)
    nodes = Nodes(tmp_path, base, 1)
    shrink = ("--on-failure", "shrink", "--kill", "3@5:backward")
    code, _, err = nodes.run(*shrink, mpirun=mpirun)
    assert code == 0, err
    assert digest(nodes.out) == golden(base, 1)
    respawn = ("--on-failure", "respawn", "--kill", "3@5:backward")
    code, _, err = nodes.run(*respawn, mpirun=mpirun)
    assert code != 0 and re.search("rank 3 failed, and .* needs --oversubscribe, or more slots than ranks", err), err
    code, _, err = nodes.run("--on-failure", "spare", mpirun=mpirun)
    assert code != 0
    (line,) = error_lines(err)
    assert "4 ranks work and 1 wait to take their places, but 4 were started; start mpirun with -np 5" in line
