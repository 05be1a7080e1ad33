"""`bitrift mesh`: its plans are run here with integers, by what docs/mesh.md says; wrong files are refused."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from pathlib import Path

import pytest

BITRIFT = Path(os.environ["BITRIFT_BIN_DIR"]) / "bitrift"


def mesh(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BITRIFT, "mesh", *map(str, arguments)], text=True, capture_output=True, check=False, timeout=60
    )


def planned(path: Path, *arguments: str) -> dict:
    done = mesh("plan", *arguments, "-o", path)
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text())


def refusal(*arguments: str | Path) -> str:
    done = mesh(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bitrift: error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def buffers_after(plan: dict, seed: int) -> tuple[dict[int, list[int]], list[int]]:
    """What live chips hold after a run in which any part of a send that may begin does, and the sums they should."""
    draw = random.Random(seed)
    where = plan["topology"]
    live = sorted(set(range(where["rows"] * where["columns"])) - set(where["dead"]))
    buffers = {chip: [draw.randrange(10**9) for _ in range(plan["chunks"])] for chip in live}
    sums = [sum(parts) for parts in zip(*buffers.values(), strict=True)]
    ended: dict[tuple[int, int], bool] = {}  # (send, chip)
    messages: dict[int, int] = {}
    todo = [(i, chip) for i, send in enumerate(plan["sends"]) for chip in send[:2]]
    draw.shuffle(todo)
    while todo:
        left = []
        for i, chip in todo:
            source, target, chunk, kind, after = plan["sends"][i]
            waits = [one for one in after if chip in plan["sends"][one][:2]]
            if not all(ended.get((one, chip)) for one in waits) or (chip == target and i not in messages):
                left.append((i, chip))
                continue
            if chip == source:
                messages[i] = buffers[chip][chunk]
            else:
                buffers[chip][chunk] = messages[i] + (buffers[chip][chunk] if kind == "add" else 0)
            ended[i, chip] = True
        assert len(left) < len(todo), "stuck"
        todo = left
    return buffers, sums


@pytest.mark.parametrize(
    "arguments",
    [
        ["--mesh", "4x4", "--dead", "1,1,2x2", "--schedule", "ring"],
        ["--mesh", "3x4", "--wrap", "both", "--schedule", "rings-2d"],
        ["--mesh", "4x4", "--dead", "1,1,2x2", "--schedule", "forwarding"],
        ["--mesh", "5x4", "--dead", "0,1", "--dead", "1,2", "--dead-link", "3,0-3,1", "--schedule", "forwarding"],
        ["--mesh", "3x4", "--wrap", "rows", "--dead-link", "0,3-0,0", "--schedule", "forwarding"],
        ["--mesh", "6x3", "--dead", "2,1", "--schedule", "row-pairs"],
        ["--mesh", "4x4", "--dead-link", "0,0-1,0", "--dead-link", "2,1-3,1", "--schedule", "row-pairs"],
        ["--mesh", "4x4", "--dead", "1,1,2x2", "--schedule", "trees", "--bytes", "100K"],
        ["--mesh", "3x5", "--wrap", "rows", "--dead", "1,1", "--schedule", "trees", "--bytes", "200K"],
    ],
)
def test_a_plan_adds_every_gradient_once(tmp_path: Path, arguments: list[str]) -> None:
    plan = planned(tmp_path / "plan.json", *arguments)
    for seed in range(3):
        buffers, sums = buffers_after(plan, seed)
        assert all(held == sums for held in buffers.values())
    done = mesh("verify", tmp_path / "plan.json")
    assert done.returncode == 0
    assert "proved    every chip ends with each gradient exactly once, all added up in the same order" in done.stdout
    assert f"{len(plan['sends']):,} sends, {plan['chunks']} chunks" in done.stdout


def test_dead_links_that_a_scheme_does_not_use_leave_its_groups_whole(tmp_path: Path) -> None:
    """As docs/mesh.md says under "forwarding" and "row-pairs"."""
    pairs = ["--mesh", "2x4", "--wrap", "rows", "--schedule", "row-pairs"]
    whole = planned(tmp_path / "whole.json", *pairs)
    for link in ("0,1-1,1", "0,2-1,2", "0,3-0,0"):  # between the rows of the pair but not at its ends; around
        assert planned(tmp_path / "plan.json", *pairs, "--dead-link", link)["sends"] == whole["sends"]
    for link in ("0,0-1,0", "0,3-1,3", "0,1-0,2"):
        assert "no pair of rows" in refusal("plan", *pairs, "--dead-link", link)
    # Every row of this mesh lacks the link that wraps around: each is a line, and none forwards.
    rows = ["--mesh", "2x4", "--schedule", "forwarding"]
    lines = planned(tmp_path / "lines.json", *rows)
    around = ["--wrap", "rows", "--dead-link", "0,3-0,0", "--dead-link", "1,3-1,0"]
    assert planned(tmp_path / "plan.json", *rows, *around)["sends"] == lines["sends"]
    assert "every row has a dead chip or link" in refusal(
        "plan", *rows, "--dead-link", "0,1-0,2", "--dead-link", "1,2-1,3"
    )


def test_a_plan_without_a_file_is_only_described() -> None:
    done = mesh("plan", "--mesh", "4x4", "--schedule", "rings-2d")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "mesh      4x4, wrap neither, 16 chips alive"


def test_a_wrong_plan_ends_with_a_counter_example(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan = planned(path, "--mesh", "2x2", "--schedule", "ring")
    plan["sends"][-1][4] = []
    path.write_text(json.dumps(plan))
    done = mesh("verify", path)
    assert (done.returncode, done.stderr) == (1, "")
    assert re.fullmatch(r"wrong     race: chunk \d at chip \d .*no waits order the two\n", done.stdout)


def test_the_flaws_are_looked_for_in_the_order_of_the_page(tmp_path: Path) -> None:
    """Links, waits and cycles in the whole plan, then chunk by chunk races and sums."""
    line = {"rows": 1, "columns": 4, "wrap": "neither", "dead": [], "dead_links": []}
    missing = [[0, 1, 0, "add", []], [2, 1, 0, "add", [0]], [1, 0, 0, "copy", [1]]]  # in chunk 0
    race = [[0, 1, 1, "add", []], [2, 1, 1, "add", []], [1, 0, 1, "copy", [4]], [1, 2, 1, "copy", [4]]]
    cycle = [[0, 1, 0, "add", [8]], [1, 0, 0, "copy", [7]]]  # sends 7 and 8
    unseen = [[2, 3, 0, "add", [0]]]
    unlinked = [[0, 2, 0, "add", []]]
    path = tmp_path / "plan.json"

    def flaw_of(sends: list) -> str:
        plan = {"schema": 1, "scheme": "other", "topology": line, "chunks": 2, "sends": sends}
        path.write_text(json.dumps(plan))
        done = mesh("verify", path)
        assert done.returncode == 1
        return done.stdout.split(":")[0].removeprefix("wrong").strip()

    assert flaw_of(missing + race) == "missing"
    assert flaw_of([*missing, *race, *cycle]) == "cycle"
    assert flaw_of([*missing, *race, *cycle, *unseen]) == "unseen-wait"
    assert flaw_of([*missing, *race, *cycle, *unseen, *unlinked]) == "no-link"


def test_a_mesh_in_two_parts_is_refused() -> None:
    assert "chip 2 (row 0, column 2) cannot be reached from chip 0 (row 0, column 0)" in refusal(
        "plan", "--mesh", "2x3", "--dead", "0,1,2x1", "--schedule", "forwarding"
    )


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--mesh", "4", "--schedule", "ring"], "mesh '4': expected ROWSxCOLUMNS"),
        (["--mesh", "4x4", "--dead", "4,0", "--schedule", "ring"], "not inside the mesh of 4x4"),
        (["--mesh", "4x4", "--dead-link", "0,0-1,1", "--schedule", "ring"], "no link 0,0-1,1"),
        (["--mesh", "3x3", "--schedule", "ring"], "there is no ring through all 9 live chips"),
        (["--mesh", "4x4", "--dead", "0,0", "--schedule", "rings-2d"], "needs a whole mesh"),
        (["--mesh", "4x4", "--schedule", "star"], "--schedule"),
        (["--mesh", "4x4", "--wrap", "rings", "--schedule", "ring"], "--wrap"),
        (["--mesh", "4x4"], "--schedule"),
        (["--mesh", "4x4", "--schedule", "trees", "--bytes", "102MB"], "--bytes '102MB': expected bytes as a number"),
        (["--mesh", "4x4", "--schedule", "trees", "--latency", "1"], "--latency '1': expected a time as a number"),
    ],
)
def test_bad_arguments_are_refused(arguments: list[str], part: str) -> None:
    assert part in refusal("plan", *arguments)


def test_damaged_files_are_refused_or_judged(tmp_path: Path) -> None:
    """A byte changed anywhere: never an internal error, never more than a line."""
    path = tmp_path / "plan.json"
    planned(path, "--mesh", "2x3", "--schedule", "row-pairs")
    whole = path.read_bytes()
    draw = random.Random(4)
    codes = []
    digits = [place for place, byte in enumerate(whole) if byte in b"0123456789"]
    for i in range(80):
        damaged = bytearray(whole)
        if i % 2 == 0:
            damaged[draw.randrange(len(whole))] = draw.choice(b'0179-,.[]{}"adx\x00\xff')
        else:
            damaged[draw.choice(digits)] = draw.choice(b"0123456789")
        path.write_bytes(damaged)
        done = mesh("verify", path)
        assert done.returncode in (0, 1, 2)
        assert done.stderr.count("\n") == (done.returncode == 2)
        codes.append(done.returncode)
    assert codes.count(1) > 3
    assert codes.count(2) > 10
    path.write_bytes(whole[:-10])
    assert f"{path}: not valid JSON" in refusal("verify", path)
    assert "absent.json" in refusal("verify", tmp_path / "absent.json")
    assert refusal("verify", tmp_path)


def test_the_help_has_examples_that_work(tmp_path: Path) -> None:
    text = mesh("plan", "--help").stdout
    examples = re.findall(r"^  bitrift mesh (plan .*)$", text, re.M)
    assert len(examples) == 4
    for example in examples:
        done = subprocess.run(
            [BITRIFT, "mesh", *example.split()], cwd=tmp_path, text=True, capture_output=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
    assert "bitrift mesh verify plan.json" in mesh("verify", "--help").stdout
