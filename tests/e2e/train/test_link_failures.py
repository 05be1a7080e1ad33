"""`--kill-link` and `--slow-link`: what a run on a mesh does when a link dies or becomes slow, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from failure_support import Ended, digest, fail_ranks
from train_support import LENET, SGD, call, run, write_spec

BITRIFT = Path(os.environ["BITRIFT_BIN_DIR"]) / "bitrift"
MESH = ("--mesh", "2x3", "--dead", "0,0")  # 5 chips alive: ranks 0 to 4 are 0,1 0,2 1,0 1,1 1,2
STEPS = 12  # of a run


def spec_of(path: Path, batch: int = 40, **changes: object) -> Path:
    data = {"name": "digits", "train_samples": batch * STEPS // 2, "test_samples": 40}
    return write_spec(path, LENET, SGD, data=data, batch_size=batch, **changes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spec, a run of it in which no link fails, and its state after step 3."""
    folder = tmp_path_factory.mktemp("links")
    spec = spec_of(folder / "spec.json")
    run("train", spec, "-o", folder / "plain.h5", *MESH)
    run("train", spec, "-o", folder / "step3.h5", "--steps", 3, *MESH)
    return folder


def ended(out: Path, *words: object) -> Ended:
    done = fail_ranks("train", out.parent / "spec.json", "-o", out, "--json", *MESH, *words)
    assert not done.hangs and done.left == 0, done.err
    return done


def sends_over(folder: Path, ends: tuple[int, int]) -> int:
    """Messages of one step over the link between two chips, in both directions."""
    words = ("describe", folder / "spec.json", "--parallel", "data", *MESH)
    buckets = run(*words)["messages"]["buckets"]
    path, size = folder / "plan.json", str(4 * max(buckets))
    command = [BITRIFT, "mesh", "plan", *MESH, "--schedule", "trees", "--bytes", size, "-o", path]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    sends = json.loads(path.read_text())["sends"]
    return len(buckets) * sum(1 for send in sends if {send[0], send[1]} == set(ends))


def test_a_slow_link_changes_no_bit_and_costs_its_delay(folder: Path) -> None:
    delay, first = 0.03, 5
    words = ("--slow-link", f"0,2-0,1@{first}:{delay}", "--json")
    result = run("train", folder / "spec.json", "-o", folder / "slow.h5", *MESH, *words)
    assert digest(folder / "slow.h5") == digest(folder / "plain.h5")
    (report,) = result["failed_links"]
    assert report["link"] == {"kind": "slow", "between": "0,1-0,2", "step": first, "delay": delay}
    assert report["delayed_messages"] == sends_over(folder, (1, 2)) * (STEPS + 1 - first) > 0
    times = report["volatile"]
    assert times["step_seconds_behind"] >= delay
    assert result["seconds"] >= delay * (STEPS + 1 - first)
    assert "plan_seconds" not in times and times["step_seconds_before"] > 0


def test_a_dead_link_is_one_that_was_dead_from_that_step_on(folder: Path) -> None:
    for name in ("dead.h5", "again.h5"):
        result = ended(folder / name, "--kill-link", "0,1-1,1@4", "--on-failure", "shrink").json()
    (report,) = result["failed_links"]
    assert report["link"] == {"kind": "dead", "between": "0,1-1,1", "step": 4}
    assert 0 < report["volatile"]["plan_seconds"] < 5
    assert "delayed_messages" not in report
    assert len(set(result["replica_digests"])) == 1 and result["steps"] == STEPS
    # The same from a checkpoint, on a mesh that never had this link.
    run("resume", folder / "step3.h5", "-o", folder / "fresh.h5", *MESH, "--dead-link", "0,1-1,1")
    assert digest(folder / "dead.h5") == digest(folder / "again.h5") == digest(folder / "fresh.h5")
    assert digest(folder / "dead.h5") != digest(folder / "plain.h5")


@pytest.mark.parametrize(
    ("options", "rolled_back"),
    [
        (("--on-failure", "spare"), False),
        (("--on-failure", "restart", "--snapshot-every", "3"), True),
        (("--on-failure", "relaunch", "--checkpoint-every", "3"), True),
    ],
)
def test_who_takes_a_dead_ranks_place_does_without_the_link(
    folder: Path, tmp_path: Path, options: tuple[str, ...], rolled_back: bool
) -> None:
    """Steps that are computed again have the links that they had: the link fails again at the same step."""
    (tmp_path / "spec.json").write_text((folder / "spec.json").read_text())
    run("resume", folder / "step3.h5", "-o", tmp_path / "golden.h5", *MESH, "--dead-link", "0,1-1,1")
    words = ("--kill-link", "0,1-1,1@4", "--kill", "0@6:reduce", *options)
    result = ended(tmp_path / "out.h5", *words).json()
    (recovery,) = result["recoveries"]
    assert recovery["failed"] == [0] and recovery["step"] == (3 if rolled_back else 5)
    assert [one["link"]["step"] for one in result["failed_links"]] == [4]
    assert digest(tmp_path / "out.h5") == digest(tmp_path / "golden.h5")


