"""What has the name of a checkpoint or of its provenance, but is not a file, is found before a run trains."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from train_support import MLP, SGD, STRATEGIES, call, run, write_spec


def name_of(step: int) -> str:
    return f"step-{step:010}.h5"


def spec_in(folder: Path) -> Path:
    """Three epochs of ten steps."""
    data = {"name": "digits", "train_samples": 640, "test_samples": 160}
    return write_spec(folder / "spec.json", MLP, SGD, data=data, epochs=3)


def refusal(*arguments: object) -> str:
    """The one line of a run that is refused."""
    done = call(*arguments)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize("strategy", ["serial", "data2"])
def test_a_folder_with_the_name_of_a_later_checkpoint_is_found_before_any_training(
    tmp_path: Path, strategy: str
) -> None:
    """Before, the run trained up to that step and lost what it had learned since the last checkpoint."""
    spec, folder, other = spec_in(tmp_path), tmp_path / "run", tmp_path / "other"
    run("train", spec, "-o", f"{folder}/", "--steps", 4, "--checkpoint-every", 2)
    start = shutil.copy(folder / name_of(4), tmp_path / "start.h5")
    words = ("--checkpoint-every", 2, *STRATEGIES[strategy])
    commands = [("resume", folder, "-o", folder), ("resume", start, "-o", other)]
    for where, command in zip((folder, other), commands, strict=True):
        for name in (name_of(6), f"{name_of(6)}.json"):
            (where / name / "mine").mkdir(parents=True)
            before = sorted(where.rglob("*"))
            line = refusal(*command, *words)
            assert f"{where / name} is a folder, so the checkpoint of step 6 cannot be written" in line
            assert sorted(where.rglob("*")) == before
            shutil.rmtree(where / name)
        run(*command, *words)
        assert sorted(path.name for path in where.glob("*.h5")) == [name_of(28), name_of(30)]


def test_what_is_no_file_in_the_place_of_one_is_found_before_any_training(tmp_path: Path) -> None:
    spec, new = spec_in(tmp_path), tmp_path / "new"
    (new / name_of(6)).mkdir(parents=True)
    assert f"{name_of(6)} is a folder" in refusal("train", spec, "-o", f"{new}/")
    (new / name_of(6)).rmdir()
    os.mkfifo(new / name_of(6))
    assert f"{name_of(6)} is not a regular file" in refusal("resume", new, "-o", new)
    (tmp_path / "out.h5.json").mkdir()
    assert "out.h5.json is not a regular file" in refusal("train", spec, "-o", tmp_path / "out.h5")
    assert not (tmp_path / "out.h5").exists()
