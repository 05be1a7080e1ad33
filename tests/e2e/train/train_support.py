"""Drives bitrift-train as a user would, and reads back what it wrote with h5py."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from resident_program import resident

PROGRAM = Path(os.environ.get("BITRIFT_BIN_DIR", ".")) / "bitrift-train"
SGD = {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.0005}
ADAM = {"name": "adam", "learning_rate": 0.002}
LENET = {"name": "lenet"}
MLP = {"name": "mlp", "hidden": [48, 24], "norm": "batch"}
STRATEGIES = {
    "serial": ["--parallel", "serial"],
    "data2": ["--parallel", "data", "--ranks", "2"],
    "data4": ["--parallel", "data", "--ranks", "4"],
    "pipeline2": ["--parallel", "pipeline", "--ranks", "2", "--micro-batches", "2"],
}


def write_spec(path: Path, model: dict, optimizer: dict, **changes: Any) -> Path:
    """A training spec on the shipped digits."""
    spec = {
        "model": model,
        "data": {"name": "digits"},
        "optimizer": optimizer,
        "batch_size": 64,
        "epochs": 2,
        "seed": 11,
    } | changes
    path.write_text(json.dumps(spec))
    return path


def mpirun_program() -> str:
    """The mpirun that the programs were built with, or that BITRIFT_MPIRUN names."""
    cache = (PROGRAM.resolve().parents[1] / "CMakeCache.txt").read_text()
    named = next(line for line in cache.splitlines() if line.startswith("MPIEXEC_EXECUTABLE:"))
    return os.environ.get("BITRIFT_MPIRUN") or named.split("=", 1)[1]


def started(arguments: Sequence[object], environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """What subprocess needs for a run of bitrift-train as a fork of a resident one: `args` and `env`."""
    command = [str(PROGRAM), *map(str, arguments)]
    if "BITRIFT_RESIDENT_TOOLS" not in os.environ:
        return {"args": command, "env": environment}
    return resident(PROGRAM, mpirun_program()).start(command, environment)


def call(*arguments: object, timeout: float = 120, **more: Any) -> subprocess.CompletedProcess[str]:
    """Runs bitrift-train whatever its exit code. With preexec_fn in a new process, otherwise in a fork."""
    if "preexec_fn" in more:
        how = {"args": [str(PROGRAM), *map(str, arguments)]}
    else:
        how = started(arguments, more.pop("env", os.environ))
    return subprocess.run(**how, capture_output=True, text=True, timeout=timeout, **more)


def error_lines(stderr: str) -> list[str]:
    """mpirun ends its own messages with a NUL, which then stands before the next line of a rank."""
    return [line for line in stderr.replace("\0", "").splitlines() if line.startswith("bitrift-train: error: ")]


def run(*arguments: object, **more: Any) -> dict:
    """Runs bitrift-train, which must succeed, and returns its JSON."""
    done = call(*arguments, "--json", **more)
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    return json.loads(done.stdout)


def tensors(path: Path) -> dict[str, np.ndarray]:
    """All datasets of a checkpoint but the checksums."""
    found: dict[str, np.ndarray] = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return {name: np.asarray(value) for name, value in found.items() if not name.startswith("checksum/")}


def read_trace(path: Path) -> tuple[dict, list[dict], list[dict]]:
    """Header, steps and evaluations of a trace."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    evaluations = [line["evaluation"] for line in lines[1:] if "evaluation" in line]
    return lines[0], [line for line in lines[1:] if "evaluation" not in line], evaluations


def read_idx(name: str) -> np.ndarray:
    """One array of the shipped digits, read without bitrift."""
    import gzip

    folder = Path(__file__).resolve().parents[3] / "data" / "digits"
    raw = gzip.decompress((folder / f"{name}.gz").read_bytes())
    dimensions = raw[3]
    shape = np.frombuffer(raw, ">u4", dimensions, 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


class Driver:
    """The other end of `bitrift-train serve`: one connection for each rank."""

    def __init__(self, base: Path, options: list[str], ranks: int, log: Path) -> None:
        name = f"bitrift-test-{uuid.uuid4().hex}"
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind("\0" + name)
        self.listener.listen(ranks)
        self.listener.settimeout(60)
        self.log = log.open("w")
        # Launchers that end or are killed tidy up the session folders of their machine; ours is not among them.
        self.scratch = tempfile.TemporaryDirectory(prefix="bt-", ignore_cleanup_errors=True)
        how = started(["serve", base, "--connect", name, *options], os.environ | {"TMPDIR": self.scratch.name})
        self.process = subprocess.Popen(**how, stdout=self.log, stderr=self.log, start_new_session=True)
        self.files = []
        self.pids: list[int] = []
        for _ in range(ranks):
            connection, _ = self.listener.accept()
            connection.settimeout(60)
            file = connection.makefile("rw")
            hello = json.loads(file.readline())["hello"]
            self.files.append((hello["rank"], file, connection))
            self.pids.append(hello["pid"])
        self.files.sort(key=lambda item: item[0])
        self.ready = self.read(0)["ready"]

    def read(self, rank: int) -> dict:
        return json.loads(self.files[rank][1].readline())

    def send(self, message: dict) -> None:
        for _, file, _ in self.files:
            file.write(json.dumps(message) + "\n")
            file.flush()

    def ask(self, checkpoint: Path, epochs: int, **more: Any) -> dict:
        """One run; the result."""
        self.send({"run": {"id": "x", "checkpoint": str(checkpoint), "epochs": epochs} | more})
        return self.read(0)["result"]

    def hang_up(self) -> None:
        """What the kernel does when a driver dies."""
        for _, file, connection in self.files:
            file.close()
            connection.close()
        self.listener.close()

    def quit(self) -> int:
        self.send({"quit": True})
        return self.process.wait(timeout=30)

    def gone_after(self, limit: float) -> bool:
        """Whether all ranks end within `limit` seconds from now."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            self.process.poll()
            if not any(alive(pid) for pid in self.pids):
                return True
            time.sleep(0.02)
        return False


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@contextlib.contextmanager
def serving(base: Path, options: list[str], ranks: int, folder: Path) -> Iterator[Driver]:
    """A worker that is surely gone afterwards."""
    driver = Driver(base, options, ranks, folder / f"serve-{uuid.uuid4().hex[:8]}.log")
    try:
        yield driver
    finally:
        driver.hang_up()
        if not driver.gone_after(10):
            driver.process.kill()
        driver.process.wait(timeout=30)
        driver.log.close()
        driver.scratch.cleanup()
