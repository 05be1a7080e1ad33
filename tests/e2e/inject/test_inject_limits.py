"""Memory, file space and names: what a file may cost, where it may grow, under which names it is altered."""

from __future__ import annotations

import json
import resource
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import h5py
import inject_support as support
import numpy as np
import pytest
from inject_support import BITRIFT, names_in, refused, run, run_json

MIB = 1 << 20
# Pages of libraries and allocators, and of the program itself.
SLACK = 48 * MIB

# Runs a command and prints the largest resident size that it had, in bytes.
WATCH = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)
sys.exit(done.returncode)
"""


def peak(*arguments: object, code: int = 0) -> int:
    """Peak resident bytes of a bitrift command."""
    command = [sys.executable, "-S", "-c", WATCH, str(BITRIFT), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    return int(done.stdout)


def zeros(size: int) -> bytes:
    """As many zeros, deflated: about a thousandth."""
    packer = zlib.compressobj(9)
    return b"".join([packer.compress(bytes(min(MIB, size - at))) for at in range(0, size, MIB)]) + packer.flush()


def bomb(path: Path, size: int, datasets: int = 1, claim: int = 0) -> Path:
    """Datasets of one chunk each that holds `size` zeros, and claims `claim` bytes if that is not 0."""
    stored = zeros(size)
    with h5py.File(path, "w") as file:
        for i in range(datasets):
            shape = ((claim or size) // 4,)
            made = file.create_dataset(f"z{i}", shape, "<f4", chunks=shape, compression="gzip")
            made.id.write_direct_chunk((0,), stored)
    return path


def test_a_large_chunk_is_held_few_times(tmp_path: Path) -> None:
    size = 192 * MIB
    path = bomb(tmp_path / "f.h5", size)
    assert path.stat().st_size < MIB
    assert peak("ls", path) < SLACK
    # Its values, and the copies that decoding and encoding make of them.
    assert peak("inject", path, "-o", tmp_path / "o.h5", "--seed", 1) < 2.5 * size + SLACK
    # The values of both files, and what decoding takes.
    assert peak("diff", path, tmp_path / "o.h5", code=1) < 2.5 * size + SLACK
    (difference,) = run_json("diff", path, tmp_path / "o.h5", code=1)["differences"]
    assert (difference["elements"], difference["bits"]) == (1, 1)


def test_chunks_of_many_datasets_are_not_all_kept(tmp_path: Path) -> None:
    size, datasets = 24 * MIB, 24
    path = bomb(tmp_path / "f.h5", size, datasets)
    few = ["--measure", "tensor", "--count", 3 * datasets, "--seed", 1]
    # 64 MiB are kept between reads; two chunks are worked on at once.
    assert peak("inject", path, "-o", tmp_path / "o.h5", *few) < 64 * MIB + 2 * 3 * size + SLACK


def test_large_chunks_are_not_decoded_again_for_every_piece(tmp_path: Path) -> None:
    size, chunks = 68 * MIB, 4  # more than is kept, so that two of them never are
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("z", (chunks * size // 4,), "<f4", chunks=(size // 4,), compression="gzip")
        for i in range(chunks):
            made.id.write_direct_chunk((i * size // 4,), zeros(size))
    # To decode them four times takes seconds; for each of the 68 pieces that are looked at, more than a minute of
    # processor time.
    limit = 20

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))

    run("inject", path, "--dry-run", "--no-nan", preexec_fn=limited)


def test_a_chunk_that_claims_more_than_it_can_hold_is_refused(tmp_path: Path) -> None:
    path = bomb(tmp_path / "f.h5", 4 * MIB, claim=(1 << 32) - 4)
    refused("inject", path, "-o", tmp_path / "o.h5", says="claims 4294967292 bytes of values")
    assert peak("inject", path, "-o", tmp_path / "o.h5", code=2) < SLACK
    assert names_in(tmp_path) == ["f.h5"]


def test_memory_that_is_not_there_is_the_call_s_problem(tmp_path: Path) -> None:
    path = bomb(tmp_path / "f.h5", 192 * MIB)
    limit = 160 * MIB

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    refused("inject", path, "-o", tmp_path / "o.h5", says="bytes of memory", preexec_fn=limited)
    assert names_in(tmp_path) == ["f.h5"]


def test_holes_of_a_file_stay_holes_in_its_copy(tmp_path: Path) -> None:
    path, out = tmp_path / "f.h5", tmp_path / "o.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("w", (1 << 29,), "<f4")
        made[1 << 28] = 1
        file["x"] = np.arange(1000, dtype="<f4")
    if path.stat().st_blocks * 512 > 1 << 30:
        pytest.skip("this file system has no holes")
    run("inject", path, "-o", out, "--tensor", "x", "--count", 3)
    assert out.stat().st_size == path.stat().st_size > 1 << 31
    assert out.stat().st_blocks * 512 <= path.stat().st_blocks * 512 + MIB
    with h5py.File(path, "r") as one, h5py.File(out, "r") as other:
        assert other["w"][1 << 28] == 1
        assert np.sum(one["x"][()].view("<u4") != other["x"][()].view("<u4")) > 0


# --- file space ---


def spaced(path: Path, strategy: str, persist: bool) -> Path:
    options = {"fs_strategy": strategy, "fs_persist": persist, "libver": "earliest"}
    if strategy == "page":
        options["fs_page_size"] = 4096
    with h5py.File(path, "w", **options) as file:
        file.create_dataset("g", data=np.zeros((64, 512), "<f4"), chunks=(4, 512), compression="gzip")
        file["junk"] = np.arange(5000.0)
        file["x"] = np.arange(300.0)
    with h5py.File(path, "r+") as file:
        del file["junk"]
    return path


@pytest.mark.parametrize("strategy", ["fsm", "page", "aggregate", "none"])
def test_a_file_that_grew_can_be_worked_with(tmp_path: Path, strategy: str) -> None:
    path, out = spaced(tmp_path / "f.h5", strategy, False), tmp_path / "o.h5"
    run("inject", path, "-o", out, "--tensor", "g", "--count", 400, "--seed", 5)
    assert out.stat().st_size > path.stat().st_size
    with h5py.File(path, "r") as one, h5py.File(out, "r") as other:
        altered = other["g"][()]
        assert 300 < np.sum(one["g"][()].view("<u4") != altered.view("<u4")) <= 400
    wanted = {"g": altered}
    with h5py.File(out, "r+") as file:
        for i in range(20):
            wanted[f"n{i}"] = file[f"n{i}"] = np.full(700 + 50 * i, i + 1.0)
        file.create_dataset("z", data=np.arange(9000.0).reshape(90, 100), chunks=(9, 100), compression="gzip")
        wanted["z"] = file["z"][()]
    with h5py.File(out, "r+") as file:
        for name in ("n3", "n7", "x"):
            del file[name]
        file["y"] = wanted["y"] = np.arange(4000.0)
    with h5py.File(out, "r+") as file:  # the chunks that were moved are given back to the file
        assert all(np.array_equal(file[name][()], value) for name, value in wanted.items() if name in file)
        del file["g"]
        file["v"] = wanted["v"] = np.arange(30000.0)
    with h5py.File(out, "r") as file:
        left = {name: value for name, value in wanted.items() if name not in ("g", "n3", "n7")}
        assert sorted(file) == sorted(left)
        assert all(np.array_equal(file[name][()], value) for name, value in left.items())


@pytest.mark.parametrize("strategy", ["fsm", "page"])
@pytest.mark.parametrize("target", ["-o", "--in-place"])
def test_a_file_that_keeps_its_free_space_must_not_grow(tmp_path: Path, strategy: str, target: str) -> None:
    path, out = spaced(tmp_path / "f.h5", strategy, True), tmp_path / "o.h5"
    before = path.read_bytes()
    where = ["-o", out] if target == "-o" else ["--in-place"]
    refused("inject", path, *where, "--tensor", "g", "--count", 400, says="lists of its free space")
    assert (path.read_bytes(), names_in(tmp_path)) == (before, ["f.h5"])
    run("inject", path, *where, "--tensor", "x", "--count", 20)  # what keeps its size is altered


# --- indexes that contradict themselves ---


def two_levels(path: Path) -> tuple[bytearray, int]:
    """A dataset whose B-tree has leaves below a root, and where the keys of that root begin."""
    with h5py.File(path, "w", libver="earliest") as file:
        file.create_dataset("w", data=np.arange(400, dtype="<f4"), chunks=(4,))
        file["x"] = np.arange(8, dtype="<f4")
    data = bytearray(path.read_bytes())
    root = next(i for i in range(len(data)) if data[i : i + 4] == b"TREE" and data[i + 4] == 1 and data[i + 5] == 1)
    return data, root + 24


def test_keys_above_chunks_must_lead_to_them(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    data, keys = two_levels(path)
    second = keys + 24 + 8  # after a key of 24 bytes and an address
    (element,) = struct.unpack_from("<Q", data, second + 8)
    assert 0 < element < 400
    for moved in (element + 4, element - 4):
        struct.pack_into("<Q", data, second + 8, moved)
        path.write_bytes(data)
        with h5py.File(path, "r") as file:  # HDF5 misses a chunk, or says so
            try:
                assert not np.array_equal(file["w"][()], np.arange(400, dtype="<f4"))
            except OSError:
                pass
        refused("inject", path, "-o", tmp_path / "o.h5", "--tensor", "w", says="are not in order")
        run("inject", path, "-o", tmp_path / "o.h5", "--tensor", "x")


def test_a_chunk_without_filters_has_the_size_that_its_index_says(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        file.create_dataset("w", data=np.arange(40, dtype="<f4"), chunks=(10,))
    data = path.read_bytes()
    key = struct.pack("<IIQQ", 40, 0, 10, 0)
    assert data.count(key) == 1
    for size in (0, 39, 41, 80):
        path.write_bytes(data.replace(key, struct.pack("<IIQQ", size, 0, 10, 0)))
        refused("inject", path, "-o", tmp_path / "o.h5", "--tensor", "w", says="chunk 1 is stored in")


def test_names_of_an_old_group_are_in_order(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        for name in ("a", "b", "c"):
            file[name] = np.arange(8, dtype="<f4")
    data = bytearray(path.read_bytes())
    entry = data.index(b"SNOD") + 8
    data[entry : entry + 80] = data[entry + 40 : entry + 80] + data[entry : entry + 40]
    path.write_bytes(data)
    refused("ls", path, says="are not in order")


def test_groups_that_lost_and_gained_names_are_read(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    for version in ("earliest", "latest"):
        path = tmp_path / f"{version}.h5"
        with h5py.File(path, "w", libver=version) as file:
            names: set[str] = set()
            for i in range(1500):
                name = f"{random.integers(10**6)}"
                if i % 3 == 2:
                    gone = sorted(names)[int(random.integers(len(names)))]
                    del file[gone]
                    names.remove(gone)
                elif name not in names:
                    file[name] = np.float32(1)
                    names.add(name)
        assert {tensor["path"] for tensor in run_json("ls", path)["tensors"]} == names


# --- names ---


def test_a_file_with_two_names_is_not_altered_in_place(tmp_path: Path) -> None:
    path, other = support.model_file(tmp_path / "a.h5"), tmp_path / "b.h5"
    before = path.read_bytes()
    other.hardlink_to(path)
    for name in (path, other):
        refused("inject", name, "--in-place", says="has 2 names (hard links)")
    run("inject", path, "-o", tmp_path / "o.h5")
    assert path.read_bytes() == before
    assert names_in(tmp_path) == ["a.h5", "b.h5", "o.h5"]
    other.unlink()
    run("inject", path, "--in-place")
    other.hardlink_to(path)  # a second name that came later does not stand in the way of the undo
    refused("inject", other, "--in-place", says="has 2 names")
    run("undo", path)
    assert path.read_bytes() == before


def test_a_manifest_of_a_bomb_is_json(tmp_path: Path) -> None:
    path = bomb(tmp_path / "f.h5", 8 * MIB)
    run("inject", path, "-o", tmp_path / "o.h5", "--manifest", tmp_path / "m.json", "--no-nan", "--count", 50)
    assert len(json.loads((tmp_path / "m.json").read_text())["faults"]) == 50
