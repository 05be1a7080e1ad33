"""bitrift-hdf5-parallel: several ranks write one file with HDF5's parallel interface, and h5py reads it."""

from __future__ import annotations

import json
import resource
import subprocess
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from study_support import study, write
from train_support import PROGRAM

PARALLEL = PROGRAM.with_name("bitrift-hdf5-parallel")
pytestmark = pytest.mark.skipif(
    not PARALLEL.exists(), reason="parallel HDF5 is not installed: tools/setup --with-parallel-hdf5"
)
TRANSFERS = ("collective", "independent")


def save(*arguments: object, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [str(PARALLEL), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **more)


def one_line(ended: subprocess.CompletedProcess[str], code: int = 2) -> str:
    assert ended.returncode == code, ended
    lines = [line for line in ended.stderr.splitlines() if ": info: " not in line]
    assert len(lines) == 1 and lines[0].startswith("bitrift-hdf5-parallel: error: ") and ended.stdout == "", ended
    return lines[0]


@pytest.fixture(scope="module")
def state() -> dict[str, np.ndarray]:
    """Types, shapes that ranks do not divide, scalars, and tensors without elements."""
    random = np.random.default_rng(5)
    floats = {f"float/{kind}": random.normal(size=(37, 5, 3)).astype(kind) for kind in ("f2", "f4", "f8")}
    integers = {
        f"integer/{kind}": random.integers(0, 120, size=11).astype(kind)
        for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
    }
    special = np.array([np.nan, -0.0, np.inf, 1e-45], "f4")
    shapes = {
        "special": special,
        "large": random.normal(size=(1 << 18, 3)).astype("f4"),
        "one/row": random.normal(size=(1, 1000)).astype("f4"),
        "two/rows/deep/below": np.arange(6, dtype="f8").reshape(2, 3),
        "scalar/float": np.float32(2.5),
        "scalar/integer": np.int64(-(1 << 60)),
        "empty/rows": np.zeros((0, 4), "f4"),
        "empty/columns": np.zeros((3, 0), "i8"),
        "big_endian": np.arange(9, dtype=">i4"),
    }
    return {name: np.asarray(value) for name, value in (floats | integers | shapes).items()}


@pytest.fixture(scope="module")
def source(state: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parallel") / "source.h5"
    with h5py.File(path, "w") as file:
        for name, value in state.items():
            file[name] = value
        file["checksum/crc32c"] = np.zeros(3, "u4")  # of the source, and of no other file
    return path


def check(path: Path, state: dict[str, np.ndarray]) -> None:
    found: dict[str, np.ndarray] = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    assert found.keys() == state.keys()
    for name, value in state.items():
        read = np.asarray(found[name])
        expected = value.astype(value.dtype.newbyteorder("<"))
        assert (read.dtype, read.shape) == (expected.dtype, expected.shape), name
        assert read.tobytes() == expected.tobytes(), name


@pytest.mark.parametrize("transfer", TRANSFERS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_the_file_holds_the_tensors(
    state: dict[str, np.ndarray], source: Path, tmp_path: Path, ranks: int, transfer: str
) -> None:
    out = tmp_path / "out.h5"
    out.write_bytes(b"an older file")
    ended = save(source, "-o", out, "--ranks", ranks, "--transfer", transfer, "--saves", 2, "--json")
    assert ended.returncode == 0, ended.stderr
    check(out, state)
    assert list(tmp_path.iterdir()) == [out]
    told = json.loads(ended.stdout)
    assert (told["ranks"], told["transfer"], told["bytes"]) == (ranks, transfer, out.stat().st_size)
    times = told["block_seconds"]
    assert times["saves"] == 2 and 0 < times["min"] <= times["median"] <= times["max"]
    assert told["library"].startswith("HDF5 ")


def test_other_formats_are_read_too(tmp_path: Path) -> None:
    state = {"a/w": np.arange(50, dtype="f4").reshape(10, 5), "b": np.int64(3)}
    np.savez(tmp_path / "source.npz", **state)  # type: ignore[arg-type]
    ended = save(tmp_path / "source.npz", "-o", tmp_path / "out.h5", "--ranks", 3)
    assert ended.returncode == 0 and ended.stdout.endswith("read back: equal\n"), ended
    check(tmp_path / "out.h5", {name: np.asarray(value) for name, value in state.items()})


def test_a_wrong_value_is_noticed(source: Path, tmp_path: Path) -> None:
    line = one_line(save(source, "-o", tmp_path / "out.h5", "--drill", "flip"), code=1)
    assert "out.h5: 'large' has other values" in line


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_a_file_that_cannot_be_written_leaves_the_older_one(source: Path, tmp_path: Path, transfer: str) -> None:
    """A limit stands for a full disk."""
    out = tmp_path / "out.h5"
    out.write_bytes(b"an older file")
    ended = save(
        *(source, "-o", out, "--ranks", 2, "--transfer", transfer),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
    )
    assert ended.returncode == 2, ended
    assert any("out.h5: cannot be written in parallel" in line for line in ended.stderr.splitlines())
    assert out.read_bytes() == b"an older file" and list(tmp_path.iterdir()) == [out]


def test_bad_input_is_refused_in_one_line(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    with h5py.File(tmp_path / "text.h5", "w") as file:
        file["w"] = np.ones(3)
        file["name"] = ["a", "b"]
    with h5py.File(tmp_path / "bool.h5", "w") as file:
        file["mask"] = np.array([True, False])
    with h5py.File(tmp_path / "empty.h5", "w"):
        pass
    (tmp_path / "folder").mkdir()
    (tmp_path / "noise.h5").write_bytes(b"no HDF5 file" * 100)
    before = sorted(tmp_path.iterdir())
    for words, said in (
        ((tmp_path / "gone.h5", "-o", out), "gone.h5"),
        ((tmp_path / "text.h5", "-o", out), "name holds variable-length string; only plain numbers"),
        ((tmp_path / "bool.h5", "-o", out), "mask holds bool; only plain numbers"),
        ((tmp_path / "empty.h5", "-o", out), "has no tensors"),
        ((tmp_path / "noise.h5", "-o", out), "noise.h5"),
        ((source, "-o", tmp_path / "gone" / "out.h5"), "gone"),
        ((source, "-o", tmp_path / "folder"), "folder"),
        ((source, "-o", out, "--transfer", "some"), "{collective,independent}"),
        ((source, "-o", out, "--ranks", 0), "--ranks"),
        ((source,), "--output"),
    ):
        assert said in one_line(save(*words)), words
    assert sorted(tmp_path.iterdir()) == before


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs, in which a study looks for its own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "bitrift-train").symlink_to(PROGRAM.resolve())
    monkeypatch.setenv("BITRIFT_TRAIN_PROGRAM", str(folder / "bitrift-train"))
    return folder


def short_study(folder: Path) -> Path:
    cost = {"turns": 1, "ranks": [1, 2], "pause_seconds": 0}
    return write(folder, formats=["hdf5"], writers=["native"], parts=["cost"], cost=cost)


def test_a_study_ends_where_the_file_is_wrong(tmp_path: Path, programs: Path) -> None:
    wrong = programs / "bitrift-hdf5-parallel"
    wrong.write_text(f'#!/bin/sh\nexec "{PARALLEL.resolve()}" "$@" --drill flip\n')
    wrong.chmod(0o755)
    ended = study(short_study(tmp_path), tmp_path / "out")
    assert ended.returncode == 1 and "has other values" in ended.stderr, ended


def test_a_study_says_that_it_is_not_installed(tmp_path: Path, programs: Path) -> None:
    ended = study(short_study(tmp_path), tmp_path / "out")
    assert ended.returncode == 0, ended.stderr
    assert "hdf5-parallel native   not installed\n" in ended.stdout
