"""Figures of meshes hold the numbers that the program prints."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bitrift import BadFile, mesh_plots
from bitrift.__main__ import main
from bitrift.program import program, run_program
from matplotlib.collections import LineCollection
from matplotlib.image import imread

HOLE = ("--mesh", "3x4", "--wrap", "rows", "--dead", "1,1", "--bytes", "1M")


def model(*arguments: str) -> str:
    return run_program(["mesh", "model", *arguments, "--json"])


def command(*arguments: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "bitrift", "mesh-plot", *map(str, arguments)]
    return subprocess.run(call, input=text, capture_output=True, text=True, check=False)


def test_each_direction_of_a_link_has_its_colour_on_its_side() -> None:
    printed = json.loads(model(*HOLE, "--schedule", "trees"))
    figure = mesh_plots.load_figure(printed)
    axes = figure.axes[0]
    (lines,) = (one for one in axes.collections if isinstance(one, LineCollection))
    pieces: list[tuple[np.ndarray, float]] = list(
        zip(map(np.asarray, lines.get_segments()), np.asarray(lines.get_array()), strict=True)
    )
    seen = 0
    for link in printed["modelled"]["links"]:
        start, end = np.array(divmod(link["from"], 4)[::-1]), np.array(divmod(link["to"], 4)[::-1])
        wraps = abs(end - start).sum() > 1
        step = -np.sign(end - start) if wraps else end - start
        right = np.array([-step[1], step[0]]) * 0.1
        part = link["seconds"] / printed["modelled"]["seconds"]
        for place, first, last in [(start, 0.15, 0.5), (end, -0.5, -0.15)] if wraps else [(start, 0.15, 0.85)]:
            expected = np.array([place + right + first * step, place + right + last * step])
            (value,) = (value for piece, value in pieces if np.allclose(piece, expected))
            assert value == pytest.approx(part)
            seen += 1
    assert seen == len(pieces) > len(printed["modelled"]["links"])  # some wrap around
    assert lines.get_clim() == (0, 1)
    assert axes.get_title() == "trees on 3x4, 11 chips alive"
    drawn: list[Any] = list(axes.lines)
    marks = {tuple(line.get_xydata()[0]): line.get_marker() for line in drawn}
    assert len(marks) == 12
    assert [place for place, marker in marks.items() if marker == "x"] == [(1, 1)]
    assert figure.axes[1].get_ylabel() == "part of the time for which a link is occupied (modelled)"
    low, high = sorted(axes.get_ylim())
    assert axes.get_ylim() == (high, low)  # row 0 at the top


def test_each_scheme_has_a_line_through_its_efficiencies() -> None:
    table = run_program(["mesh", "table", *HOLE, "--bytes", "1K", "--bytes", "102M", "--csv"])
    axes = mesh_plots.efficiency_figure(table, title="3x4").axes[0]
    drawn = {str(line.get_label()): np.array(line.get_data()).T.tolist() for line in axes.lines}
    expected: dict[str, list[list[float]]] = {}
    for row in csv.DictReader(io.StringIO(table)):
        expected.setdefault(row["schedule"], []).append([float(row["bytes"]), float(row["modelled_of_bound"])])
    assert {"forwarding", "trees"} <= set(expected)
    assert drawn == {scheme: sorted(points) for scheme, points in expected.items()}
    assert [len(points) for points in expected.values()] == [3] * len(expected)
    assert (axes.get_xscale(), axes.get_title(), axes.get_ylim()) == ("log", "3x4", (0, 1))
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == list(expected)


def test_the_command_writes_pictures(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(model(*HOLE, "--schedule", "forwarding"))
    done = command(tmp_path / "model.json", "-o", tmp_path / "links.png", "--title", "A mesh")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    picture = imread(tmp_path / "links.png")
    assert min(picture.shape[:2]) > 200
    assert len(np.unique(picture.reshape(-1, picture.shape[2]), axis=0)) > 50
    table = run_program(["mesh", "table", "--mesh", "2x2", "--bytes", "1M", "--csv"])
    done = command("-", "-o", tmp_path / "table.svg", text=table)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "table.svg").read_text().count("<path") > 10


def test_the_example_of_the_help_works(tmp_path: Path) -> None:
    text = " ".join(command("--help").stdout.split())
    example = text.split("Example: ")[1].split(". Exit codes")[0]
    line = example.replace("bitrift mesh", f"{program()} mesh", 1).replace("python -m", f"{sys.executable} -m")
    subprocess.run(line, shell=True, cwd=tmp_path, check=True)
    assert (tmp_path / "links.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "this is not what `bitrift mesh table --csv` prints"),
        ("schedule,bytes\nring,1\n", "this is not what `bitrift mesh table --csv` prints"),
        ("schedule,bytes,modelled_of_bound\nring,1\n", "line 2: this is not what `bitrift mesh table --csv`"),
        ("schedule,bytes,modelled_of_bound\nring,1,x\n", "line 2: this is not what `bitrift mesh table --csv`"),
        ("{", "not valid JSON"),
        ("{}", "this is not what `bitrift mesh model --json` prints"),
        (
            '{"topology": {"rows": 1000000, "columns": 1000000, "dead": []}, "schedule": {"scheme": "ring"}, '
            '"modelled": {"seconds": 1, "links": []}}',
            "this is not what `bitrift mesh model --json` prints",
        ),
        ('{"topology": 3, "modelled": {"seconds": 1}}', "this is not what `bitrift mesh model --json` prints"),
    ],
)
def test_other_text_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, part: str
) -> None:
    with pytest.raises(BadFile, match=part):
        mesh_plots.figure_of(text)
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    with pytest.raises(SystemExit) as ended:
        main(["mesh-plot", "-", "-o", str(tmp_path / "a.png")])
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert said.err.startswith("bitrift: error: standard input: ")
    assert said.err.count("\n") == 1
    assert part in said.err
    assert not (tmp_path / "a.png").exists()


def test_files_that_cannot_be_read_or_written_are_refused(tmp_path: Path) -> None:
    table = "schedule,bytes,modelled_of_bound\nring,1,0.5\n"
    cases: list[tuple[list[str | Path], str]] = [
        ([tmp_path / "absent.json", "-o", tmp_path / "a.png"], "absent.json"),
        (["-", "-o", tmp_path / "no" / "a.png"], "No such file"),
        (["-", "-o", tmp_path / "a.xyz"], "Format 'xyz' is not supported"),
    ]
    for arguments, part in cases:
        done = command(*arguments, text=table)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert part in done.stderr
