"""Campaign folders made by hand, for borders of the verdict that training does not meet."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from campaign_support import crc32c

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from synthetic import Row, row

USUAL = {
    "test_accuracy": 0.9,
    "test_loss": 0.25,
    "test_capped_loss": 0.25,
    "train_accuracy": 0.95,
    "train_loss": 0.125,
}
AT_LOAD = {"test_accuracy": 0.89, "test_loss": 0.3, "test_capped_loss": 0.3}
STEPS = 20  # of an epoch

Metrics = dict[str, Any]
Evaluations = Sequence[Metrics]


def result(replicas: Sequence[Evaluations], digest: str, /, **changes: Any) -> Row:
    """What a run gave: an evaluation after every epoch, with the usual metrics where none are given."""
    return {
        "id": "x",
        "status": "done",
        "detail": "",
        "replicas": [
            [{"epoch": 5 + e, "step": STEPS * e} | USUAL | metrics for e, metrics in enumerate(evaluations, 1)]
            for evaluations in replicas
        ],
        "steps": STEPS * len(replicas[0]),
        "nonfinite_state": False,
        "final_digest": digest,
        "replica_digests": [digest] * len(replicas),
        "changed_tensors": [],
        "last_loss": "",
    } | changes


@dataclass
class Hand:
    """The rows of one arm as they are added."""

    arm: str = "serial"
    targets: int | None = 1000
    length: int = 1  # evaluations of a run
    replicas: int = 1
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        zero = result([[{}]] * self.replicas, "base")
        for evaluations in zero["replicas"]:
            evaluations[:] = [{"epoch": 5, "step": 0} | AT_LOAD]
        self.rows.append(row("control", self.arm, "control:zero", 0, result=zero | {"steps": 0}))

    def copies(self, evaluations: Evaluations | Sequence[Evaluations] | Metrics) -> Sequence[Evaluations]:
        """One replica's single evaluation, its evaluations, or those of every replica."""
        if isinstance(evaluations, dict):
            evaluations = [evaluations] * self.length
        if isinstance(evaluations[0], dict):
            evaluations = [evaluations] * self.replicas
        return evaluations

    def add(self, kind: str, evaluations: Any = None, *, stratum: str = "", order: int = 0, **changes: Any) -> Row:
        """One more run of a kind; `changes` are made to its result, or `failure` stands in its place."""
        stratum = stratum or {"trial": "weight.sign"}.get(kind, kind)
        draw = sum(one["kind"] == kind and one["id"]["stratum"] == stratum for one in self.rows)
        failure = changes.pop("failure", None)
        digest = changes.pop("digest", f"{stratum}/{draw}")
        ending: Row = {"failure": {"reason": failure, "detail": "d", "signal": 11 * (failure == "signal")}}
        if failure is None:
            ending = {"result": result(self.copies(evaluations or {}), digest, **changes)}
            if self.targets is not None:
                ending["result"]["test_targets"] = self.targets
        new = row(kind, self.arm, stratum, draw, **ending) | {"stratum_bits": 1000 * (kind == "trial")}
        self.rows.append(new | ({"order": order} if order else {}))
        return self.rows[-1]

    def golden(self, evaluations: Any = None, order: int = 0) -> None:
        """Two no-flip runs, and for the checkpoint's own order the canaries."""
        stratum = f"control:order-{order}" if order else "control"
        digest = f"golden{order}"
        for _ in range(2):
            self.add("control", evaluations, stratum=stratum, order=order, digest=digest)
        if order == 0:
            self.add("canary", evaluations, stratum="canary:none", digest=digest)
            broken = {"status": "nonfinite", "replicas": [[]] * self.replicas, "steps": 0, "nonfinite_step": 0}
            self.add("canary", stratum="canary:nan", **broken)
            negated = {"epoch": 5, "step": 0, "test_accuracy": 0.01, "test_loss": 9.0, "test_capped_loss": 2.0}
            self.add("canary", stratum="canary:negate", replicas=[[negated]] * self.replicas, steps=0)

    def envelope(self, runs: Sequence[Any]) -> None:
        for evaluations in runs:
            self.add("envelope", evaluations)


