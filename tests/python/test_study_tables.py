"""bitrift.CheckpointStudy: the tables say what summary.json says, and other folders are refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import bitrift
import pytest

RATE = {"estimate": 0.25, "anytime": [0.1, 0.5], "wilson": [0.2, 0.3], "clopper_pearson": [0.1, 0.4]}
SUMMARY = {
    "schema": "bitrift/checkpoint-study-summary/1",
    "files": [
        {
            "format": "npz",
            "writer": "native",
            "size": {"bytes": 110, "payload_bytes": 100, "tensor_bytes": 100, "parameters": 25, "overhead": 0.1}
            | {"payload_ratio": 1.0, "bytes_per_parameter": 4.4},
            "determinism": {"equal": False, "differing_bytes": 2, "first_difference": {"structure": "header"}},
            "damage": {
                "strata": [
                    {"stratum": "payload", "counts": {"same": 1}, "flips": 4, "rates": {"same": RATE}},
                ],
                "file": {"same": RATE},
            },
        },
        {"format": "dcp", "writer": "native", "missing": "not installed"},
    ],
    "replay": [
        {"format": "npz", "writer": "native", "flips": 8, "counts": {"undetected": 3, "SDC": 2, "not_replayed": 1}}
        | {"rates": {"undetected": RATE, "SDC": RATE}}
    ],
    "kill": [
        {
            "format": "npz",
            "writer": "native",
            "calls": 3,
            "points": 5,
            "kills": 4,
            "counts": dict.fromkeys(["previous", "complete", "detected", "silently_wrong", "crash", "hang"], 0)
            | {"previous": 1, "detected": 3},
            "left": 1,
        }
    ],
    "state": [
        {"piece": "rng/seed", "tensors": 1, "changed": 1, "steps": 9, "first_step": 1, "largest_difference": 0.5},
        {"piece": "progress/cursor", "tensors": 3, "changed": 3, "steps": 0, "refused": "no"},
    ],
    "cost": {"saves": [{"format": "raw", "block_seconds": {"median": 0.5}}]},
    "policy": [
        {
            "mode": "sync",
            "computed_interval": 20,
            "intervals": [
                {
                    "interval": 20,
                    "interval_seconds": 2.0,
                    "lives": 5,
                    "useful": 0.8,
                    "student_t": [0.7, 0.9],
                    "predicted": 0.81,
                    "predicted_own_costs": 0.77,
                    "replayed": 0.78,
                    "replayed_own_costs": 0.79,
                    "difference": 0.02,
                    "difference_student_t": [-0.01, 0.05],
                }
            ],
        }
    ],
}


def folder(path: Path, summary: object) -> Path:
    (path / "summary.json").write_text(json.dumps(summary))
    return path


def test_tables_are_those_of_the_summary(tmp_path: Path) -> None:
    study = bitrift.CheckpointStudy(folder(tmp_path, SUMMARY))
    (size,) = study.sizes().itertuples()
    assert (size.format, size.bytes, size.overhead, size.bytes_per_parameter) == ("npz", 110, 0.1, 4.4)
    (saves,) = study.determinism().itertuples()
    assert (saves.equal, saves.structure) == (False, "header")
    payload, whole = study.damage().itertuples()
    assert payload[1:] == ("npz", "native", "payload", "same", 0.25, 0.1, 0.5, 1, 4)
    assert whole[1:8] == ("npz", "native", "file", "same", 0.25, 0.1, 0.5)
    undetected, sdc = study.replays().itertuples(index=False)
    assert tuple(undetected) == ("npz", "native", "undetected", 0.25, 0.1, 0.5, 3, 8)
    assert tuple(sdc) == ("npz", "native", "SDC", 0.25, 0.1, 0.5, 2, 8)
    assert study.damage()["count"].isna().tolist() == [False, True]
    (kill,) = study.kills().itertuples()
    assert kill[1:] == ("npz", "native", 3, 4, 1, 0, 3, 0, 0, 0, 1)
    seed, cursor = study.states().itertuples()
    assert (seed.first_step, seed.largest_difference, seed.refused, cursor.refused) == (1, 0.5, "", "no")
    assert study.states()["first_evaluation"].isna().all()
    assert study.saves()["block_seconds.median"].tolist() == [0.5]
    (interval,) = study.policy().itertuples()
    assert interval[1:] == ("sync", 20, 2.0, 5, 0.8, 0.7, 0.9, 0.81, 0.77, 0.78, 0.79, 0.02, -0.01, 0.05, True)


def test_a_study_of_nothing_has_empty_tables(tmp_path: Path) -> None:
    study = bitrift.CheckpointStudy(folder(tmp_path, {"schema": SUMMARY["schema"], "files": []}))
    for table in (study.sizes, study.determinism, study.damage, study.replays, study.kills, study.states):
        assert table().empty
    assert study.saves().empty and study.policy().empty
    assert repr(study) == f"CheckpointStudy({str(tmp_path)!r})"


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(bitrift.NotFound, match="run bitrift-train checkpoint-study to its end"):
        bitrift.CheckpointStudy(tmp_path)
    for summary in ("other", ["schema"]):
        with pytest.raises(bitrift.BadFile, match="its schema is not"):
            bitrift.CheckpointStudy(folder(tmp_path, summary))
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(bitrift.BadFile, match=r"summary\.json"):
        bitrift.CheckpointStudy(tmp_path)


def test_a_study_runs_and_its_mistakes_are_errors(tmp_path: Path) -> None:
    if not (Path(os.environ["BITRIFT_BIN_DIR"]) / "bitrift-train").exists():
        pytest.skip("this build has no bitrift-train (BITRIFT_TRAIN is off)")
    spec = tmp_path / "spec.json"
    base = {
        "model": {"name": "lenet"},
        "data": {"name": "digits"},
        "optimizer": {"name": "sgd", "learning_rate": 0.1},
        "batch_size": 64,
        "epochs": 1,
        "seed": 1,
    }
    spec.write_text(
        json.dumps({"name": "s", "base": {"train": base, "steps": 1}, "formats": ["npz"], "parts": ["size"]})
    )
    study = bitrift.CheckpointStudy.run(spec, tmp_path / "out", progress=False)
    assert set(study.sizes()["writer"]) == {"bitrift", "native"}
    spec.write_text(json.dumps({"name": "s", "base": {}}))
    with pytest.raises(bitrift.BadInput, match="base"):
        bitrift.CheckpointStudy.run(spec, tmp_path / "out", progress=False)
