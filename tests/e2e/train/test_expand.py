"""A run that has lost ranks gets new processes after some steps, and still ends in the undisturbed run's file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from failure_support import LAYOUTS, RANKS, Bases, Ended, digest, pairs_of
from train_support import call

STEPS_WITHOUT = 3  # until the run expands


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Bases:
    return Bases(tmp_path_factory.mktemp("bases"))


def expand(bases: Bases, task: str, layout: str, out: Path, *faults: str, after: int = STEPS_WITHOUT) -> Ended:
    """A run that must end in the undisturbed run's file, and leave nothing."""
    kills = [word for fault in faults for word in ("--kill", fault)]
    ended = bases.fail(task, layout, out, "--on-failure", "shrink", "--expand-after", after, *kills)
    assert not ended.hangs and ended.left == 0, (ended.command, ended.err)
    assert ended.code == 0 and ended.errors == [], (ended.command, ended.err)
    assert digest(out) == bases.golden(task, layout), ended.command
    return ended


def ranks_of(ended: Ended) -> list[tuple[int, int]]:
    return [(one["ranks_before"], one["ranks_after"]) for one in ended.json()["recoveries"]]


@pytest.mark.parametrize("task", ["sgd", pytest.param("adamw", marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    ("layout", "faults", "smallest"),
    [
        ("data", ["2@3:backward"], 3),
        ("data", ["0@3:forward", "1@3:reduce"], 2),
        ("pipeline", ["1@4:backward"], 2),
        ("pipeline", ["0@4:forward", "2@4:forward"], 1),
        ("hybrid", ["3@4:update"], 3),
        ("hybrid", ["1@4:forward", "3@4:forward"], 2),
    ],
)
def test_new_processes_take_the_lost_ranks_places(
    bases: Bases, tmp_path: Path, task: str, layout: str, faults: list[str], smallest: int
) -> None:
    ended = expand(bases, task, layout, tmp_path / "out.h5", *faults)
    assert ranks_of(ended) == [(RANKS[layout], smallest), (smallest, RANKS[layout])]
    loss, expansion = ended.json()["recoveries"]
    assert expansion["step"] == loss["step"] + STEPS_WITHOUT
    assert (expansion["failed"], expansion["steps_lost"], expansion["steps_redone"]) == ([], 0, 0)
    assert expansion["volatile"]["respawn"] > 0 and "detect" not in expansion["volatile"]


def test_a_run_expands_after_each_loss(bases: Bases, tmp_path: Path) -> None:
    ended = expand(bases, "sgd", "data", tmp_path / "out.h5", "2@2:backward", "2@5:backward", "0@8:backward", after=1)
    assert ranks_of(ended) == [(4, 3), (3, 4)] * 3


def test_a_run_that_ends_first_does_not_expand(bases: Bases, tmp_path: Path) -> None:
    assert ranks_of(expand(bases, "sgd", "data", tmp_path / "out.h5", "2@3:backward", after=8)) == [(4, 3)]


# The first rank of the survivors, and the new process, fail at each point of the expansion.
@pytest.mark.parametrize(("layout", "point"), pairs_of(LAYOUTS, range(4)))
@pytest.mark.parametrize("victim", [0, 2])
def test_ranks_fail_while_the_run_expands(bases: Bases, tmp_path: Path, layout: str, point: int, victim: int) -> None:
    # The step before the expansion; a pipeline repeats its first steps.
    step = 3 if layout == "pipeline" else 5
    first = "2@1:backward" if layout == "pipeline" else "2@3:backward"
    ended = expand(bases, "sgd", layout, tmp_path / "out.h5", first, f"{victim}@{step}:recovery.{point}")
    assert ranks_of(ended)[-1][1] == RANKS[layout]


@pytest.fixture
def spoiled(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Path(os.environ["BITRIFT_RESIDENT_TOOLS"]) / "libreplacement_dies.so"
    assert library.is_file()
    monkeypatch.setenv("LD_PRELOAD", str(library))


@pytest.mark.usefixtures("spoiled")
def test_a_run_continues_if_its_new_processes_die(bases: Bases, tmp_path: Path) -> None:
    ended = expand(bases, "sgd", "data", tmp_path / "out.h5", "2@3:backward", after=4)
    assert ranks_of(ended) == [(4, 3), (3, 3)]


@pytest.mark.usefixtures("spoiled")
def test_a_run_continues_if_no_process_can_be_started(
    bases: Bases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BITRIFT_TEST_REFUSES_SPAWN", "1")
    monkeypatch.delenv("BITRIFT_RESIDENT_TOOLS")  # its ranks were loaded before, without the library
    ended = expand(bases, "sgd", "pipeline", tmp_path / "out.h5", "1@1:backward", after=4)
    assert ranks_of(ended) == [(3, 2), (2, 2), (2, 2)]
    assert ended.err.count("the run cannot expand now, and continues with fewer ranks: MPI_Comm_spawn") == 2
    ended = bases.fail("sgd", "data", tmp_path / "no.h5", "--on-failure", "respawn", "--kill", "2@3:backward")
    assert ended.code == 1, ended.err
    (line,) = ended.errors
    assert "rank 2 failed, and the run cannot continue: no process could be started in its place" in line
    assert not (tmp_path / "no.h5").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--expand-after", "0"], "--expand-after"),
        (["--expand-after", "5"], "none does not continue with fewer ranks"),
        (["--expand-after", "5", "--on-failure", "respawn"], "respawn does not continue with fewer ranks"),
        (["--expand-after", "5", "--on-failure", "shrink", "--batch-on-failure", "smaller"], "smaller batch"),
        (["--expand-after", "5", "--on-failure", "shrink", "--mesh", "2x2"], "mesh"),
    ],
)
def test_refusals(bases: Bases, tmp_path: Path, options: list[str], words: str) -> None:
    layout = LAYOUTS["data"] if "--mesh" not in options else ()
    done = call("resume", bases.file("sgd"), "-o", tmp_path / "out.h5", *layout, *options)
    assert done.returncode == 2, done.stderr
    assert "--expand-after" in done.stderr and words in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_report_names_the_expansion(bases: Bases, tmp_path: Path) -> None:
    words = [word for word in bases.words("sgd", "data", tmp_path / "out.h5") if word != "--json"]
    done = call(*words, "--on-failure", "shrink", "--expand-after", 2, "--kill", "1@3:forward")
    assert done.returncode == 0, done.stderr
    assert "recovered by shrink from the loss of rank 1: 4 -> 3 ranks" in done.stdout
    assert "expanded again: 3 -> 4 ranks" in done.stdout
    assert json.loads((tmp_path / "out.h5.json").read_text())
