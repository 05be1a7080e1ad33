"""The part `state` of a checkpoint study: its answers are those of runs from files that h5py altered."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import h5py
import pytest
from study_support import TRAINING, rows_of, study, write
from train_support import ADAM, MLP, read_trace, run

STEPS = 30  # across the end of an epoch of 22


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    training = TRAINING | {"model": MLP, "optimizer": ADAM, "schedule": {"name": "plateau", "patience": 0}}
    base = {"train": training | {"epochs": 4}, "steps": 30}
    spec = write(folder, base=base, parts=["state"], formats=["hdf5"], state={"steps": STEPS})
    ended = study(spec, folder / "out")
    assert ended.returncode == 0 and "optimizer/exp_avg_sq " in ended.stdout, ended.stderr
    before = (folder / "out" / "rows.jsonl").read_bytes()
    again = study(spec, folder / "out")
    assert again.stdout == ended.stdout and (folder / "out" / "rows.jsonl").read_bytes() == before
    return folder / "out"


def losses(checkpoint: Path) -> tuple[list[str], list[float]]:
    trace = checkpoint.with_suffix(".trace")
    run("resume", checkpoint, "--steps", STEPS, "--trace", trace)
    _, steps, evaluations = read_trace(trace)
    return [step["loss"] for step in steps], [one["test_loss"] for one in evaluations]


def first(a: list, b: list) -> int | None:
    return next((i + 1 for i, (one, other) in enumerate(zip(a, b, strict=True)) if one != other), None)


@pytest.mark.parametrize("piece", ["optimizer/exp_avg", "optimizer/step", "progress/step", "rng/seed", "running_stat"])
def test_a_piece_that_h5py_takes_away_has_the_same_effect(done: Path, tmp_path: Path, piece: str) -> None:
    (row,) = (row for row in rows_of(done) if row["piece"] == piece)
    shutil.copy(done / "base.h5", tmp_path / "altered.h5")
    count = 0
    with h5py.File(tmp_path / "altered.h5", "r+") as file, h5py.File(done / "files" / "fresh.h5") as fresh:

        def alter(name: str, item: object) -> None:
            nonlocal count
            mine = (
                name.rsplit(".", 1)[-1].startswith(("running", "num_batches"))
                if piece == "running_stat"
                else (name == piece or name.startswith(f"{piece}/"))
            )
            if not isinstance(item, h5py.Dataset) or not mine:
                return
            count += 1
            if piece == "rng/seed":
                item[()] = item[()] ^ 1
            else:
                item[...] = fresh[name][()] if name in fresh else 0

        file.visititems(alter)
    assert row["tensors"] == row["changed"] == count > 0
    golden, altered = losses(done / "base.h5"), losses(tmp_path / "altered.h5")
    assert row["steps"] == STEPS == len(golden[0])
    assert row.get("first_step") == first(golden[0], altered[0])
    assert row.get("first_evaluation") == first(golden[1], altered[1])
    difference = max(abs(float.fromhex(a) - float.fromhex(b)) for a, b in zip(golden[0], altered[0], strict=True))
    assert row.get("largest_difference", 0) == difference


def test_every_piece_is_there_and_the_whole_changes_nothing(done: Path) -> None:
    rows = {row["piece"]: row for row in rows_of(done)}
    with h5py.File(done / "base.h5") as file:
        own = {f"{name}/{key}" for name in ("rng", "progress") for key in file[name]}
        own |= {f"optimizer/{slot}" for slot in file["optimizer"]}
    own -= {"progress/epoch_correct", "progress/epoch_loss_sum"}
    assert set(rows) == own | {"parameters", "running_stat", "nothing"}
    assert rows["nothing"] == rows["nothing"] | {"tensors": 0, "changed": 0, "steps": STEPS}
    assert "first_step" not in rows["nothing"] and rows["parameters"]["first_step"] == 1
    assert "first_step" not in rows["running_stat"] and rows["running_stat"]["first_evaluation"] == 1
    summary = json.loads((done / "summary.json").read_text())["state"]
    assert [piece["piece"] for piece in summary] == sorted(set(rows) - {"nothing"})
