"""Other programs that use the file, missing permissions, full disks: one line, exit code 2, the file as before."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import inject_support as support
import pytest
from inject_support import BITRIFT, names_in, refused, run
from kill_support import contiguous, growing, growing_with_sums, quick_folder, with_checksums

KINDS = [contiguous, with_checksums, growing, growing_with_sums]
FAULTS = ["--role", "weight", "--measure", "element", "--count", 400, "--seed", 3]
Make = Callable[[Path, int], Path]

folder = pytest.fixture(quick_folder, name="folder")
every_kind = pytest.mark.parametrize("make", KINDS)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return support.model_file(tmp_path / "model.h5", 1200)


def altered(path: Path, *faults: object) -> bytes:
    """What an injection makes of a file, which stays."""
    out = path.with_name("expected.h5")
    run("inject", path, "-o", out, *faults)
    found = out.read_bytes()
    out.unlink()
    assert found != path.read_bytes()
    return found


HOLD = "import h5py, sys; f = h5py.File(sys.argv[1], sys.argv[2]); print('held', flush=True); sys.stdin.read()"


@every_kind
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_file_that_others_have_open_is_not_altered(tmp_path: Path, make: Make, mode: str) -> None:
    path = make(tmp_path / "f.h5", 1200)
    before = path.read_bytes()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, path, mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HDF5_USE_FILE_LOCKING": "TRUE"},
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        held = path.read_bytes()  # the newer format has a mark of its own for r+
        refused("inject", path, "--in-place", *FAULTS, says="another program")
        if mode == "r":
            run("inject", path, "-o", tmp_path / "out.h5", *FAULTS)
            (tmp_path / "out.h5").unlink()
        else:
            refused("ls", path, says="another program")
            refused("inject", path, "-o", tmp_path / "out.h5", *FAULTS, says="another program")
        assert (path.read_bytes(), names_in(tmp_path)) == (held, ["f.h5"])
    finally:
        holder.communicate("", timeout=20)
    assert mode == "r+" or path.read_bytes() == before
    run("inject", path, "--in-place", *FAULTS)
    run("undo", path)


def test_an_undo_waits_for_no_reader(model: Path, tmp_path: Path) -> None:
    before = model.read_bytes()
    run("inject", model, "--in-place", *FAULTS)
    after = model.read_bytes()
    with model.open("rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        refused("undo", model, says="in use by another program")
        assert (model.read_bytes(), names_in(tmp_path)) == (after, ["model.h5", "model.h5.undo"])
    run("undo", model)
    assert model.read_bytes() == before


@every_kind
def test_of_several_injectors_at_once_at_most_one_alters_the_file(folder: Path, make: Make) -> None:
    path = make(folder / "f.h5", 1200)
    before = path.read_bytes()
    faults = ["--role", "weight", "--measure", "element", "--count", "200"]
    expected = [altered(path, *faults, "--seed", seed) for seed in range(6)]
    winners = 0
    for _ in range(8):
        calls = [[BITRIFT, "inject", path, "--in-place", *faults, "--seed", str(seed)] for seed in range(6)]
        running = [subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for call in calls]
        said = [one.communicate(timeout=60)[1] for one in running]
        for one, line in zip(running, said, strict=True):
            assert (one.returncode, line.count("\n")) in ((0, 0), (2, 1)), line
        done = [seed for seed, one in enumerate(running) if one.returncode == 0]
        assert len(done) <= 1
        assert path.read_bytes() == (expected[done[0]] if done else before)
        assert names_in(folder) == (["f.h5", "f.h5.undo"] if done else ["f.h5"])
        if done:
            winners += 1
            run("undo", path)
        assert path.read_bytes() == before
    assert winners >= 1


def test_several_copies_at_once_are_each_whole(model: Path, tmp_path: Path) -> None:
    before = model.read_bytes()
    expected = [altered(model, *FAULTS[:-1], seed) for seed in range(4)]
    out = tmp_path / "out.h5"
    running = [
        subprocess.Popen(
            [BITRIFT, "inject", model, "-o", out, *map(str, FAULTS[:-1]), str(seed)], stdout=subprocess.DEVNULL
        )
        for seed in range(4)
    ]
    assert [one.wait(timeout=60) for one in running] == [0] * 4
    assert out.read_bytes() in expected
    assert (model.read_bytes(), names_in(tmp_path)) == (before, ["model.h5", "out.h5"])


def without_override() -> None:
    """Root without the right to pass over permissions; no effect on others, who lack it."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, for PR_CAPBSET_DROP
        libc.prctl(24, capability, 0, 0, 0)


@pytest.fixture
def as_user(tmp_path: Path) -> dict[str, Any]:
    """Options of run() under which permissions count."""
    options: dict[str, Any] = {"preexec_fn": without_override}
    probe = tmp_path / "probe"
    probe.touch()
    probe.chmod(0o444)
    allowed = subprocess.run(["test", "-w", probe], check=False, **options).returncode == 0
    probe.unlink()
    if allowed:
        pytest.skip("permissions do not count here, and the right to pass over them cannot be given up")
    return options


@every_kind
def test_a_read_only_file_is_copied_but_not_altered(tmp_path: Path, make: Make, as_user: dict[str, Any]) -> None:
    path = make(tmp_path / "f.h5", 1200)
    before, expected = path.read_bytes(), altered(path, *FAULTS)
    path.chmod(0o444)
    line = refused("inject", path, "--in-place", *FAULTS, says="Permission denied", **as_user)
    assert "f.h5" in line
    assert (path.read_bytes(), names_in(tmp_path)) == (before, ["f.h5"])
    run("inject", path, "-o", tmp_path / "out.h5", *FAULTS, **as_user)
    assert (path.read_bytes(), (tmp_path / "out.h5").read_bytes()) == (before, expected)
    path.chmod(0)
    refused("inject", path, "-o", tmp_path / "other.h5", *FAULTS, says="Permission denied", **as_user)
    refused("inject", path, "--in-place", *FAULTS, says="Permission denied", **as_user)
    assert names_in(tmp_path) == ["f.h5", "out.h5"]


