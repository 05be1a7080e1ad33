"""`bitrift completion`: its script is run by bash, as a user's shell would."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

BITRIFT = Path(os.environ["BITRIFT_BIN_DIR"]) / "bitrift"


def output(*words: str) -> str:
    return subprocess.run([BITRIFT, *words], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "bitrift.bash"
    path.write_text(output("completion", "bash"))
    return path


def completed(script: Path, line: str, folder: Path) -> set[str]:
    """What bash offers for the last word of a line; the words are split as bash splits them, at '=' too."""
    words = [word for word in re.split(r"(=)|\s+", line) if word is not None]
    if line.endswith("="):
        words.pop()
    listed = " ".join(shlex.quote(word) for word in words)
    code = f"source {script}; COMP_WORDS=({listed}) COMP_CWORD={len(words) - 1}; _bitrift; "
    code += r"""printf '%s\n' "${COMPREPLY[@]}" """
    done = subprocess.run(
        ["bash", "--norc", "-u", "-c", code], cwd=folder, capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stderr == ""
    return set(done.stdout.split("\n")) - {""}


def commands_of(*path: str) -> list[str]:
    found = re.search(r"^(?:SUBCOMMANDS|Subcommands):\n((?:  .*\n)+)", output(*path, "--help"), re.M)
    return re.findall(r"^  (\w[\w-]*)", found[1], re.M) if found else []


def leaves(*path: str) -> list[tuple[str, ...]]:
    below = commands_of(*path)
    return [leaf for one in below for leaf in leaves(*path, one)] if below else [path]


def test_commands_are_completed(script: Path, tmp_path: Path) -> None:
    assert completed(script, "bitrift ", tmp_path) == set(commands_of())
    assert completed(script, "bitrift inj", tmp_path) == {"inject"}
    assert completed(script, "bitrift campaign ", tmp_path) == set(commands_of("campaign"))
    assert {"run", "replay"} <= set(commands_of("campaign"))


def test_every_option_of_every_command_is_completed(script: Path, tmp_path: Path) -> None:
    assert len(leaves()) > 12
    for leaf in leaves():
        shown = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", output(*leaf, "--help"), re.M))
        assert shown, leaf
        assert shown <= completed(script, f"bitrift {' '.join(leaf)} --", tmp_path), leaf


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("bitrift inject f.h5 --wh", {"--what"}),
        ("bitrift inject f.h5 --what stuck", {"stuck-at-0", "stuck-at-1"}),
        ("bitrift inject f.h5 --what=na", {"nan"}),
        ("bitrift inject f.h5 --plane=", {"value", "storage", "metadata"}),
        ("bitrift inject f.h5 --role exp_avg_", {"exp_avg_sq"}),
        ("bitrift inject f.h5 --bits exponent", {"exponent", "exponent_msb"}),
        ("bitrift inject f.h5 --count ", set()),
        ("bitrift campaign show d --outcome ", {"masked", "SDC", "crash"}),
        ("bitrift analyze d --interval w", {"wilson"}),
        ("bitrift completion ", {"bash", "zsh"}),
    ],
)
def test_values_of_closed_sets_are_completed(line: str, words: set[str], script: Path, tmp_path: Path) -> None:
    assert completed(script, line, tmp_path) == words


def test_files_are_completed_where_a_file_is_expected(script: Path, tmp_path: Path) -> None:
    (tmp_path / "model one.h5").touch()
    (tmp_path / "models").mkdir()
    for line in ("bitrift ls mod", "bitrift inject x.h5 -o mod", "bitrift inject x.h5 --manifest=mod"):
        assert completed(script, line, tmp_path) == {"model one.h5", "models"}, line


def test_an_unknown_shell_is_refused() -> None:
    done = subprocess.run([BITRIFT, "completion", "tcsh"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_zsh_takes_the_script(tmp_path: Path) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    (tmp_path / "s.zsh").write_text(output("completion", "zsh"))
    code = """source s.zsh
    run() { emulate -L ksh; COMP_WORDS=(bitrift inject f.h5 --what stuck); COMP_CWORD=4; _bitrift; }
    run; print -l ${_comps[bitrift]} $COMPREPLY"""
    environment = os.environ | {"HOME": str(tmp_path)}  # where zsh writes what it knows
    done = subprocess.run(
        ["zsh", "-f", "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    registered, *words = done.stdout.splitlines()
    assert registered == "_bash_complete -F _bitrift"
    assert {"stuck-at-0", "scale"} <= set(words) and "--what" not in words, words  # zsh itself picks those that fit
