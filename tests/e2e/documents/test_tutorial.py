"""The tutorial: all commands run and print the lines that it shows (numbers aside), and all of its Python runs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from notebook_support import execute

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```(bash|text|python)\n(.*?)^```$", re.M | re.S)


def blocks() -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))


def without_numbers(line: str) -> str:
    """Other processors give other numbers, and so other widths."""
    return re.sub(r"0x[0-9a-f]+|\b[0-9a-f]{32}\b|[\d.]+", "#", line).replace(" ", "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As a checkout is after tools/quickstart --full, whose campaign is run here.

    In an eighth of its time: without the faults in mantissas, which none of the page's commands shows, with few
    clean runs, and for two epochs, which gives other numbers but the same lines.
    """
    folder = tmp_path_factory.mktemp("tutorial")
    for name in ("campaigns", "data", "examples"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "results").mkdir()
    assert blocks()[0] == ("bash", "tools/quickstart --full\n")
    assert blocks()[1][1].startswith("export PATH=")
    command = [Path(os.environ["BITRIFT_BIN_DIR"]) / "bitrift", "campaign", "run", "campaigns/quickstart.json"]
    strata = 'strata={"roles": ["weight", "bias", "momentum"], "fields": ["sign", "exponent"]}'
    command += ["-o", "results/quickstart", "--set", strata, "--set", "resume.epochs=2"]
    command += ["--set", "controls.held_out=4", "--set", "controls.jitter=4"]
    command += ["--set", "controls.envelope=20", "--set", "analysis.level=0.05"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def outputs(folder: Path) -> list[tuple[str, str, str]]:
    """Command, what it printed, and what the page shows of it."""
    bin_path = os.pathsep.join([os.environ["BITRIFT_BIN_DIR"], str(Path(sys.executable).parent), os.environ["PATH"]])
    found: list[tuple[str, str, str]] = []
    for kind, text in blocks()[2:]:
        if kind == "bash":
            done = subprocess.run(
                ["bash", "-c", text],
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                env=os.environ | {"PATH": bin_path},
            )
            assert done.returncode == (1 if "forgetful" in text else 0), text + done.stdout
            found.append((text, done.stdout, ""))
        elif kind == "text":
            found[-1] = (*found[-1][:2], text)
    return found


def commands() -> list[list[str]]:
    """The commands of bitrift, without comments and what a shell does with their output."""
    text = "".join(text for kind, text in blocks() if kind == "bash").replace("\\\n", " ")
    words = [shlex.split(line, comments=True) for line in text.splitlines()]
    return [line for line in words if line and line[0] == "bitrift"]


def test_programs_know_every_subcommand_and_option() -> None:
    assert len(commands()) >= 6
    for _, *words in commands():
        names = [word for word in words[:2] if re.fullmatch(r"[a-z-]+", word)]
        program = Path(os.environ["BITRIFT_BIN_DIR"]) / "bitrift"
        # The first word is a subcommand, and a second one where it has subcommands itself.
        for known in (names, names[:1]):
            shown = subprocess.run([program, *known, "--help"], capture_output=True, text=True, check=False)
            if shown.returncode == 0:
                break
        assert shown.returncode == 0, (words, shown.stderr)
        for option in (word.partition("=")[0] for word in words if word.startswith("-")):
            assert re.search(rf"(^|[\s,]){re.escape(option)}\b", shown.stdout), (words, option)


def test_its_python_compiles() -> None:
    texts = [text for kind, text in blocks() if kind == "python"]
    assert len(texts) >= 4
    for text in texts:
        compile(text, "docs/tutorial.md", "exec")


# These run the whole page. The notebook one_bit and the tests of each command are in the first tier.
@pytest.mark.thorough
def test_every_line_that_is_shown_comes(outputs: list[tuple[str, str, str]]) -> None:
    assert len(outputs) >= 7
    for command, printed, shown in outputs:
        there = [without_numbers(line) for line in printed.splitlines()]
        for line in filter(None, shown.splitlines()):
            assert without_numbers(line) in there, f"{command}does not print\n{line}\nbut\n{printed}"


@pytest.mark.thorough
@pytest.mark.usefixtures("outputs")
def test_every_line_of_python_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    before = Path.cwd()
    os.chdir(folder)
    try:
        for kind, text in blocks():
            if kind == "python":
                exec(compile(text, "docs/tutorial.md", "exec"), names)
    finally:
        os.chdir(before)
    assert "does not read role exp_avg" in capsys.readouterr().out


@pytest.mark.thorough
def test_the_notebook_of_the_quickstart_reaches_its_conclusion(folder: Path) -> None:
    assert "Conclusion" in execute("quickstart", folder / "results" / "quickstart")
