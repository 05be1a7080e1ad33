"""A training program of someone else, for test_exec_runner.py: what it does depends on what was altered in its file.

python exec_trainer.py CHECKPOINT RESULT EPOCHS BASE OFFSET [--order-seed SEED]. OFFSET is where model/fc1.weight begins
in the file; a file in which one element of it differs from BASE does MODES[element].
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

MODES = ["differ", "raise", "signal", "hang", "garbage", "nothing", "exit", "grandchild"]
CHECKSUM_BYTES = 4  # an altered element changes its tensor's checksum too


def result(epochs: int, loss: float, digest: str) -> dict:
    test = {"test_loss": loss, "test_accuracy": 0.9, "test_capped_loss": min(loss, math.log(10))}
    evaluations = [
        {"epoch": epoch, "step": epoch * 4, "train_loss": loss, "train_accuracy": 0.9} | test
        for epoch in range(1, epochs + 1)
    ] or [{"epoch": 0, "step": 0} | test]
    result = {"status": "done", "replicas": [evaluations], "steps": 4 * epochs, "final_digest": digest}
    return result | {"test_targets": 100}


def start_orphan() -> None:
    """A process in a session of its own that nobody waits for."""
    subprocess.Popen(["sleep", "1000"], start_new_session=True)


def misbehave(mode: str, out: Path) -> None:
    if mode == "raise":
        raise ValueError("this weight is strange")
    if mode == "signal":
        os.kill(os.getpid(), signal.SIGSEGV)
    if mode == "exit":
        print("out of patience", flush=True)
        sys.exit(3)
    if mode == "hang":
        start_orphan()
        time.sleep(1000)
    if mode == "garbage":
        out.write_text('{"status": "done",\n "replicas": 7}')
        sys.exit(0)
    if mode == "nothing":
        sys.exit(0)
    if mode == "grandchild":
        start_orphan()


def main() -> None:
    file, out, epochs, base, offset = sys.argv[1:6]
    assert os.environ["BITRIFT_CHECKPOINT"] == file and os.environ["BITRIFT_RESULT"] == out
    seed = sys.argv[7] if len(sys.argv) == 8 else ""
    assert os.environ["BITRIFT_ORDER_SEED"] == seed
    loss = 1 + (int(seed) % 1000 / 10000 if seed else 0)
    first, second = Path(base).read_bytes(), Path(file).read_bytes()
    changed = [at for at, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]
    if changed and int(epochs) == 0:
        answer = result(0, 100.0, "negated")
    elif len(changed) > 1 + CHECKSUM_BYTES:
        answer = {"status": "nonfinite", "steps": 0, "nonfinite_step": 0, "last_loss": "nan", "detail": "loss is nan"}
    elif changed:
        mode = MODES[(changed[0] - int(offset)) // 4]
        misbehave(mode, Path(out))
        answer = result(int(epochs), 50.0 if mode == "differ" else loss, mode)
    else:
        answer = result(int(epochs), loss, "clean" + seed)
    Path(out).write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
