"""What `cmake --install` puts into a prefix, and a project that finds it there with find_package(bitrift)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ["BITRIFT_BIN_DIR"]).parent
DOWNSTREAM = Path(__file__).parent / "downstream"


def call(*words: object, code: int = 0, **options: object) -> str:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=300, check=False, **options)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("install") / "a prefix"
    call("cmake", "--install", BUILD, "--prefix", prefix)
    return prefix


@pytest.fixture(scope="module")
def flip(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("downstream")
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    assert compiler
    call("cmake", "-S", DOWNSTREAM, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={compiler[1]}")
    call("cmake", "--build", build)
    return build / "flip"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "c.h5"
    with h5py.File(path, "w") as file:
        file["model/fc.weight"] = np.arange(12, dtype="<f4").reshape(3, 4)
        file["model/fc.bias"] = np.ones(3, "<f4")
    return path


def test_a_project_finds_the_libraries_and_flips_a_bit(flip: Path, checkpoint: Path, tmp_path: Path) -> None:
    shown = call(flip, checkpoint, tmp_path / "o.h5", "model/fc.weight").splitlines()
    # 0.4042: R, binom.confint(1, 10, methods = "wilson")
    assert shown == [f"model/fc.weight 3 {1 << 30}", "0.4042"]
    with h5py.File(checkpoint) as before, h5py.File(tmp_path / "o.h5") as after:
        old, new = (file["model/fc.weight"][()].view("<u4").reshape(-1) for file in (before, after))
        assert [(i, old[i] ^ new[i]) for i in range(12) if old[i] != new[i]] == [(3, 1 << 30)]
    assert (
        "no tensor matches 'model/none'"
        in subprocess.run(
            [flip, checkpoint, tmp_path / "o.h5", "model/none"], capture_output=True, text=True, check=False
        ).stderr
    )


def test_another_minor_version_is_not_found(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES CXX)\nfind_package(bitrift 0.2 REQUIRED)\n"
    )
    done = subprocess.run(
        ["cmake", "-S", tmp_path, "-B", tmp_path / "b", f"-DCMAKE_PREFIX_PATH={prefix}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0 and "version: 0.1" in done.stderr


def test_programs_and_package_run_from_the_prefix(prefix: Path, checkpoint: Path, tmp_path: Path) -> None:
    with h5py.File(checkpoint, "r+") as file:  # a filter that only bitrift-hdf5 has
        file.create_dataset("model/packed", data=np.arange(64, dtype="<i4"), chunks=(16,), scaleoffset=0)
    environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    arguments = ["inject", checkpoint, "-o", tmp_path / "o.h5", "--tensor", "model/packed", "--bits", "0"]
    call(prefix / "bin/bitrift", *arguments, env=environment)
    if (BUILD / "bin/bitrift-train").exists():
        assert call(prefix / "bin/bitrift-train", "--version", env=environment).startswith("bitrift-train ")
    site = prefix / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    code = (
        "import bitrift, sys; print(bitrift.inject(*sys.argv[1:], tensor='model/packed', bits=0)['faults'][0]['bits'])"
    )
    shown = call(
        sys.executable, "-c", code, checkpoint, tmp_path / "p.h5", env={**environment, "PYTHONPATH": str(site)}
    )
    assert shown == "[0]\n"


def test_headers_schemas_campaigns_and_completion_are_there(prefix: Path) -> None:
    headers = list((prefix / "include/bitrift").rglob("*.h"))
    assert len(headers) > 50
    for header in headers:
        for name in re.findall(r'#include "(.*)"', header.read_text()):
            assert (prefix / "include" / name).is_file(), (header, name)
    shared = prefix / "share/bitrift/campaigns"
    assert (shared / "schema/campaign.schema.json").is_file() and (shared / "quickstart.json").is_file()
    assert "complete -F _bitrift" in (prefix / "share/bash-completion/completions/bitrift").read_text()
    assert (prefix / "share/doc/bitrift/LICENSE").is_file()
