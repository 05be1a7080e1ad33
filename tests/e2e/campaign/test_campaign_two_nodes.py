"""One trial whose ranks run on two machines: two network namespaces here, with a cable between them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import uuid
from pathlib import Path

import pytest
from campaign_support import (
    BIN,
    CONTROLS,
    MARK,
    SMALL_BASE,
    campaign,
    journal_lines,
    processes_with,
    read_rows,
    wait_until,
)
from nodes_support import FIRST, SCRIPT, SECOND, two_nodes

SPEC = {
    "name": "two-nodes",
    "seed": 11,
    "base": SMALL_BASE,
    "arms": [
        {"name": "data-2", "parallel": {"kind": "data", "ranks": 2}},
        {"name": "pipeline-2", "parallel": {"kind": "pipeline", "ranks": 2}},
    ],
    "strata": {"roles": ["weight"], "fields": ["sign", "exponent"]},
    "trials_per_stratum": 3,
    "controls": CONTROLS,
}


pytestmark = two_nodes


class TwoNodes:
    """A folder with a spec whose ranks are started one on each node, and say on which they are."""

    def __init__(self, place: Path, **worker: object) -> None:
        self.place = place
        self.mark = uuid.uuid4().hex
        rank = place / "rank"
        rank.write_text(
            "#!/bin/sh\n"
            f'echo "$OMPI_COMM_WORLD_RANK $(hostname) $(readlink /proc/self/ns/net)" >> {place}/where\n'
            'exec "$@"\n'
        )
        rank.chmod(0o755)
        launch = (
            f"mpirun --prtemca plm_ssh_agent {place}/agent --host {FIRST}:1,{SECOND}:1 --map-by node "
            f"-np {{ranks}} {rank} {{command}}"
        )
        self.spec = place / "spec.json"
        self.spec.write_text(json.dumps(SPEC | {"worker": {"launch": launch} | worker}))

    def start(self, *words: object, **env: str) -> subprocess.Popen[str]:
        command = ["unshare", "--net", SCRIPT, self.place, BIN / "bitrift", "campaign", *words]
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", MARK: self.mark}
        venv = {"PATH": f"{Path(__file__).resolve().parents[3]}/.venv/bin:{os.environ['PATH']}"}
        return subprocess.Popen(
            [str(word) for word in command],
            env=os.environ | venv | root | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: object, **env: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*words, **env)
        out, err = process.communicate(timeout=240)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def places(self) -> dict[str, set[str]]:
        """Rank to the namespaces that it was started in."""
        found: dict[str, set[str]] = {}
        for line in (self.place / "where").read_text().splitlines():
            rank, _, space = line.split()
            found.setdefault(rank, set()).add(space)
        return found


def test_trials_across_two_nodes_give_the_journal_of_one(tmp_path: Path) -> None:
    plain = tmp_path / "plain.json"
    plain.write_text(json.dumps(SPEC))
    done = campaign("run", plain, "-o", tmp_path / "one", "--workers", "1")
    assert done.returncode == 0, done.stderr
    nodes = TwoNodes(tmp_path, connect="network")
    done = nodes.run("run", nodes.spec, "-o", tmp_path / "two", "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert read_rows(tmp_path / "two", check_crc=True) == read_rows(tmp_path / "one", check_crc=True)
    places = nodes.places()
    assert set(places) == {"0", "1"}
    assert len(places["0"]) == len(places["1"]) == 1
    assert places["0"] != places["1"]
    # A trial again, alone, found by the address that the user names.
    again = nodes.run("replay", tmp_path / "two", "data-2/weight.sign/1", BITRIFT_LISTEN=FIRST)
    assert again.returncode == 0, again.stderr


@pytest.mark.thorough
def test_ranks_elsewhere_end_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    nodes = TwoNodes(tmp_path, connect="network")
    process = nodes.start("run", nodes.spec, "-o", tmp_path / "two", "--workers", "1")
    wait_until(lambda: journal_lines(tmp_path / "two"), timeout=120)

    def of(name: str) -> list[int]:
        return [pid for pid, line in processes_with(nodes.mark).items() if name in line.split(" ")[0]]

    assert len(of("bitrift-train")) >= 2
    for pid, line in processes_with(nodes.mark).items():
        if line.split(" ")[0].endswith("/bitrift"):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not of("bitrift-train"), timeout=10)
    wait_until(lambda: not processes_with(nodes.mark), timeout=30)
    process.communicate(timeout=10)


@pytest.mark.thorough
def test_a_local_socket_is_out_of_reach_from_another_node(tmp_path: Path) -> None:
    """What the setting is for: without it these two nodes cannot run one trial."""
    nodes = TwoNodes(tmp_path)
    done = nodes.run("run", nodes.spec, "-o", tmp_path / "two", "--workers", "1")
    assert done.returncode == 2
    assert "worker.connect" in done.stderr
    wait_until(lambda: not processes_with(nodes.mark), timeout=30)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"worker": {"connect": "network", "memory": "4G"}}, "leave out worker.memory"),
        ({"worker": {"connect": "far"}}, "worker.connect"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, change: dict, words: str) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(SPEC | change))
    done = campaign("run", path, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()
