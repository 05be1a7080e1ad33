"""The shipped example of runner.exec, DistributedDataParallel in Python, against bitrift-train: the same bits."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from train_support import LENET, PROGRAM, run, serving, write_spec

ROOT = Path(__file__).resolve().parents[3]
SAME = (
    "status",
    "steps",
    "nonfinite_step",
    "nonfinite_state",
    "replicas",
    "last_loss",
    "changed_tensors",
    "test_targets",
)


class ExecWorker:
    """`bitrift exec-worker` and the driver's end of its socket."""

    def __init__(self, base: Path, log: Path) -> None:
        name = f"bitrift-test-{uuid.uuid4().hex}"
        spec = json.loads((ROOT / "campaigns" / "exec-pytorch-ddp.json").read_text())
        words = [word.replace("{folder}", str(ROOT / "campaigns")) for word in spec["runner"]["exec"]["command"]]
        assert words[0] == "python3"
        runner = {"command": [sys.executable, *words[1:]], "arm": "data-2", "ranks": 2, "ignore_file": False}
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, log.open("w") as out:
            listener.bind("\0" + name)
            listener.listen(1)
            listener.settimeout(60)
            self.process = subprocess.Popen(
                [PROGRAM.with_name("bitrift"), "exec-worker", base, "--connect", name, "--runner", json.dumps(runner)],
                stdout=out,
                stderr=out,
            )
            self.connection, _ = listener.accept()
        self.connection.settimeout(120)
        self.file = self.connection.makefile("rw")
        assert json.loads(self.file.readline())["hello"]["ranks"] == 1
        self.ready = json.loads(self.file.readline())["ready"]

    def ask(self, checkpoint: Path, epochs: int, **more: object) -> dict:
        request = {"run": {"id": "x", "checkpoint": str(checkpoint), "epochs": epochs} | more}
        self.file.write(json.dumps(request) + "\n")
        self.file.flush()
        answer = json.loads(self.file.readline())
        assert "result" in answer, answer
        return answer["result"]

    def quit(self) -> int:
        self.file.write('{"quit":true}\n')
        self.file.flush()
        return self.process.wait(timeout=30)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    sgd = {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.0005, "nesterov": True}
    file = folder / "base.h5"
    run("train", write_spec(folder / "spec.json", LENET, sgd, epochs=3), "-o", file)
    return file


def flipped(base: Path, name: str, element: int, bit: int) -> Path:
    """A copy of the base in a folder of its own with one bit of a float32 tensor flipped."""
    folder = base.parent / f"{name.replace('/', '-')}-{element}-{bit}"
    folder.mkdir()
    file = Path(shutil.copy(base, folder / "ckpt.h5"))
    with h5py.File(file, "r+") as h5:
        values = h5[name][()]
        values.reshape(-1).view(np.uint32)[element] ^= np.uint32(1 << bit)
        h5[name][...] = values
    return file


@pytest.fixture
def worker(base: Path, tmp_path: Path) -> Iterator[ExecWorker]:
    worker = ExecWorker(base, tmp_path / "log")
    try:
        yield worker
        assert worker.quit() == 0
    finally:
        worker.connection.close()
        worker.process.kill()
        worker.process.wait()


def test_ddp_in_python_and_bitrift_train_give_the_same_results(base: Path, worker: ExecWorker, tmp_path: Path) -> None:
    runs = [
        (Path(shutil.copy(base, tmp_path / "ckpt.h5")), 0, {}),
        (flipped(base, "model/conv1.weight", 3, 30), 1, {}),
        (flipped(base, "optimizer/momentum_buffer/fc2.weight", 100, 29), 1, {"order_seed": 77}),
        (flipped(base, "model/fc3.bias", 4, 0), 2, {}),
    ]
    with serving(base, ["--parallel", "data", "--ranks", "2"], 2, tmp_path) as ours:
        wanted = [ours.ask(file, epochs, **more) for file, epochs, more in runs]
        ours.quit()
    found = [worker.ask(file, epochs, **more) for file, epochs, more in runs]
    assert {one["status"] for one in wanted} == {"done", "nonfinite"}
    for one, other in zip(wanted, found, strict=True):
        assert {key: one.get(key) for key in SAME} == {key: other.get(key) for key in SAME}
        assert len(set(other["replica_digests"])) == 1
    for result in (wanted, found):
        assert len({one["final_digest"] for one in result}) == len(runs)
