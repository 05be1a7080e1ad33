"""Ranks fail anywhere in training: the run ends in the file of the undisturbed one, or says why it cannot."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import pytest
from failure_support import (
    LAYOUTS,
    PHASES,
    RANKS,
    RECOVERIES,
    RECOVERY_POINTS,
    STEPS,
    Bases,
    Ended,
    digest,
    fail_ranks,
    kill_at_end,
    pairs_of,
    step_of,
)
from train_support import call, run

DATA4 = LAYOUTS["data"]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Bases:
    return Bases(tmp_path_factory.mktemp("bases"))


def kills(*faults: str) -> list[str]:
    return [word for fault in faults for word in ("--kill", fault)]


def recovered(bases: Bases, task: str, layout: str, out: Path, *options: object) -> list[dict]:
    """The recoveries of a run that must end in the undisturbed run's file."""
    ended = bases.fail(task, layout, out, *options)
    check_end(ended)
    recoveries = ended.json().get("recoveries", [])
    assert digest(out) == bases.golden(task, layout), ended.command
    return recoveries


def check_end(ended: Ended) -> None:
    assert not ended.hangs, f"{ended.command}: hangs\n{ended.err}"
    assert ended.left == 0, f"{ended.command}: processes are left"


def refused(ended: Ended, *words: str) -> None:
    """The run ended with one line that says why it cannot continue."""
    check_end(ended)
    assert ended.code == 1, (ended.command, ended.code, ended.err)
    (line,) = ended.errors
    for word in ("cannot continue", *words):
        assert word in line, (word, line)


# Every phase and every recovery under every layout; victims and optimizers take turns.
CASES = [
    (
        layout,
        list(RECOVERIES)[(number + shift) % len(RECOVERIES)],
        phase,
        (number + shift) % RANKS[layout],
        ("sgd", "adamw")[(number + shift) % 2],
    )
    for shift, layout in enumerate(LAYOUTS)
    for number, phase in enumerate(PHASES)
]


@pytest.mark.parametrize(("layout", "recovery", "phase", "victim", "task"), CASES)
def test_every_phase(
    bases: Bases, tmp_path: Path, layout: str, recovery: str, phase: str, victim: int, task: str
) -> None:
    fault = f"{victim}@{step_of(phase, 5)}:{phase}.1"
    (one,) = recovered(bases, task, layout, tmp_path / "out.h5", *RECOVERIES[recovery], *kills(fault))
    assert one["kind"] == recovery.split(",")[0]
    assert one["failed"] == [victim]
    assert one["ranks_before"] == RANKS[layout]
    assert one["ranks_after"] == RANKS[layout] - (recovery == "shrink")
    assert all(value >= 0 for value in one["volatile"].values())


def right_end(ended: Ended, out: Path, golden: str) -> dict:
    """The result of a run that must have told it once, and have left its files and nothing else."""
    check_end(ended)
    assert ended.code == 0 and ended.errors == [], (ended.command, ended.code, ended.err)
    assert digest(out) == golden, ended.command
    with h5py.File(out) as file:
        assert file["progress/step"][()] == 2 * STEPS
    assert sorted(path.name for path in out.parent.iterdir()) == ["out.h5", "out.h5.json"]
    result = ended.json()
    assert result["status"] == "done" and result["checkpoint"] == str(out)
    return result


@pytest.mark.parametrize(
    ("layout", "recovery", "victim", "point"),
    [
        ("data", "shrink", 0, 0),
        ("data", "respawn", 3, 2),
        ("data", "spare", 0, 2),
        ("hybrid", "spare", 2, 0),
        ("pipeline", "shrink", 0, 2),
        ("pipeline", "restart", 2, 2),
    ],
)
def test_a_rank_fails_between_the_last_evaluation_and_the_save(
    bases: Bases, tmp_path: Path, layout: str, recovery: str, victim: int, point: int
) -> None:
    out = tmp_path / "out.h5"
    ended = bases.fail("sgd", layout, out, *RECOVERIES[recovery], *kills(f"{victim}@{STEPS}:finish.{point}"))
    (one,) = right_end(ended, out, bases.golden("sgd", layout))["recoveries"]
    assert one["failed"] == [victim]


