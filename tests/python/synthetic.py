"""Files made without bitrift: a checkpoint by h5py, a campaign's folder by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

Row = dict[str, Any]

GOLDEN = {
    "train_loss": 0.1,
    "train_accuracy": 0.97,
    "test_loss": 0.2,
    "test_accuracy": 0.95,
    "test_capped_loss": 0.18,
}
AT_LOAD = {"test_loss": 0.3, "test_accuracy": 0.9, "test_capped_loss": 0.27}


def write_checkpoint(path: Path, seed: int = 0) -> None:
    """Four contiguous tensors, one compressed and one of text."""
    random = np.random.default_rng(seed)
    with h5py.File(path, "w") as file:
        file["model/conv1.weight"] = random.normal(size=(6, 1, 5, 5)).astype(np.float32)
        file["model/conv1.bias"] = random.normal(size=6).astype(np.float64)
        file["model/conv10.bias"] = random.normal(size=6).astype(">f4")
        file["optimizer/momentum_buffer/conv1.weight"] = random.normal(size=(6, 1, 5, 5)).astype(np.float16)
        file.create_dataset("extra/packed", data=np.zeros(1000, np.float32), compression="gzip")
        file["extra/note"] = "text"


def crc32c(data: bytes) -> int:
    """CRC-32C bit by bit (RFC 3720, appendix B.4)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def row(kind: str, arm: str, stratum: str, draw: int, **fields: Any) -> Row:
    """A row without result or failure; `fields` add them."""
    return {
        "kind": kind,
        "id": {"arm": arm, "stratum": stratum, "draw": draw},
        "stratum_bits": 0,
        "measure": "bit",
        "plane": "value",
        "faults": [],
        "landed": True,
        "no_change": False,
        "volatile": {
            "started": "2026-01-31T12:00:00.000Z",
            "host": "h",
            "seconds": 1.0,
            "run_seconds": 0.5,
            "attempts": 1,
        },
        **fields,
    }


def result(metrics: dict[str, float], digest: str, *, step: int = 20, status: str = "done") -> Row:
    """The result of a run with one replica and one evaluation."""
    return {
        "id": "x",
        "status": status,
        "detail": "",
        "replicas": [[{"epoch": 6 if step else 5, "step": step, **metrics}]],
        "steps": step,
        "test_targets": 1000,
        "nonfinite_state": False,
        "final_digest": digest,
        "replica_digests": [digest],
        "changed_tensors": [],
        "last_loss": "",
        "seconds": 0.0,
    }


def clean_rows(arm: str) -> list[Row]:
    """Controls, envelope runs and canaries of an arm."""
    rows = [row("control", arm, "control", i, result=result(GOLDEN, "golden")) for i in range(2)]
    rows.append(row("control", arm, "control:zero", 0, result=result(AT_LOAD, "base", step=0)))
    for i in range(20):
        shift = 0.001 * i
        worse = {name: value + (shift if "loss" in name else -shift) for name, value in GOLDEN.items()}
        rows.append(row("envelope", arm, "envelope", i, result=result(worse, f"envelope{i}")))
    broken = result({}, "", status="nonfinite") | {"replicas": [[]]}
    rows.append(row("canary", arm, "canary:nan", 0, result=broken))
    negated = {"test_loss": 9.0, "test_accuracy": 0.01, "test_capped_loss": 2.3}
    rows.append(row("canary", arm, "canary:negate", 0, result=result(negated, "negated", step=0)))
    rows.append(row("canary", arm, "canary:none", 0, result=result(GOLDEN, "golden")))
    return rows


def trial_rows(arm: str, stratum: str, bits: int, masked: int, sdc: int, crash: int) -> list[Row]:
    """Trials of one stratum with these outcomes, in this order of draws."""
    rows = []
    for draw in range(masked + sdc + crash):
        if draw < masked:
            ending: Row = {"result": result(GOLDEN, "golden")}
        elif draw < masked + sdc:
            ending = {"result": result(GOLDEN | {"test_accuracy": 0.1}, "other")}
        else:
            ending = {"failure": {"reason": "signal", "detail": "Segmentation fault", "signal": 11}}
        rows.append(row("trial", arm, stratum, draw, **ending) | {"stratum_bits": bits})
    return rows


def journal_line(value: Row) -> bytes:
    text = json.dumps(value, separators=(",", ":")).encode()
    return b'{"crc32c":"%08x","row":%s}\n' % (crc32c(text), text)


def write_campaign(folder: Path, rows: list[Row], arms: list[str]) -> None:
    """campaign.json and trials.jsonl, as `bitrift campaign run` leaves them."""
    spec = {
        "name": "synthetic",
        "seed": 7,
        "base": {"checkpoint": "base.h5"},
        "arms": [{"name": arm, "parallel": {"kind": "serial"}} for arm in arms],
        "strata": {"roles": ["weight", "bias"], "fields": ["sign", "exponent"]},
        "trials_per_stratum": 10,
    }
    folder.mkdir(parents=True, exist_ok=True)
    identity = {"schema": 1, "seed": 7, "spec": spec, "drills": [], "provenance": {}}
    (folder / "campaign.json").write_text(json.dumps(identity), encoding="utf-8")
    (folder / "trials.jsonl").write_bytes(b"".join(journal_line(one) for one in rows))


def study_rows() -> list[Row]:
    """Two arms, four strata of different sizes, ten trials each."""
    rows = []
    for arm, shift in (("data2", 1), ("serial", 0)):
        rows += clean_rows(arm)
        rows += trial_rows(arm, "weight.sign", 1000, 5 - shift, 4, 1 + shift)
        rows += trial_rows(arm, "bias.sign", 100, 10, 0, 0)
        rows += trial_rows(arm, "weight.exponent", 8000, 2, 3, 5)
        rows += trial_rows(arm, "bias.exponent", 800, 8, 1, 1)
    return rows
