"""Flips in deflated data: sizes and most stored bytes stay, h5py and numpy read exactly the altered values."""

from __future__ import annotations

import os
from pathlib import Path

import archive_files as archives
import h5py
import numpy as np
import pytest
from inject_support import names_in, run, run_json, undo_ranges

FILTERS = {
    "gzip": {"compression": "gzip"},
    "shuffled": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "hardest": {"compression": "gzip", "compression_opts": 9},
}
CHUNK = 1 << 16


def weights() -> np.ndarray:
    return np.random.default_rng(3).normal(0, 0.05, 3 * CHUNK + 100).astype("<f4")


def packed(path: Path, filters: str) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset("net/w", data=weights(), chunks=(CHUNK,), **FILTERS[filters])
    return path


def faults_of(document: dict) -> dict[int, int]:
    return {fault["element"]: int(fault["new"], 16) for fault in document["faults"]}


@pytest.mark.parametrize("filters", FILTERS)
def test_one_flip_in_a_chunk_leaves_most_of_it_as_it_was(tmp_path: Path, filters: str) -> None:
    path = packed(tmp_path / "w.h5", filters)
    before = path.read_bytes()
    for seed in range(3):
        document = run_json("inject", path, "--in-place", "--count", 1, "--bits", "0-22", "--seed", seed)
        with h5py.File(path) as file:
            found = file["net/w"][...]
        expected = weights().view("<u4")
        for element, pattern in faults_of(document).items():
            assert expected[element] != pattern
            expected[element] = pattern
        assert (found.view("<u4") == expected).all()
        assert path.stat().st_size == len(before)
        altered = sum(len(old) for _, old, _ in undo_ranges(tmp_path / "w.h5.undo"))
        assert altered < 30_000  # of some 240,000
        run("undo", path)
        assert path.read_bytes() == before
    assert names_in(tmp_path) == ["w.h5"]


@pytest.mark.parametrize("filters", FILTERS)
def test_many_flips_give_the_same_bytes_on_one_core_and_on_all(tmp_path: Path, filters: str) -> None:
    path = packed(tmp_path / "w.h5", filters)
    outs = [tmp_path / "one.h5", tmp_path / "all.h5"]
    call = ["inject", path, "--count", 40, "--seed", 5]
    cores = os.sched_getaffinity(0)
    run(*call, "-o", outs[0], preexec_fn=lambda: os.sched_setaffinity(0, {min(cores)}))
    document = run_json(*call, "-o", outs[1])
    assert outs[0].read_bytes() == outs[1].read_bytes()
    expected = weights().view("<u4")
    for element, pattern in faults_of(document).items():
        expected[element] = pattern
    with h5py.File(outs[0]) as file:
        assert (file["net/w"][...].view("<u4") == expected).all()


def test_one_flip_in_a_deflated_array_leaves_the_archive_as_long_as_it_was(tmp_path: Path) -> None:
    path, out = archives.write("npz_deflated", tmp_path / "w.npz", {"w": weights()}), tmp_path / "out.npz"
    document = run_json("inject", path, "-o", out, "--count", 1, "--bits", "0-22", "--seed", 2)
    before, after = path.read_bytes(), out.read_bytes()
    assert len(before) == len(after)
    assert sum(a != b for a, b in zip(before, after, strict=True)) < 30_000
    expected = weights().view("<u4")
    for element, pattern in faults_of(document).items():
        expected[element] = pattern
    assert (archives.read("npz_deflated", out)["w"].view("<u4") == expected).all()