# Nobody's work is needed any more, so the result does not mention the death. Where rank 0 has not told it, the next
# rank does.
@pytest.mark.parametrize(
    ("layout", "recovery", "victims", "point"),
    [
        ("data", "shrink", (0,), 0),
        ("data", "shrink", (0, 1, 2), 1),
        ("data", "spare", (0,), 1),
        ("data", "spare", (0, 2), 2),
        ("hybrid", "respawn", (0,), 0),
        ("pipeline", "restart", (0, 1), 1),
        ("pipeline", "respawn", (2,), 2),
    ],
)
def test_a_rank_fails_after_the_save(
    bases: Bases, tmp_path: Path, layout: str, recovery: str, victims: tuple[int, ...], point: int
) -> None:
    out = tmp_path / "out.h5"
    faults = kills(*(f"{victim}@{STEPS}:leave.{point}" for victim in victims))
    ended = bases.fail("sgd", layout, out, *RECOVERIES[recovery], *faults)
    result = right_end(ended, out, bases.golden("sgd", layout))
    assert len(ended.deaths) == len(victims)
    assert "recoveries" not in result


@pytest.mark.parametrize("moment", ["finish.0", "finish.2", "leave"])
def test_a_job_that_lost_a_rank_at_its_end_is_launched_again(bases: Bases, tmp_path: Path, moment: str) -> None:
    out = tmp_path / "out.h5"
    options = ("--on-failure", "relaunch", "--checkpoint-every", 3, *kills(f"0@{STEPS}:{moment}"))
    (one,) = right_end(bases.fail("sgd", "data", out, *options), out, bases.golden("sgd", "data"))["recoveries"]
    assert one["step"] == (STEPS if moment == "leave" else 9)


@pytest.mark.parametrize(("recovery", "victim"), [("shrink", 0), ("spare", 1), ("spare", 5), ("respawn", 2)])
def test_a_rank_is_killed_from_outside_after_the_last_epoch(
    bases: Bases, tmp_path: Path, recovery: str, victim: int
) -> None:
    out = tmp_path / "out.h5"
    words = bases.words("sgd", "data", out, *RECOVERIES[recovery])
    for _ in range(10):
        ended, strike = kill_at_end(*words, out=out, victim=victim, delay=0.002)
        right_end(ended, out, bases.golden("sgd", "data"))
        if strike.hit:
            return
        out.unlink()  # too late: this process was kept from running
    pytest.fail("the run ended before every signal")


TWO_FAILURES = [
    ("data", "shrink", 0, 2),
    ("data", "respawn", 1, 0),
    ("hybrid", "shrink", 1, 2),
    ("hybrid", "spare", 3, 0),
]
IN_RECOVERIES = [
    pytest.param(*case, point, marks=[pytest.mark.thorough] * ((i + point) % 2))
    for i, case in enumerate(TWO_FAILURES)
    for point in range(len(RECOVERY_POINTS))
]


@pytest.mark.parametrize(("layout", "recovery", "first", "second", "point"), IN_RECOVERIES)
def test_a_second_rank_fails_during_the_recovery(
    bases: Bases, tmp_path: Path, layout: str, recovery: str, first: int, second: int, point: int
) -> None:
    faults = kills(f"{first}@4:backward", f"{second}@4:recovery.{point}")
    recoveries = recovered(bases, "sgd", layout, tmp_path / "out.h5", *RECOVERIES[recovery], *faults)
    assert {rank for one in recoveries for rank in one["failed"]} == {first, second}