@every_kind
def test_nothing_is_altered_in_a_folder_that_cannot_be_written(
    tmp_path: Path, make: Make, as_user: dict[str, Any]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = make(folder / "f.h5", 1200)
    before, expected, other = path.read_bytes(), altered(path, *FAULTS), tmp_path / "other.h5"
    manifest = folder / "m.json"
    folder.chmod(0o555)
    try:
        for call in (["--in-place"], ["-o", folder / "out.h5"], ["-o", other, "--manifest", manifest]):
            refused("inject", path, *call, *FAULTS, says="Permission denied", **as_user)
            assert (path.read_bytes(), names_in(folder), names_in(tmp_path)) == (before, ["f.h5"], ["folder"])
        run("inject", path, "-o", other, *FAULTS, **as_user)
        assert other.read_bytes() == expected
        folder.chmod(0o755)
        run("inject", path, "--in-place", *FAULTS)
        folder.chmod(0o555)
        refused("undo", path, says="cannot remove", **as_user)  # the bytes are back, its journal says so again
        assert path.read_bytes() == before
    finally:
        folder.chmod(0o755)
    run("undo", path)
    assert (path.read_bytes(), names_in(folder)) == (before, ["f.h5"])


def settled(path: Path, before: bytes, expected: bytes, *call: object, **options: Any) -> bool:
    """An injection in place succeeds, and is taken back, or is refused in one line and leaves the file as it was."""
    done = subprocess.run(
        [str(BITRIFT), "inject", str(path), "--in-place", *map(str, call)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )
    if done.returncode == 0:
        assert path.read_bytes() == expected
        run("undo", path)
    else:
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "File too large" in done.stderr or "No space left" in done.stderr
        assert "undo" not in done.stderr.replace(".undo", "")
    assert path.read_bytes() == before
    assert names_in(path.parent) == [path.name]
    return done.returncode == 0


@every_kind
def test_any_limit_of_a_files_size_leaves_the_file_whole(folder: Path, make: Make) -> None:
    path = make(folder / "f.h5", 12_000)
    before, expected = path.read_bytes(), altered(path, *FAULTS)
    results = []
    for limit in [*range(0, len(expected), max(1, len(expected) // 25)), len(expected) - 1, len(expected), 2**30]:

        def set_limit(limit: int = limit) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        results.append(settled(path, before, expected, *FAULTS, preexec_fn=set_limit))
        if not results[-1]:
            refused(*("inject", path, "-o", folder / "out.h5", *FAULTS), says="File too large", preexec_fn=set_limit)
            assert (path.read_bytes(), names_in(folder)) == (before, ["f.h5"])
    assert results[0] is False
    assert results[-1] is True


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small file system cannot be mounted here; the file size limit stands for it")
    yield disk
    subprocess.run(["umount", disk], check=True)


@every_kind
def test_any_fullness_of_a_disk_leaves_the_file_whole(tmp_path: Path, small_disk: Path, make: Make) -> None:
    path = make(tmp_path / "f.h5", 12_000)
    before, expected = path.read_bytes(), altered(path, *FAULTS)
    place, filler = small_disk / "f.h5", small_disk / "filler"
    place.write_bytes(before)
    space = os.statvfs(small_disk)
    results = []
    for pages in range(space.f_bavail):
        filler.write_bytes(bytes((space.f_bavail - pages) * space.f_frsize))
        # The filler is open and without a name, so that what is left behind would show.
        with filler.open("rb"):
            filler.unlink()
            results.append(settled(place, before, expected, *FAULTS))
            if pages < 2:
                refused("inject", path, "-o", small_disk / "out.h5", *FAULTS, says="No space left")
        assert names_in(small_disk) == ["f.h5"]
        if results[-3:] == [True] * 3:
            break
    assert results[0] is False
    assert results[-1] is True


def test_a_manifest_that_finds_no_space_stops_the_injection(tmp_path: Path, small_disk: Path) -> None:
    path = support.model_file(tmp_path / "big.h5", 30_000)
    before = path.read_bytes()
    call = ["--count", 3000, "--manifest", small_disk / "m.json"]
    for target in (["--in-place"], ["-o", tmp_path / "out.h5"]):
        refused("inject", path, *target, *call, says="No space left")
        assert (names_in(small_disk), names_in(tmp_path)) == ([], ["big.h5", "disk"])
        assert path.read_bytes() == before


def test_a_read_only_file_system_is_one_line(tmp_path: Path, small_disk: Path) -> None:
    path = support.model_file(small_disk / "f.h5")
    before = path.read_bytes()
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    refused("inject", path, "--in-place", says="Read-only file system")
    refused("inject", path, "-o", small_disk / "out.h5", says="Read-only file system")
    run("inject", path, "-o", tmp_path / "out.h5")
    assert (path.read_bytes(), names_in(small_disk)) == (before, ["f.h5"])


def test_a_folder_that_takes_no_file_is_one_line(model: Path, tmp_path: Path) -> None:
    for out in ("/proc/out.h5", tmp_path / "missing" / "out.h5", model / "out.h5"):
        refused("inject", model, "-o", out, says=str(out))
    refused("inject", model, "-o", tmp_path, says="is a directory")


def test_output_that_cannot_be_printed_is_an_error(model: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([BITRIFT, "ls", model], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert "standard output" in done.stderr