def line(value: Row) -> bytes:
    text = json.dumps(value, separators=(",", ":")).encode()
    return b'{"crc32c":"%08x","row":%s}\n' % (crc32c(text), text)


def write(folder: Path, *arms: Hand, controls: Row | None = None, **analysis: Any) -> Path:
    """campaign.json and trials.jsonl; `analysis` as in a spec, with both usual metrics unless they are None."""
    rows = [one for arm in arms for one in arm.rows]
    first = [one for one in rows if one["id"]["arm"] == arms[0].arm]
    counts = {kind: sum(one["kind"] == kind for one in first) for kind in ("envelope", "held_out", "jitter")}
    asked = {"metrics": ["test_accuracy", "test_capped_loss"], "judge": "worst"} | analysis
    spec = {
        "name": "by-hand",
        "seed": 7,
        "base": {"checkpoint": "base.h5"},
        "resume": {"epochs": arms[0].length},
        "arms": [{"name": arm.arm, "parallel": {"kind": "serial"}} for arm in arms],
        "strata": {"roles": ["weight"], "fields": ["sign"]},
        "trials_per_stratum": 10,
        "controls": counts | {"envelope": max(20, counts["envelope"])} | (controls or {}),
        "analysis": {key: value for key, value in asked.items() if value is not None},
    }
    folder.mkdir(parents=True, exist_ok=True)
    identity = {"schema": 1, "seed": 7, "spec": spec, "drills": [], "provenance": {}}
    (folder / "campaign.json").write_text(json.dumps(identity), encoding="utf-8")
    (folder / "trials.jsonl").write_bytes(b"".join(map(line, rows)))
    return folder


def random_evaluation(random: np.random.Generator, targets: int, bad: float) -> dict[str, float]:
    """Coarse enough for ties; `bad` moves all metrics to their bad side."""
    loss = 0.25 * math.exp(round(random.exponential() + bad, 1) / 4)
    right = round(targets * min(1, max(0, 0.9 - 0.03 * (random.exponential() + bad))))
    return {
        "test_accuracy": right / targets,
        "test_capped_loss": loss,
        "test_loss": loss * round(1 + random.exponential(), 1),
        "train_accuracy": round(0.95 - 0.01 * (random.exponential() + bad), 3),
        "train_loss": 0.125 * math.exp(round(random.normal() + bad, 1)),
    }


def add_own_metrics(hand: Hand) -> None:
    """Adds a perplexity and a count to every evaluation, which follow its test loss and accuracy, and drops both."""
    for one in hand.rows:
        for replica in one.get("result", {}).get("replicas", []):
            for evaluation in (each for each in replica if "test_loss" in each):  # replicas may share theirs
                loss, right = evaluation.pop("test_loss"), evaluation.pop("test_accuracy")
                evaluation.pop("test_capped_loss")
                evaluation["lower_is_better"] = {"perplexity": round(math.exp(min(9, loss)), 2)}
                evaluation["higher_is_better"] = {"points": round(40 * right) - 30 + int(1e4 * loss) % 2}


def random_journal(random: np.random.Generator) -> Hand:
    """A journal of any length, with any number of replicas and of data orders."""
    targets = int(random.choice([36, 360]))
    hand = Hand(targets=targets, length=int(random.integers(1, 4)), replicas=int(random.integers(1, 4)))
    shape = range(hand.replicas), range(hand.length)
    orders = int(random.integers(1, 4))

    def run(bad: float = 0) -> list[list[dict[str, float]]]:
        return [[random_evaluation(random, targets, bad * random.random()) for _ in shape[1]] for _ in shape[0]]

    for order in range(orders):
        hand.golden(run(), order)
    hand.envelope([run() for _ in range(int(random.choice([20, 33, 99, 120])))])
    for draw in range(40):
        hand.add("trial", run(float(random.choice([0, 2, 12]))), order=draw % orders)
    for draw in range(10):
        hand.add("held_out", run())
        hand.add("jitter", run(), order=draw % orders)
    return hand