@pytest.mark.parametrize(
    ("layout", "recovery", "victims"),
    [
        ("data", "shrink", (0, 1)),
        ("data", "respawn", (0, 3)),
        ("hybrid", "shrink", (0, 3)),
        ("hybrid", "restart", (0, 2)),
    ],
)
def test_two_ranks_at_once(bases: Bases, tmp_path: Path, layout: str, recovery: str, victims: tuple[int, int]) -> None:
    faults = kills(*(f"{victim}@6:backward" for victim in victims))
    recoveries = recovered(bases, "adamw", layout, tmp_path / "out.h5", *RECOVERIES[recovery], *faults)
    assert sorted(rank for one in recoveries for rank in one["failed"]) == list(victims)


def test_one_rank_after_the_other(bases: Bases, tmp_path: Path) -> None:
    faults = kills("0@2:update", "3@5:forward", "1@8:reduce")
    recoveries = recovered(bases, "adamw", "data", tmp_path / "out.h5", *RECOVERIES["shrink"], *faults)
    assert [one["ranks_after"] for one in recoveries] == [3, 2, 1]
    assert all(victim in one["failed"] for victim, one in zip((0, 3, 1), recoveries, strict=True))


@pytest.fixture
def last_message_lost(bases: Bases, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 3 completes step 4; the others lack its last message, and learn that it has failed."""
    library = Path(os.environ["BITRIFT_RESIDENT_TOOLS"]) / "liblast_message_lost.so"
    assert library.is_file()
    bases.golden("sgd", "data")
    monkeypatch.delenv("BITRIFT_RESIDENT_TOOLS")  # the library must be loaded by the first ranks
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("BITRIFT_TEST_VICTIM", "3")
    monkeypatch.setenv("BITRIFT_TEST_EXCHANGE", "12")  # that of step 4


@pytest.mark.usefixtures("last_message_lost")
def test_a_rank_is_one_step_ahead_when_it_fails(bases: Bases, tmp_path: Path) -> None:
    """The fault must not strike the rank that continues its work, too."""
    (one,) = recovered(bases, "sgd", "data", tmp_path / "out.h5", *RECOVERIES["shrink"], *kills("3@5:forward"))
    assert (one["failed"], one["step"], one["ranks_after"]) == ([3], 3, 3)


@pytest.mark.usefixtures("last_message_lost")
@pytest.mark.parametrize("point", [0, 2])
def test_a_rank_fails_in_the_recovery_from_a_step_that_it_has_not_reached(
    bases: Bases, tmp_path: Path, point: int
) -> None:
    faults = kills("3@5:forward", f"1@5:recovery.{point}")
    recoveries = recovered(bases, "sgd", "data", tmp_path / "out.h5", *RECOVERIES["shrink"], *faults)
    assert sorted(rank for one in recoveries for rank in one["failed"]) == [1, 3]


def test_one_of_two_that_replaced_two_fails(bases: Bases, tmp_path: Path) -> None:
    """Open MPI hangs in a third start of processes when two were started by one call and one of them is dead."""
    faults = kills("0@2:backward", "2@2:backward", "0@5:reduce", "2@7:backward")
    recoveries = recovered(bases, "sgd", "data", tmp_path / "out.h5", *RECOVERIES["respawn"], *faults)
    assert [rank for one in recoveries for rank in one["failed"]] == [0, 2, 0, 2], recoveries


FEWER = {"data": ["data", "--ranks", 3], "hybrid": ["pipeline", "--ranks", 2]}


@pytest.mark.parametrize(
    ("layout", "victim"),
    pairs_of(FEWER, (0, 2)),
)
def test_a_smaller_batch_is_that_of_a_run_of_fewer_replicas(
    bases: Bases, tmp_path: Path, layout: str, victim: int
) -> None:
    ended = bases.fail(
        "adamw",
        layout,
        tmp_path / "shrunk.h5",
        *(*RECOVERIES["shrink"], "--batch-on-failure", "smaller", *kills(f"{victim}@6:backward")),
    )
    check_end(ended)
    assert ended.json()["recoveries"][0]["step"] == 5
    step5, fresh = tmp_path / "step5.h5", tmp_path / "fresh.h5"
    run("resume", bases.file("adamw"), "-o", step5, "--steps", 5, *LAYOUTS[layout])
    batch = 48 if layout == "data" else 32
    options = ["--micro-batches", 2] if layout == "hybrid" else []
    run("resume", step5, "-o", fresh, "--epochs", 1, "--parallel", *FEWER[layout], *options, "--batch-size", batch)
    assert digest(tmp_path / "shrunk.h5") == digest(fresh)


@pytest.mark.parametrize("how", ["stop", "exit"])
def test_other_endings(bases: Bases, tmp_path: Path, how: str) -> None:
    (one,) = recovered(bases, "sgd", "data", tmp_path / "out.h5", *RECOVERIES["shrink"], *kills(f"1@3:forward={how}"))
    assert one["failed"] == [1]


@pytest.mark.parametrize("layout", ["data", pytest.param("pipeline", marks=pytest.mark.thorough)])
def test_a_slow_rank_changes_nothing_and_is_not_lost(bases: Bases, tmp_path: Path, layout: str) -> None:
    out = tmp_path / "out.h5"
    ended = bases.fail("sgd", layout, out, *RECOVERIES["shrink"], *kills("1@3:backward=slow:20:4"))
    assert (ended.code, digest(out), ended.json().get("recoveries", [])) == (0, bases.golden("sgd", layout), [])
    (line,) = [line for line in ended.err.splitlines() if "slow" in line]
    seconds = float(line.split("rank 1 was slow, for ")[1].split(" s in all")[0])
    assert 0 < seconds < ended.ended - ended.began
    assert "never reached" not in ended.err


def test_a_rank_that_is_too_slow_counts_as_one_that_hangs(bases: Bases, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    watch = ["--detect-hang", 1]
    ended = bases.fail("sgd", "data", out, *RECOVERIES["shrink"], *watch, *kills("1@3:backward=slow:1e6:4"))
    assert (ended.code, digest(out)) == (0, bases.golden("sgd", "data")), ended.err
    assert [one["failed"] for one in ended.json()["recoveries"]] == [[1]]


def test_a_moment_that_is_never_reached(bases: Bases, tmp_path: Path) -> None:
    faults = kills(f"2@{STEPS + 1}:forward")
    assert recovered(bases, "sgd", "data", tmp_path / "out.h5", *RECOVERIES["shrink"], *faults) == []


def test_armed_and_undisturbed(bases: Bases, tmp_path: Path) -> None:
    options = [*RECOVERIES["restart"], "--snapshot-every", 2, "--checkpoint-every", 3]
    assert recovered(bases, "adamw", "hybrid", tmp_path / "out.h5", *options) == []


def test_without_recovery_the_run_ends(bases: Bases, tmp_path: Path) -> None:
    for options in ([], ["--on-failure", "none"]):
        ended = bases.fail("sgd", "data", tmp_path / "out.h5", *options, *kills("2@5:backward"))
        check_end(ended)
        assert ended.code == 1, (ended.code, ended.err)
        assert "a rank was lost" in ended.errors[-1], ended.err
        assert not (tmp_path / "out.h5").exists()


def test_a_job_is_launched_again(bases: Bases, tmp_path: Path) -> None:
    options = ("--on-failure", "relaunch", "--checkpoint-every", 3, *kills("2@8:reduce"))
    (one,) = recovered(bases, "adamw", "hybrid", tmp_path / "out.h5", *options)
    assert (one["failed"], one["state"], one["step"], one["steps_redone"]) == ([2], "file", 6, 2)


@pytest.mark.parametrize(
    ("moment", "step"),
    [(f"{STEPS + 4}:update", STEPS + 2), (f"{2 * STEPS}:save.1", 2 * STEPS - 4), ("3:update", 0)],
    ids=["second epoch", "save", "no checkpoint"],
)
def test_the_result_of_a_job_that_was_launched_again_is_that_of_the_whole_run(
    bases: Bases, tmp_path: Path, moment: str, step: int
) -> None:
    words = ("resume", bases.file("sgd"), "--epochs", 2, *LAYOUTS["data"], "--json")
    relaunch = ("--on-failure", "relaunch", "--checkpoint-every", 4, *kills(f"1@{moment}"))
    plain = fail_ranks(*words, "-o", tmp_path / "plain.h5").json()
    ended = fail_ranks(*words, "-o", tmp_path / "again.h5", *relaunch)
    check_end(ended)
    again = ended.json()
    assert [one["step"] for one in again["recoveries"]] == [step]
    for key in ("status", "steps", "replicas", "last_loss", "replica_digests"):
        assert again[key] == plain[key], key
    assert digest(tmp_path / "again.h5") == digest(tmp_path / "plain.h5")


@pytest.mark.parametrize(("victim", "point"), pairs_of((0, 1), (0, 7, 1000)))
def test_a_kill_during_a_save_leaves_the_old_file_or_the_new_one(
    bases: Bases, tmp_path: Path, victim: int, point: int
) -> None:
    out = tmp_path / "out.h5"
    out.write_bytes(bases.file("adamw").read_bytes())
    # One spare less than needed: the run notices, and cannot go on.
    options = ("--on-failure", "spare", "--spares", 0, *kills(f"{victim}@{STEPS}:save.{point}"))
    ended = bases.fail("adamw", "data", out, *options)
    refused(ended, "no spare is left")
    with h5py.File(out) as file:
        assert len(file) > 0
    assert digest(out) in (digest(bases.file("adamw")), bases.golden("adamw", "data"))


@pytest.mark.parametrize(
    ("layout", "victims", "stage"),
    [("pipeline", (0, 1), 0), ("pipeline", (1, 2), 1), ("hybrid", (0, 2), 0), ("hybrid", (1, 3), 1)],
)
def test_the_last_copy_of_a_stage_is_gone(
    bases: Bases, tmp_path: Path, layout: str, victims: tuple[int, int], stage: int
) -> None:
    faults = kills(*(f"{victim}@5:update" for victim in victims))
    source = {"pipeline": "buddy", "hybrid": "replica"}[layout]  # not the file that the run began with
    options = (*RECOVERIES["shrink"], "--state-from", source, *faults)
    ended = bases.fail("sgd", layout, tmp_path / "out.h5", *options)
    refused(ended, f"stage {stage}", "rank {} and {}".format(*victims))
    assert not (tmp_path / "out.h5").exists()


@pytest.mark.parametrize(("options", "step"), [([], 0), (["--checkpoint-every", 3], 3)], ids=["base", "checkpoint"])
def test_a_file_replaces_the_last_copy(bases: Bases, tmp_path: Path, options: list, step: int) -> None:
    faults = kills("0@5:backward", "2@5:backward")
    (one,) = recovered(bases, "sgd", "hybrid", tmp_path / "out.h5", *RECOVERIES["shrink"], *options, *faults)
    assert (one["state"], one["step"], one["steps_redone"]) == ("file", step, 5 - step)


def test_a_replacement_knows_the_file_that_it_came_from(bases: Bases, tmp_path: Path) -> None:
    others = [rank for rank in range(RANKS["pipeline"]) if rank != 0]
    faults = kills("0@2:forward", *(f"{rank}@3:forward" for rank in others))
    options = ("--on-failure", "respawn", "--state-from", "file", "--checkpoint-every", 4, *faults)
    first, second = recovered(bases, "sgd", "pipeline", tmp_path / "out.h5", *options)
    assert (first["failed"], first["state"], first["step"]) == ([0], "file", 0)
    assert (second["failed"], second["state"], second["step"]) == (others, "file", 0)


def test_too_few_spares(bases: Bases, tmp_path: Path) -> None:
    faults = kills("1@3:forward", "2@6:forward")
    ended = bases.fail("sgd", "data", tmp_path / "out.h5", "--on-failure", "spare", *faults)
    refused(ended, "no spare is left")


# What a replacement needs: each rank derives the order of samples from the seed of the spec, and so the rest of `rng`.
@pytest.mark.parametrize(
    ("structure", "needed"),
    [("optimizer", True), ("parameters", True), ("buffers", True), ("rng", False), ("loss_scale", False)],
)
def test_what_a_replacement_forgets(bases: Bases, tmp_path: Path, structure: str, needed: bool) -> None:
    out = tmp_path / "out.h5"
    options = ("--on-failure", "spare", "--forget", structure, *kills("0@5:backward"))
    ended = bases.fail("norm", "data", out, *options)
    check_end(ended)
    assert ended.json()["recoveries"][0]["failed"] == [0]
    assert (digest(out) != bases.golden("norm", "data")) == needed


def test_a_replacement_that_forgets_its_place_is_noticed(bases: Bases, tmp_path: Path) -> None:
    options = ("--on-failure", "spare", "--forget", "cursor", *kills("2@5:backward"))
    ended = bases.fail("norm", "data", tmp_path / "out.h5", *options)
    check_end(ended)
    assert ended.code == 1
    assert len(ended.errors) == 1 and "sample 0" in ended.errors[0], ended.err
    assert not (tmp_path / "out.h5").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--kill", "2"], ["RANK@STEP:PHASE"]),
        (["--kill", "2@x:forward"], ["'x' is not a valid step"]),
        (["--kill", "2@5:sleep"], ["'sleep' is not a valid phase of training"]),
        (["--kill", "2@5:forward.-1"], ["'-1' is not a valid point"]),
        (["--kill", "2@5:forward=explode"], ["'explode' is not a valid way to fail"]),
        (["--kill", "4@5:forward"], ["there is no rank 4", "0 to 3"]),
        (["--kill", "-1@5:forward"], ["rank"]),
        (["--kill", "99999999999999999999@5:forward"], ["rank"]),
        (["--trace", "trace.jsonl"], ["--trace", "--on-failure shrink"]),
        (["--batch-on-failure", "smaller", "--on-failure", "spare"], ["--on-failure shrink"]),
        (["--on-failure", "hope"], ["--on-failure", "shrink"]),
        (["--state-from", "memory"], ["--state-from", "buddy"]),
        (["--forget", "everything"], ["--forget", "optimizer"]),
        (["--spares", "-1"], ["--spares"]),
    ],
)
def test_refusals(bases: Bases, tmp_path: Path, options: list[str], words: list[str]) -> None:
    out = tmp_path / "out.h5"
    given = [] if "--on-failure" in options else ["--on-failure", "shrink"]
    done = call("resume", bases.file("sgd"), "-o", out, *DATA4, *given, *options, cwd=tmp_path)
    assert done.returncode == 2, (done.returncode, done.stderr)
    (line,) = done.stderr.splitlines()
    for word in words:
        assert word in line, (word, line)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("recovery", ["respawn", pytest.param("restart", marks=pytest.mark.thorough)])
def test_replacements_that_always_fail_are_not_started_for_ever(
    bases: Bases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recovery: str
) -> None:
    """Such as those of a rank whose node has too little memory."""
    library = Path(os.environ["BITRIFT_RESIDENT_TOOLS"]) / "libreplacement_dies.so"
    assert library.is_file()
    monkeypatch.setenv("LD_PRELOAD", str(library))
    ended = bases.fail("sgd", "data", tmp_path / "out.h5", *RECOVERIES[recovery], *kills("2@4:backward"))
    refused(ended, "rank 2 failed", "each of 10 attempts to recover ended because another rank failed")
    assert not (tmp_path / "out.h5").exists()


@pytest.mark.parametrize("recovery", ["shrink", "spare", "respawn", "restart"])
def test_a_run_of_one_rank_has_nobody_left(bases: Bases, tmp_path: Path, recovery: str) -> None:
    done = call("resume", bases.file("sgd"), "-o", tmp_path / "out.h5", "--on-failure", recovery)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert "relaunch" in line
