"""`bitrift mesh model` and `bitrift mesh table`, compared with formulas and with each other."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

BITRIFT = Path(os.environ["BITRIFT_BIN_DIR"]) / "bitrift"
HOLE = ("--mesh", "4x4", "--dead", "1,1,2x2")


def mesh(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BITRIFT, "mesh", *arguments], cwd=cwd, text=True, capture_output=True, check=False, timeout=60
    )


def modelled(*arguments: str, cwd: Path | None = None) -> dict:
    done = mesh("model", *arguments, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_ring_takes_its_share_of_the_bytes_and_its_steps() -> None:
    costs = ("--bytes", "6M", "--latency", "2us", "--overhead", "500ns", "--bandwidth", "10G")
    found = modelled(*HOLE, "--schedule", "ring", *costs)
    carried = 6e6 * 11 / 12 / 10e9
    assert found["modelled"]["seconds"] == pytest.approx(carried + 22 * 2.5e-6)
    assert found["bound_seconds"] == pytest.approx(carried)
    assert found["tau"] == {"numerator": 12, "denominator": 11}
    assert found["modelled"]["of_bound"] == pytest.approx(carried / (carried + 22 * 2.5e-6))
    assert found["assumed"] == {"bytes": 6e6, "bandwidth": 10e9, "latency": 2e-6, "overhead": 5e-7}
    links = found["modelled"]["links"]
    assert len(links) == 24
    assert all(link["seconds"] == pytest.approx(carried + 22 * 5e-7) for link in links)


def test_a_plan_in_a_file_takes_the_same_time(tmp_path: Path) -> None:
    for schedule in ("ring", "trees", "forwarding"):
        planned = mesh("plan", *HOLE, "--schedule", schedule, "--bytes", "1M", "-o", "plan.json", cwd=tmp_path)
        assert planned.returncode == 0, planned.stderr
        from_file = modelled("plan.json", "--bytes", "1M", cwd=tmp_path)
        assert from_file == modelled(*HOLE, "--schedule", schedule, "--bytes", "1M")


def test_the_table_agrees_with_the_model() -> None:
    done = mesh("table", *HOLE, "--bytes", "100K", "--bytes", "102M", "--csv")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(row["schedule"], row["bytes"]) for row in rows] == [
        (schedule, size) for schedule in ("ring", "forwarding", "trees") for size in ("100000", "102000000")
    ]
    for row in rows:
        found = modelled(*HOLE, "--schedule", row["schedule"], "--bytes", row["bytes"])
        assert float(row["modelled_seconds"]) == pytest.approx(found["modelled"]["seconds"], rel=1e-5)
        assert float(row["modelled_of_bound"]) == pytest.approx(found["modelled"]["of_bound"], abs=1e-4)
        assert int(row["sends"]) == found["schedule"]["sends"]
        assert float(row["modelled_of_bound"]) <= 1
    trees = {row["bytes"]: int(row["chunks"]) for row in rows if row["schedule"] == "trees"}
    assert trees["100000"] < trees["102000000"]


def test_the_text_marks_what_is_modelled_and_names_what_does_not_apply() -> None:
    text = mesh("table", *HOLE).stdout
    assert "modelled  time; the bound divided by it" in text
    assert "assumed   links of 83.00 GB/s in each direction" in text
    assert "left out  rings-2d: needs a whole mesh" in text
    assert "left out  row-pairs: no pair of rows" in text
    assert len(re.findall(r"^trees ", text, re.M)) == 5
    lines = mesh("model", *HOLE, "--schedule", "trees").stdout.splitlines()
    assert [line.split()[0] for line in lines] == (
        ["mesh", "schedule", "assumed", "modelled", "bound", "step", "rate", "whole", "lost", "links"] + 5 * ["busy"]
    )


def test_a_step_is_computing_and_the_allreduce_that_is_not_hidden() -> None:
    stated = ("--bytes", "6M", "--compute", "300us", "--overlap", "0.5")
    found = modelled(*HOLE, "--schedule", "ring", *stated)
    allreduce = 6e6 * 11 / 12 / 83e9 + 22 * 1.1e-6
    whole = 6e6 * 15 / 16 / 83e9 + 30 * 1.1e-6
    step = found["modelled"]["step"]
    assert found["assumed"]["compute"] == pytest.approx(300e-6)
    assert found["assumed"]["overlap"] == 0.5
    assert step["allreduce_seconds"] == pytest.approx(allreduce)
    assert step["hidden_seconds"] == pytest.approx(allreduce / 2)
    assert step["seconds"] == pytest.approx(300e-6 + allreduce / 2)
    assert step["batches_per_second_per_chip"] == pytest.approx(1 / step["seconds"])
    assert step["without_failures"]["seconds"] == pytest.approx(300e-6 + whole / 2)
    lost = 1 - 12 / 16 * step["without_failures"]["seconds"] / step["seconds"]
    assert step["lost"] == {"chips": 0.25, "throughput": pytest.approx(lost)}

    row = next(csv.DictReader(io.StringIO(mesh("table", *HOLE, *stated, "--csv").stdout)))
    assert (row["schedule"], row["compute_origin"], row["overlap"]) == ("ring", "stated", "0.5")
    assert float(row["compute_seconds"]) == pytest.approx(300e-6)
    assert float(row["modelled_step_seconds"]) == pytest.approx(step["seconds"], rel=1e-5)
    assert float(row["modelled_batches_per_second_per_chip"]) == pytest.approx(1 / step["seconds"], rel=1e-5)
    assert float(row["modelled_step_seconds_without_failures"]) == pytest.approx(300e-6 + whole / 2, rel=1e-5)
    assert float(row["modelled_throughput_lost"]) == pytest.approx(lost, rel=1e-4)
    assert row["chips_lost"] == "0.25"


def test_steps_are_left_out_where_no_time_is_known_and_the_whole_mesh_where_there_is_none() -> None:
    assert "step" not in modelled(*HOLE, "--schedule", "ring", "--bytes", "6M")["modelled"]
    assert modelled(*HOLE, "--schedule", "ring", "--bytes", "102M")["assumed"]["compute"] == 0.016
    assert modelled(*HOLE, "--schedule", "ring", "--bytes", "1.34G")["assumed"]["compute"] == 0.17
    for arguments in (["4x4"], ["3x3", "--dead", "1,1"]):  # no failure; no ring through nine chips
        found = modelled("--mesh", *arguments, "--schedule", "ring", "--compute", "1ms")
        assert set(found["modelled"]["step"]) == {
            "seconds",
            "allreduce_seconds",
            "hidden_seconds",
            "batches_per_second_per_chip",
        }
    rows = list(csv.DictReader(io.StringIO(mesh("table", *HOLE, "--csv").stdout)))
    assert [row["compute_seconds"] for row in rows] == 3 * ["", "", "", "0.016", "0.17"]
    assert all((row["modelled_throughput_lost"] == "") == (row["compute_seconds"] == "") for row in rows)
    assert "lost " not in mesh("table", "--mesh", "2x2", "--bytes", "102M").stdout.split("\n\n")[0]


def test_the_loads_of_links_are_also_csv() -> None:
    arguments = ("--mesh", "2x3", "--dead", "1,1", "--schedule", "trees")
    rows = list(csv.DictReader(io.StringIO(mesh("model", *arguments, "--csv").stdout)))
    found = modelled(*arguments)["modelled"]
    assert len(rows) == len(found["links"]) == 8
    for row, link in zip(rows, found["links"], strict=True):
        assert int(row["from_row"]) * 3 + int(row["from_column"]) == link["from"]
        assert int(row["to_row"]) * 3 + int(row["to_column"]) == link["to"]
        assert float(row["modelled_seconds"]) == pytest.approx(link["seconds"], rel=1e-5)
        assert float(row["modelled_part"]) == pytest.approx(link["seconds"] / found["seconds"], abs=1e-4)


def test_a_slow_link_costs_its_delay_on_the_way_there_and_back() -> None:
    ring = ("--mesh", "2x3", "--schedule", "ring", "--bytes", "6M", "--compute", "1ms")
    fast = modelled(*ring)
    slow = modelled(*ring, "--slow-link", "0,1-0,0:2ms")
    assert slow["assumed"].pop("slow_links") == [{"link": [0, 1], "delay": 0.002}]
    assert slow["assumed"] == fast["assumed"]
    assert slow["modelled"]["seconds_without_slow_links"] == fast["modelled"]["seconds"]
    assert slow["modelled"]["seconds"] == pytest.approx(fast["modelled"]["seconds"] + 4e-3, rel=0.05)
    assert slow["modelled"]["links"] == fast["modelled"]["links"]
    # Two slow links delay a message that crosses both.
    both = modelled(*ring, "--slow-link", "0,0-0,1:2ms", "--slow-link", "0,1-0,2:3ms")
    assert both["modelled"]["seconds"] == pytest.approx(fast["modelled"]["seconds"] + 10e-3, rel=0.05)
    assert "without_failures" not in fast["modelled"]["step"]
    step = slow["modelled"]["step"]
    assert step["without_failures"]["seconds"] == fast["modelled"]["step"]["seconds"]
    lost = 1 - fast["modelled"]["step"]["seconds"] / step["seconds"]
    assert step["lost"] == {"chips": 0, "throughput": pytest.approx(lost)}
    text = mesh("model", *ring, "--slow-link", "0,1-0,0:2ms").stdout
    assert "slow      0,0 to 0,1: assumed, each message 2.000 ms late" in text
    assert "modelled without the slow links: they cost 4.000 ms" in text


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["model", "--mesh", "2x2", "--schedule", "ring", "--slow-link", "0,0-0,1"], "slow link '0,0-0,1': expected"),
        (["model", "--mesh", "2x2", "--schedule", "ring", "--slow-link", "0,0-1,1:1s"], "no live link joins"),
        (["model"], "name a PLAN, or give --mesh and --schedule"),
        (["model", "--mesh", "4x4"], "name a PLAN, or give --mesh and --schedule"),
        (["model", "plan.json", "--mesh", "4x4"], "excludes"),
        (["model", "absent.json"], "absent.json"),
        (["model", "--mesh", "3x3", "--schedule", "ring"], "no ring through all 9 live chips"),
        (["model", "--mesh", "1x1", "--schedule", "trees"], "a single live chip sends nothing"),
        (["model", "--mesh", "64x64", "--schedule", "ring"], "4096 live chips need more than 16777216 sends"),
        (["model", "--mesh", "2x2", "--schedule", "ring", "--latency", "-1us"], "--latency '-1us': expected a time"),
        (["model", "--mesh", "2x2", "--schedule", "ring", "--overhead", "1"], "--overhead '1': expected a time"),
        (["model", "--mesh", "2x2", "--schedule", "ring", "--compute", "2"], "--compute '2': expected a time"),
        (["model", "--mesh", "2x2", "--schedule", "ring", "--overlap", "1.5"], "--overlap: Value 1.5 not in range"),
        (["model", "--mesh", "2x2", "--schedule", "ring", "--json", "--csv"], "excludes"),
        (["table", "--mesh", "2x2", "--bytes", "1M", "--compute", "2min"], "--compute '2min': expected a time"),
        (["table", "--mesh", "2x2", "--bytes", "1M", "--bytes", "1e6"], "--bytes '1e6': expected bytes"),
        (["table", "--mesh", "1x3", "--dead", "0,1"], "cannot be reached"),
        (["table", "--mesh", "1x1"], "a single live chip sends nothing"),
        (["table"], "--mesh"),
    ],
)
def test_bad_arguments_are_refused(tmp_path: Path, arguments: list[str], part: str) -> None:
    done = mesh(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bitrift: error: ")
    assert done.stderr.count("\n") == 1
    assert part in done.stderr


def test_a_plan_that_is_no_allreduce_is_refused(tmp_path: Path) -> None:
    mesh("plan", "--mesh", "2x2", "--schedule", "ring", "-o", "plan.json", cwd=tmp_path)
    plan = json.loads((tmp_path / "plan.json").read_text())
    plan["sends"].pop()
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    done = mesh("model", "plan.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "plan.json: not an allreduce (" in done.stderr


def test_the_help_has_examples_that_work(tmp_path: Path) -> None:
    mesh("plan", *HOLE, "--schedule", "ring", "-o", "plan.json", cwd=tmp_path)
    for command in ("model", "table"):
        examples = re.findall(rf"^  bitrift mesh ({command} .*)$", mesh(command, "--help").stdout, re.M)
        assert len(examples) >= 3
        for example in examples:
            done = mesh(*example.split(), cwd=tmp_path)
            assert done.returncode == 0, done.stderr
