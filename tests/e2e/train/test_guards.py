"""Guards find what was altered in a file, name it, and change nothing of the run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from train_support import ADAM, MLP, call, run, write_spec

FINITE = ["--guard", "nonfinite", "--guard", "moment_bound", "--guard", "gradient_norm=1e30"]
MOMENT = "optimizer/exp_avg/"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    run("train", write_spec(folder / "spec.json", MLP, ADAM), "-o", folder / "base.h5", "--steps", 3)
    return folder / "base.h5"


def altered(base: Path, out: Path, value: float) -> str:
    """A copy whose first tensor of first moments has one other element; the tensor's path."""
    shutil.copy(base, out)
    with h5py.File(out, "r+") as file:
        names: list[str] = []
        file[MOMENT].visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        data = file[MOMENT + names[0]]
        values = data[()]
        values.reshape(-1)[0] = value
        data[...] = values
    return MOMENT + names[0]


def resumed(file: Path, *options: object, code: int = 0) -> dict:
    done = call("resume", file, "--steps", 2, "--json", *options)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_a_clean_run_raises_no_alarm(base: Path) -> None:
    assert "alarms" not in resumed(base, *FINITE, "--guard", "checksums", "--guard", "loss_spike=50")


@pytest.mark.parametrize("guards", [FINITE, [*FINITE, "--guard", "loss_spike=2"]])
def test_recording_guards_leave_the_run_as_it_is(base: Path, tmp_path: Path, guards: list[str]) -> None:
    altered(base, tmp_path / "bad.h5", 100)
    bare = resumed(tmp_path / "bad.h5")
    watched = resumed(tmp_path / "bad.h5", *guards)
    assert "alarms" not in bare and watched["alarm_count"] >= 1
    for key in ("replicas", "last_loss", "status"):
        assert watched[key] == bare[key]
    if guards == FINITE:
        assert watched["final_digest"] == bare["final_digest"]


def test_the_moment_bound_names_step_rank_tensor_value_and_limit(base: Path, tmp_path: Path) -> None:
    tensor = altered(base, tmp_path / "bad.h5", 100)
    first = resumed(tmp_path / "bad.h5", *FINITE)["alarms"][0]
    assert (first["guard"], first["step"], first["rank"], first["tensor"]) == ("moment_bound", 4, 0, tensor)
    with h5py.File(base) as file:
        limit = 20 * np.sqrt(file[tensor].size) / 64
    assert first["limit"] == pytest.approx(limit)
    assert 85 < first["value"] < 95  # 0.9 of what was put there, and a tenth of a gradient


def test_stop_ends_the_run_and_saves_nothing(base: Path, tmp_path: Path) -> None:
    tensor = altered(base, tmp_path / "bad.h5", 100)
    result = resumed(tmp_path / "bad.h5", *FINITE, "--on-alarm", "stop", "-o", tmp_path / "out.h5", code=1)
    assert result["status"] == "rejected" and result["steps"] == 1
    assert "moment_bound" in result["detail"] and tensor in result["detail"] and "step 4" in result["detail"]
    assert not (tmp_path / "out.h5").exists()


def test_checksums_find_a_byte_written_past_them(base: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.h5"
    tensor = altered(base, bad, 1e-7)
    alarms = resumed(bad, "--guard", "checksums")["alarms"]
    assert [(a["guard"], a["step"], a["tensor"]) for a in alarms] == [("checksums", 0, tensor)]
    done = call("resume", bad, "--steps", 1, "--guard", "checksums", "--on-alarm", "stop")
    assert done.returncode == 2 and tensor in done.stderr


def test_the_rank_whose_replica_was_altered_is_named(base: Path, tmp_path: Path) -> None:
    tensor = altered(base, tmp_path / "bad.h5", 100)
    data = ["--parallel", "data", "--ranks", 2, "--sync-on-resume", "none"]
    result = resumed(base, "--replica-file", f"1={tmp_path / 'bad.h5'}", *data, *FINITE)
    mine = [alarm for alarm in result["alarms"] if alarm["guard"] == "moment_bound"]
    assert mine and {alarm["rank"] for alarm in mine} == {1}
    assert (mine[0]["step"], mine[0]["tensor"]) == (4, tensor)
