"""The part `kill` of a checkpoint study: which files of which libraries survive a save that is killed."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from study_support import rows_of, study, write
from train_support import PROGRAM

MOST = 8
KINDS = ["hdf5", "pytorch", "npz", "safetensors", "dcp"]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    ended = study(write(folder, parts=["kill"], formats=KINDS, kill={"kills": MOST}), folder / "out")
    assert ended.returncode == 0, ended.stderr
    assert "silently wrong" in ended.stdout
    return folder / "out"


def kills(folder: Path, form: str, writer: str) -> list[dict]:
    return [row for row in rows_of(folder) if (row["format"], row["writer"], row["part"]) == (form, writer, "kill")]


def outcomes(folder: Path, form: str, writer: str) -> Counter[str]:
    return Counter(row["outcome"] for row in kills(folder, form, writer)[1:])


def test_every_call_is_a_kill_and_the_first_alters_nothing(done: Path) -> None:
    for form in KINDS:
        for writer in ("native", "bitrift") if form != "dcp" else ("native",):
            whole, first, *rest = kills(done, form, writer)
            assert (whole["call"], whole["outcome"], whole["left"]) == (0, "complete", 0)
            assert (first["call"], first["half"], first["outcome"]) == (1, False, "previous")
            points = [(row["call"], row["half"]) for row in (first, *rest)]
            assert points == sorted(set(points)) and len(points) == min(MOST, whole["points"])
            if len(points) == whole["points"]:
                assert {call for call, half in points if not half} == set(range(1, len(whole["calls"]) + 1))
            for row in rest:
                (name,) = row["calls"]
                assert name == whole["calls"][row["call"] - 1]
                assert name in ("write", "pwrite64") or not row["half"]


def test_files_that_are_written_in_place_are_lost_and_others_are_not(done: Path) -> None:
    for form in KINDS[:-1]:
        assert set(outcomes(done, form, "bitrift")) <= {"previous", "complete"}, form
    assert set(outcomes(done, "safetensors", "native")) <= {"previous", "complete"}
    for form in ("hdf5", "pytorch", "npz"):
        seen = outcomes(done, form, "native")
        # Before the file is opened, the older one is there; from then on neither.
        assert seen["previous"] == 1 and seen["detected"] > seen.total() / 2, seen
    # What is left behind has a name of its own, and is one file.
    assert {row["left"] for row in kills(done, "hdf5", "bitrift")} == {0, 1}
    assert {row["left"] for row in kills(done, "pytorch", "native")} == {0}


def test_the_summary_counts_the_rows(done: Path) -> None:
    summary = json.loads((done / "summary.json").read_text())["kill"]
    assert len(summary) == 2 * len(KINDS) - 1
    for kind in summary:
        seen = outcomes(done, kind["format"], kind["writer"])
        assert {name: count for name, count in kind["counts"].items() if count} == dict(seen)
        assert kind["kills"] == seen.total() <= kind["points"] and kind["calls"] < kind["points"]


# Another part is killed in test_checkpoint_study.py.
@pytest.mark.thorough
def test_a_killed_study_of_kills_ends_with_the_same_rows(done: Path, tmp_path: Path) -> None:
    chosen = ["hdf5", "npz"]
    spec, folder = write(tmp_path, parts=["kill"], formats=chosen, kill={"kills": MOST}), tmp_path / "out"
    command = [PROGRAM, "checkpoint-study", spec, "-o", folder]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rows = folder / "rows.jsonl"
    deadline = time.monotonic() + 120
    while not rows.exists() or rows.read_bytes().count(b"\n") < 10:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert study(spec, folder).returncode == 0
    expected = [row for row in rows_of(done) if row["format"] in chosen]
    assert rows_of(folder) == expected


def test_a_library_that_does_not_fork_saves_in_a_new_process(tmp_path: Path) -> None:
    ended = study(write(tmp_path, parts=["kill"], formats=["keras"], kill={"kills": 3}), tmp_path / "out")
    assert ended.returncode == 0, ended.stderr
    whole, *rest = kills(tmp_path / "out", "keras", "native")
    # Keras opens the older file for writing at once.
    assert [row["outcome"] for row in rest] == ["previous", "detected", "detected"] and whole["outcome"] == "complete"


def test_what_can_not_be_told_apart_is_no_result(tmp_path: Path) -> None:
    ended = study(write(tmp_path, parts=["kill"], formats=["npz"]), tmp_path / "out", "--drill", "misread")
    assert ended.returncode == 1 and ended.stdout == ""
    assert "a save that is not killed" in ended.stderr and "silently_wrong" in ended.stderr
