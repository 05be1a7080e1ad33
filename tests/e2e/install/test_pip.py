"""`pip install .` in a fresh virtual environment: the package and the programs, without LibTorch, MPI or a package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
LENET = ROOT / "data/lenet/lenet.h5"
MOST_BYTES = 6_500_000

USE = """
import math

import bitrift

tensors: list[bitrift.Tensor] = bitrift.list_tensors("c.h5")
names: dict[str, tuple[int, ...]] = {tensor.path: tensor.shape for tensor in tensors}
assert names["model/fc2.weight"] == (84, 120), names
manifest = bitrift.inject("c.h5", "o.h5", tensor="model/fc2.weight", element=(1, 2), bits=[22, 30])
old: int = manifest["faults"][0]["old"]
new: int = manifest["faults"][0]["new"]
assert old ^ new == 1 << 22 | 1 << 30
again = bitrift.replay("c.h5", "again.h5", manifest=manifest)
assert again == manifest
difference: bitrift.Difference = bitrift.diff("c.h5", "o.h5")[-1]
assert difference.first_new ^ difference.first_old == old ^ new
try:
    bitrift.list_tensors("none.h5")
except FileNotFoundError as error:
    assert isinstance(error, bitrift.NotFound)
    print(error.code.upper(), error.key.upper())
interval: bitrift.Interval = bitrift.wilson(1, 10)
low, high = interval
assert math.isclose(high, 0.4042, abs_tol=5e-5)  # R, binom.confint(1, 10, methods = "wilson")
try:
    bitrift.plan("c.h5", bits="elbow")
except bitrift.BadInput as error:
    print(error.code, error.key)
"""

WRONG = """
import bitrift

bitrift.inject("c.h5", "o.h5", bits=3.5)
bitrift.list_tensors("c.h5")[0].paht
"""


def environment() -> dict[str, str]:
    """Without what the tests set. The compiler is called as the build calls it, so that ccache knows its results."""
    set_here = {"CC": "cc", "CXX": "c++", "CMAKE_BUILD_PARALLEL_LEVEL": "2"}
    left_out = ("PYTHONPATH", "BITRIFT_BIN_DIR", "CMAKE_PREFIX_PATH", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if name not in left_out} | set_here


def call(*words: object, code: int = 0, **options: object) -> str:
    """What a command prints, errors and all."""
    done = subprocess.run(
        [*map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=environment(),
        timeout=550,
        **options,
    )
    assert done.returncode == code, done.stdout[-8000:]
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment's bin; the output of pip is beside it.

    pip builds in a new folder beside the build that is tested: whatever paths ccache was told to cut, both then have
    the same, so that pip's compiler finds there what the other one compiled.
    """
    folder = tmp_path_factory.mktemp("venv")
    call(sys.executable, "-m", "venv", folder)
    build = tempfile.mkdtemp(prefix="pip-", dir=Path(os.environ["BITRIFT_BIN_DIR"]).resolve().parents[1])
    quiet = ("--no-input", "--disable-pip-version-check", "--progress-bar", "off")
    options = ("-v", *quiet, "--config-settings", f"build-dir={build}")
    try:
        shown = call(folder / "bin/python", "-m", "pip", "install", *options, ROOT, cwd=folder)
    finally:
        shutil.rmtree(build)
    (folder / "pip.log").write_text(shown)
    return folder / "bin"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "c.h5").write_bytes(LENET.read_bytes())
    return tmp_path


def test_the_wheel_is_small_and_says_that_training_is_left_out(installed: Path) -> None:
    shown = (installed.parent / "pip.log").read_text()
    size = re.search(r"Created wheel for bitrift: .* size=(\d+)", shown)
    assert size and int(size[1]) < MOST_BYTES, size
    assert "bitrift-train is left out, because Torch was not found" in shown
    assert not (installed / "bitrift-train").exists()


def test_it_needs_no_other_package(installed: Path) -> None:
    listed = call(installed / "python", "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check")
    assert {line.partition("==")[0].lower() for line in listed.split()} <= {"bitrift", "pip", "setuptools"}


def test_the_program_runs_with_the_filters_of_hdf5(installed: Path, place: Path) -> None:
    version = call(installed / "python", "-c", "import bitrift; print(bitrift.__version__)")
    assert call(installed / "bitrift", "--version") == f"bitrift {version}"
    with h5py.File(place / "c.h5", "r+") as file:
        file.create_dataset("model/packed", data=np.arange(64, dtype="<i4"), chunks=(16,), scaleoffset=0)
    for command in (
        [installed / "bitrift", "inject", "c.h5", "-o", "o.h5", "--tensor", "model/packed", "--bits", "0"],
        [installed / "python", "-c", "import bitrift; bitrift.inject('c.h5', 'o.h5', tensor='model/packed', bits=0)"],
    ):
        (place / "o.h5").unlink(missing_ok=True)
        call(*command, cwd=place)
        with h5py.File(place / "c.h5") as before, h5py.File(place / "o.h5") as after:
            assert sorted(before["model/packed"][()] ^ after["model/packed"][()])[-2:] == [0, 1]


@pytest.mark.thorough
def test_a_users_script_runs_and_passes_mypy_strict(installed: Path, place: Path) -> None:
    (place / "use.py").write_text(USE)
    assert call(installed / "python", "-W", "error", "use.py", cwd=place) == "NOT_FOUND \nbad_input bits\n"
    mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--python-executable", installed / "python"]
    assert call(*mypy, "use.py", cwd=place).startswith("Success")
    (place / "wrong.py").write_text(textwrap.dedent(WRONG))
    shown = call(*mypy, "wrong.py", cwd=place, code=1)
    assert (
        'wrong.py:4: error: Argument "bits"' in shown and 'wrong.py:5: error: "Tensor" has no attribute "paht"' in shown
    )


def test_the_package_is_imported_at_once(installed: Path) -> None:
    def seconds(code: str) -> float:
        started = time.perf_counter()
        call(installed / "python", "-c", code)
        return time.perf_counter() - started

    own = min(seconds("import bitrift") for _ in range(5)) - min(seconds("pass") for _ in range(5))
    assert own < 0.5, own