def test_a_link_stays_dead_when_a_chip_dies(folder: Path) -> None:
    words = (
        "--on-failure",
        "shrink",
        "--batch-on-failure",
        "smaller",
        "--kill-link",
        "0,1-0,2@4",
        "--kill",
        "2@6:backward",
    )
    result = ended(folder / "out.h5", *words).json()
    assert [one["failed"] for one in result["recoveries"]] == [[2]] and len(result["failed_links"]) == 1
    without = (*MESH, "--dead-link", "0,1-0,2")
    run("resume", folder / "step3.h5", "-o", folder / "step5.h5", "--steps", 2, *without)
    # Rank 2 is the third live chip, in row 1 and column 0.
    run("resume", folder / "step5.h5", "-o", folder / "left.h5", *without, "--dead", "1,0", "--batch-size", 32)
    assert digest(folder / "out.h5") == digest(folder / "left.h5")


@pytest.mark.parametrize(
    ("mesh", "link", "recovery", "says"),
    [
        (("--mesh", "1x3"), "0,0-0,1", "shrink", "chip 1 (row 0, column 1) cannot be reached"),
        (("--mesh", "2x2", "--schedule", "ring"), "0,0-0,1", "shrink", "there is no ring"),
        (("--mesh", "1x2"), "0,0-0,1", "none", "recovery is off"),
    ],
)
def test_a_run_that_cannot_do_without_the_link_ends(
    tmp_path: Path, mesh: tuple[str, ...], link: str, recovery: str, says: str
) -> None:
    spec = spec_of(tmp_path / "spec.json", 36)
    words = (*mesh, "--kill-link", f"{link}@3", "--on-failure", recovery, "--json")
    done = fail_ranks("train", spec, "-o", tmp_path / "out.h5", *words)
    assert not done.hangs and done.left == 0 and done.code == 1
    (line,) = done.errors
    assert f"the link {link} died in step 3, and the run cannot continue: " in line and says in line
    result = json.loads(done.out)
    assert result["status"] == "unrecovered" and result["steps"] == 2
    assert [one["link"]["between"] for one in result["failed_links"]] == [link]
    assert not (tmp_path / "out.h5").exists()


def test_what_the_run_does_not_reach_is_reported(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.json", LENET, {"name": "sgd", "learning_rate": 1e30})
    words = ("--mesh", "1x2", "--slow-link", "0,0-0,1@1:0.001", "--kill-link", "0,0-0,1@6", "--steps", 6, "--json")
    done = call("train", spec, "-o", tmp_path / "out.h5", *words)
    assert done.returncode == 1, done.stderr
    result = json.loads(done.stdout)
    assert result["status"] == "nonfinite" and result["steps"] < 6
    assert [one["link"]["kind"] for one in result["failed_links"]] == ["slow"]
    assert "a link was to be dead at 0,0-0,1@6, which the run never reached" in done.stderr
    assert "to be slow" not in done.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--kill-link", "0,1-0,2"), "no '@' after the column; expected ROW,COLUMN-ROW,COLUMN@STEP"),
        (("--slow-link", "0,1-0,2@5:11"), "more than 0 and at most 10"),
        (("--kill-link", "0,2-0,3@5"), "the mesh of 2x3 has no chip in row 0, column 3"),
        (("--kill-link", "0,0-0,1@5"), "chip 0 (row 0, column 0) is dead from the beginning"),
        (("--slow-link", "0,1-1,2@5:1"), "no live link joins chip 1 (row 0, column 1) and chip 5"),
        (("--kill-link", "0,1-0,2@5", "--dead-link", "0,2-0,1"), "no live link joins"),
        (("--kill-link", "0,1-0,2@13"), "there is no step 13; the run takes 12"),
        (("--slow-link", "0,1-0,2@5:1", "--slow-link", "0,2-0,1@6:1"), "named twice"),
        (("--kill-link", "0,1-0,2@5", "--flip-message", "0@1:0.0.1"), "cannot be combined with --kill-link"),
    ],
)
def test_refusals(tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    done = call("train", spec_of(tmp_path / "spec.json"), "-o", tmp_path / "out.h5", *MESH, *options)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"bitrift-train: error: {options[-2]} ") or options[-2] == "--dead-link"
    assert says in line


def test_failing_links_need_a_mesh(tmp_path: Path) -> None:
    words = ("train", spec_of(tmp_path / "spec.json"), "-o", tmp_path / "out.h5", "--parallel", "data", "--ranks", 2)
    for option in (("--kill-link", "0,1-0,2@5"), ("--slow-link", "0,1-0,2@5:1")):
        done = call(*words, *option)
        assert done.returncode == 2 and f"{option[0]} {option[1]}: only a mesh has links; add --mesh" in done.stderr
