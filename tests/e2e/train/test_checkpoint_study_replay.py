"""The part `replay` of a checkpoint study: its numbers are those of the damage rows and of the campaign it ran."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
import safetensors.numpy
from study_support import flip, flips_of, one_line, rows_of, study, write
from train_support import PROGRAM, call

TRAINING = {
    "model": {"name": "mlp", "hidden": [24], "norm": "none"},
    "data": {"name": "digits", "train_samples": 512, "test_samples": 256},
    "optimizer": {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9},
    "schedule": {"name": "step", "every": 8, "gamma": 0.1},
    "batch_size": 64,
    "epochs": 10,
    "seed": 11,
}
FLIPS = 50
KEYS = {
    "base": {"train": TRAINING},
    "parts": ["damage", "replay"],
    "formats": ["hdf5", "npz", "safetensors"],
    "damage": {"flips": 60, "seed": 4},
    "replay": {"flips": FLIPS},
}
CLASSES = {"bitwise": "masked", "reconverged": "masked", "within_noise": "masked"} | {
    **dict.fromkeys(["low_test_accuracy", "high_test_loss", "training_only"], "SDC"),
    **dict.fromkeys(["nonfinite", "exception", "signal", "hang", "rejected"], "crash"),
}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    spec = write(folder, **KEYS)
    ended = study(spec, folder / "out")
    assert ended.returncode == 0 and "not replayed\n" in ended.stdout, ended.stderr
    before = (folder / "out" / "rows.jsonl").read_bytes()
    # Without its last rows, the study takes them from the campaign, which has ended.
    (folder / "out" / "rows.jsonl").write_bytes(before[: before.rindex(b"\n", 0, -200) + 9])
    again = study(spec, folder / "out")
    assert again.stdout == ended.stdout and (folder / "out" / "rows.jsonl").read_bytes() == before
    return folder / "out"


def replays_of(folder: Path) -> list[dict]:
    return [row for row in rows_of(folder) if row["part"] == "replay"]


def test_every_silent_flip_of_payload_is_replayed(done: Path) -> None:
    silent = {
        (row["format"], row["writer"], row["draw"])
        for row in flips_of(done)
        if row["stratum"] == "payload" and row["outcome"] == "silently_wrong" and row["draw"] < FLIPS
    }
    assert {(row["format"], row["writer"], row["draw"]) for row in replays_of(done)} == silent
    assert len(silent) == 4 * FLIPS  # all of hdf5 and safetensors, none of npz


def test_the_campaign_flips_what_the_reader_of_the_damaged_file_returns(done: Path, tmp_path: Path) -> None:
    payload = [row for row in flips_of(done) if row["stratum"] == "payload"]
    faults = {(row["format"], row["writer"], row["draw"]): row["fault"] for row in payload}
    trials = [json.loads(line)["row"] for line in (done / "replay" / "trials.jsonl").read_text().splitlines()]
    struck = {trial["id"]["stratum"]: trial["faults"] for trial in trials if trial["kind"] == "trial"}
    for row in replays_of(done):
        if row["format"] != "safetensors":
            continue
        key = (row["format"], row["writer"], row["draw"])
        shutil.copy(done / "files" / f"{key[0]}-{key[1]}.safetensors", tmp_path / "a")
        flip(tmp_path / "a", faults[key])
        found = safetensors.numpy.load_file(tmp_path / "a")
        with h5py.File(done / "base.h5") as base:
            (tensor,) = (name for name in found if not np.array_equal(found[name], base[name][()], equal_nan=True))
            (element,) = np.flatnonzero((found[tensor] != base[tensor][()]).reshape(-1))
            old = base[tensor][()].reshape(-1)[element : element + 1].view(f"u{found[tensor].itemsize}")
        new = found[tensor].reshape(-1)[element : element + 1].view(old.dtype)
        change = {"tensor": tensor, "element": int(element), "mask": hex(int(old[0] ^ new[0]))}
        assert row["change"] == change
        (fault,) = struck[f"{key[0]}-{key[1]}-{key[2]}"]
        assert (fault["tensor"], fault["element"]) == (tensor, element)
        assert (int(fault["old"], 16), int(fault["new"], 16)) == (int(old[0]), int(new[0]))


def hypergeometric(k: int, n: int, hits: int, bits: int) -> float:
    return math.comb(hits, k) * math.comb(bits - hits, n - k) / math.comb(bits, n)


def test_outcomes_and_rates_are_those_of_the_campaign(done: Path) -> None:
    groups = json.loads((done / "replay" / "summary.json").read_text())["groups"]
    said = {group["key"]["stratum"]: group for group in groups}
    rows = replays_of(done)
    assert len(said) == len(rows)
    for row in rows:
        group = said[f"{row['format']}-{row['writer']}-{row['draw']}"]
        assert group["reasons"] == {row["reason"]: 1} and group["counts"][row["outcome"]] == 1
        assert CLASSES[row["reason"]] == row["outcome"]
    assert {row["outcome"] for row in rows} >= {"masked", "crash"}  # with this seed
    kinds = json.loads((done / "summary.json").read_text())["replay"]
    assert [(kind["format"], kind["writer"]) for kind in kinds] == [
        (form, writer) for form in KEYS["formats"] for writer in ("bitrift", "native")
    ]
    for kind in kinds:
        own = [row["outcome"] for row in rows if (row["format"], row["writer"]) == (kind["format"], kind["writer"])]
        assert (
            kind["flips"] == FLIPS and kind["counts"]["undetected"] == len(own) and kind["counts"]["not_replayed"] == 0
        )
        for outcome, rate in kind["rates"].items():
            count = len(own) if outcome == "undetected" else own.count(outcome)
            assert kind["counts"][outcome] == count and rate["estimate"] == count / FLIPS
            # docs/statistics.md: all M with hypergeometric(k; n of N, M hits) > alpha / (n + 1).
            for end, step in zip(rate["anytime"], (-1, 1), strict=True):
                hits = round(end * kind["bits"])
                assert hypergeometric(count, FLIPS, hits, kind["bits"]) > 0.05 / (FLIPS + 1)
                beyond = hits + step
                assert not 0 <= beyond <= kind["bits"] or hypergeometric(count, FLIPS, beyond, kind["bits"]) <= 0.05 / (
                    FLIPS + 1
                )


def test_the_program_that_runs_campaigns_must_be_there(tmp_path: Path) -> None:
    spec = write(tmp_path, **KEYS)
    named = call("checkpoint-study", spec, "-o", tmp_path / "out", env=os.environ | {"BITRIFT_PROGRAM": "/no/bitrift"})
    assert one_line(named).endswith("BITRIFT_PROGRAM=/no/bitrift: no such program")
    assert not (tmp_path / "out").exists()


def test_a_campaign_that_cannot_judge_ends_the_study(tmp_path: Path) -> None:
    # After one step the model knows nothing, so that not even a negated layer makes it worse.
    base = {"train": TRAINING, "steps": 1}
    spec = write(tmp_path, **(KEYS | {"base": base, "formats": ["safetensors"], "writers": ["native"]}))
    ended = study(spec, tmp_path / "out")
    assert ended.returncode == 1 and ended.stdout == ""
    assert "canary:negate: must be SDC" in ended.stderr and "no outcome can be trusted" in ended.stderr
    assert not replays_of(tmp_path / "out") and not (tmp_path / "out" / "summary.json").exists()


def test_bitrift_is_looked_for_beside_the_program_and_on_the_path(tmp_path: Path) -> None:
    shutil.copy(PROGRAM, tmp_path / "bitrift-train")
    environment = os.environ | {"PATH": "/nowhere"}
    spec = write(tmp_path, **KEYS)
    call_alone = [tmp_path / "bitrift-train", "checkpoint-study", spec, "-o", tmp_path / "out"]
    alone = subprocess.run(call_alone, capture_output=True, text=True, timeout=60, env=environment)
    assert "bitrift is neither beside this program nor on PATH: build it or set BITRIFT_PROGRAM" in one_line(alone)
