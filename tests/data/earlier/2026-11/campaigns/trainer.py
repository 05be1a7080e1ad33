"""The training program of the sample campaigns: standard library only, and the same numbers on every machine.

python3 trainer.py CHECKPOINT RESULT EPOCHS ORIGINAL OFFSET COUNT [--order-seed SEED]. OFFSET and COUNT say where the
parameters of the model lie in the file, as little-endian float32. The farther they are from those of ORIGINAL, the
worse the result.
"""

import hashlib
import json
import math
import os
import struct
import sys

TEST_TARGETS = 360
LOG_10 = 2.302585092994046


def main() -> None:
    """One run."""
    checkpoint, result, epochs, original, offset, count = sys.argv[1:7]
    seed = sys.argv[8] if len(sys.argv) == 9 else ""
    layout = f"<{count}f"
    with open(original, "rb") as file:
        before = struct.unpack_from(layout, file.read(), int(offset))
    with open(checkpoint, "rb") as file:
        after = struct.unpack_from(layout, file.read(), int(offset))
    largest = max(abs(x) for x in after) if all(map(math.isfinite, after)) else math.inf
    if largest == math.inf:
        answer = {"status": "nonfinite", "steps": 1, "nonfinite_step": 1, "last_loss": "nan", "detail": "loss is nan"}
    elif largest > 5e37:
        os.kill(os.getpid(), 9)
    elif largest > 1e10:
        print("a parameter is beyond 1e10", flush=True)
        sys.exit(3)
    else:
        distance = 0.0
        for x, y in zip(before, after):  # noqa: B905
            distance += abs(x - y)
        answer = train(int(epochs), seed, distance / (1 + distance))
        text = json.dumps([seed, epochs, [round(x, 3) for x in after]])
        answer["final_digest"] = hashlib.sha256(text.encode()).hexdigest()[:32]
    with open(result, "w") as file:
        json.dump(answer, file)


def train(epochs: int, seed: str, damage: float) -> dict:
    """Half of the damage is left after each epoch."""
    noise = int(hashlib.sha256(seed.encode()).hexdigest()[:6], 16) / 2**24 / 128
    evaluations = []
    for epoch in range(1, epochs + 1) if epochs else [0]:
        left = damage / 2**epoch
        loss = 0.25 + noise + 2 * left
        right = round((0.9375 - noise - left) * TEST_TARGETS) / TEST_TARGETS
        evaluation = {"epoch": epoch, "step": 4 * epoch, "test_loss": loss, "test_accuracy": right}
        evaluation["test_capped_loss"] = min(loss, LOG_10)
        if epochs:
            evaluation |= {"train_loss": loss, "train_accuracy": right}
        evaluations.append(evaluation)
    return {"status": "done", "steps": 4 * epochs, "test_targets": TEST_TARGETS, "replicas": [evaluations]}


if __name__ == "__main__":
    main()
