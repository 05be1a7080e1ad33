"""Files that all ranks write, or that bypass the page cache: they equal the one that rank 0 writes alone."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

import h5py
import pytest
from failure_support import LAYOUTS, Bases, digest, fail_ranks, pairs_of
from train_support import ADAM, LENET, MLP, SGD, call, run, write_spec

SHARED = ("--checkpoint-writer", "shared")
# Replicas with their own running averages differ; the others are alike.
HOROVOD = ("--parallel", "data", "--ranks", "3", "--semantics", "horovod")


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Bases:
    return Bases(tmp_path_factory.mktemp("bases"))


@pytest.mark.parametrize(("task", "layout"), pairs_of(("lenet", "norm"), (*LAYOUTS, "horovod")))
def test_the_file_is_the_one_that_rank_0_writes(tmp_path: Path, task: str, layout: str) -> None:
    model, optimizer = {"lenet": (LENET, ADAM), "norm": (MLP, SGD)}[task]
    spec = write_spec(tmp_path / "spec.json", model, optimizer, batch_size=48)
    options = LAYOUTS.get(layout, HOROVOD)
    outs = {}
    for writer in ("gather", "shared"):
        out = tmp_path / f"{writer}.h5"
        words = ("--steps", 5, "--checkpoint-every", 2, "--checkpoint-writer", writer)
        outs[writer] = run("train", spec, "-o", out, *words, *options)["final_digest"]
    assert outs["gather"] == outs["shared"]
    assert digest(tmp_path / "gather.h5") == digest(tmp_path / "shared.h5")
    with h5py.File(tmp_path / "shared.h5") as file:
        assert ("replica" in file) == (task == "norm" and layout == "horovod")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"spec.json", *(f"{name}.h5{end}" for name in ("gather", "shared") for end in ("", ".json"))}
    if task == "norm":
        return
    # A state that was never trained has no tensors of the optimizer.
    for writer in ("gather", "shared"):
        run("train", spec, "-o", tmp_path / f"{writer}.h5", "--steps", 0, "--checkpoint-writer", writer, *options)
    assert digest(tmp_path / "gather.h5") == digest(tmp_path / "shared.h5")


@pytest.fixture(scope="module")
def four(bases: Bases, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Digest of the file of four steps on."""
    out = tmp_path_factory.mktemp("four") / "four.h5"
    run("resume", bases.file("sgd"), "-o", out, "--steps", 4, *LAYOUTS["data"])
    return digest(out)


@pytest.mark.parametrize(("victim", "point"), pairs_of((0, 1, 3), (0, 1)))
def test_a_rank_that_fails_while_all_write_leaves_the_previous_file(
    bases: Bases, four: str, tmp_path: Path, victim: int, point: int
) -> None:
    out = tmp_path / "out.h5"
    words = ("resume", bases.file("sgd"), "-o", out, "--checkpoint-every", 4, *SHARED, *LAYOUTS["data"])
    ended = fail_ranks(*words, "--steps", 8, "--kill", f"{victim}@8:save.{point}")
    assert not ended.hangs and ended.left == 0 and ended.code != 0
    assert digest(out) == four


def test_a_recovery_writes_it_again(bases: Bases, tmp_path: Path) -> None:
    for layout in LAYOUTS:
        out = tmp_path / f"{layout}.h5"
        ended = bases.fail("sgd", layout, out, "--on-failure", "respawn", *SHARED, "--kill", "1@10:save.1")
        assert not ended.hangs and ended.left == 0, ended.command
        assert len(ended.json()["recoveries"]) == 1
        assert digest(out) == bases.golden("sgd", layout)


def test_a_place_that_cannot_be_written_is_an_error_of_one_line(bases: Bases, tmp_path: Path) -> None:
    out = tmp_path / "gone" / "out.h5"
    done = call("resume", bases.file("sgd"), "-o", out, "--steps", 1, *SHARED, *LAYOUTS["data"])
    assert done.returncode == 2 and str(out) in done.stderr, done.stderr
    assert len([line for line in done.stderr.splitlines() if "error:" in line]) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_folder_gets_the_same_files(bases: Bases, tmp_path: Path, layout: str) -> None:
    for writer in ("gather", "shared"):
        words = ("--checkpoint-writer", writer, "--checkpoint-every", 3, "--checkpoint-keep", 3, *LAYOUTS[layout])
        run("resume", bases.file("sgd"), "-o", f"{tmp_path / writer}/", "--steps", 8, *words)
    names = sorted(path.name for path in (tmp_path / "gather").glob("*.h5"))
    assert len(names) == 3
    assert names == sorted(path.name for path in (tmp_path / "shared").glob("*.h5"))
    for name in names:
        assert digest(tmp_path / "gather" / name) == digest(tmp_path / "shared" / name)


def cached_share(path: Path) -> float:
    """Of the pages of a file, how many the page cache holds (mincore)."""
    libc = ctypes.CDLL(None, use_errno=True)
    pages = -(-path.stat().st_size // mmap.PAGESIZE)
    held = (ctypes.c_ubyte * pages)()
    # A private mapping, which may be written: ctypes takes the address of no other.
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        first = ctypes.c_char.from_buffer(mapped)
        failed = libc.mincore(ctypes.byref(first), ctypes.c_size_t(len(mapped)), held)
        del first  # holds the mapping
    assert failed == 0, os.strerror(ctypes.get_errno())
    return sum(page & 1 for page in held) / pages


def direct_writes_bypass_the_cache(folder: Path) -> bool:
    """Some file systems refuse O_DIRECT; others, such as newer tmpfs, accept it and use the page cache."""
    probe = folder / "probe"
    try:
        descriptor = os.open(probe, os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
    except OSError:
        return False
    with mmap.mmap(-1, 1 << 20) as aligned:
        os.write(descriptor, aligned)
    os.close(descriptor)
    return cached_share(probe) == 0


@pytest.mark.parametrize(
    ("mode", "format"),
    [
        ("sync", "hdf5"),
        ("async", "pytorch"),
        ("sync", "hdf5-deflate"),
        pytest.param("async", "hdf5", marks=pytest.mark.thorough),
        pytest.param("sync", "pytorch", marks=pytest.mark.thorough),
        pytest.param("async", "hdf5-deflate", marks=pytest.mark.thorough),
    ],
)
def test_the_file_that_bypasses_the_page_cache_is_the_same(tmp_path: Path, mode: str, format: str) -> None:
    wide = {"name": "mlp", "hidden": [1000, 1000], "norm": "none"}
    spec = write_spec(tmp_path / "spec.json", wide, SGD, batch_size=48)
    words = ("--steps", 5, "--checkpoint-every", 2, "--checkpoint-mode", mode, "--format", format)
    shares = {}
    for writer in ("gather", "direct"):
        out = tmp_path / f"{writer}.ckpt"
        run("train", spec, "-o", out, *words, "--checkpoint-writer", writer, *LAYOUTS["pipeline"])
        shares[writer] = cached_share(out)
    assert (tmp_path / "gather.ckpt").read_bytes() == (tmp_path / "direct.ckpt").read_bytes()
    assert shares["gather"] > 0.5
    if direct_writes_bypass_the_cache(tmp_path):
        assert shares["direct"] < 0.05, shares


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.json", LENET, SGD)
    for options, words in (
        (("--checkpoint-writer", "all"), "{gather,shared,direct}"),
        ((*SHARED, "--checkpoint-every", 2, "--checkpoint-mode", "async"), "choose sync, gather or direct"),
    ):
        done = call("train", spec, "-o", tmp_path / "out.h5", *options)
        assert done.returncode == 2 and words in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) == 1
