"""Safetensors, npz and PyTorch files that are damaged or made to deceive: refused in one line, and nothing written."""

from __future__ import annotations

import collections
import io
import os
import pickle
import pickletools
import resource
import struct
import subprocess
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import archive_files as archives
import numpy as np
import pytest
import torch
from archive_files import KINDS
from inject_support import BITRIFT, names_in, refused, run


def npy(header: str, values: bytes) -> bytes:
    text = header.encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + values


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return held.getvalue()


def safetensors(header: str, values: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header.encode() + values


def torch_zip(data: bytes, storages: dict[str, bytes] | None = None) -> bytes:
    members = {"a/data.pkl": data, "a/byteorder": b"little"}
    return zipped(members | {f"a/data/{key}": values for key, values in (storages or {}).items()})


class Harmful:
    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("touch executed",)


def saved(content: object) -> bytes:
    held = io.BytesIO()
    torch.save(content, held)
    return held.getvalue()


def old_saved(content: object, keys: Sequence[str] | None = None) -> bytes:
    """As before PyTorch 1.6; with other keys of storages."""
    held = io.BytesIO()
    torch.save(content, held, _use_new_zipfile_serialization=False)
    whole = held.getvalue()
    if keys is None:
        return whole
    read = io.BytesIO(whole)
    for _ in range(3):
        pickle.load(read)
    for _ in pickletools.genops(read):
        end = read.tell()
    pickle.load(read)
    return whole[:end] + pickle.dumps(keys, 2) + whole[read.tell() :]


def bomb() -> bytes:
    """A few hundred bytes that claim to hold 4 GiB: the sizes in both headers lie, and the array's shape with them."""
    claimed = 0xFFFFFFF0
    header = "{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }"
    content = npy(header % (claimed - 10 - len(header % claimed)), bytes(4000))
    archive = zipped({"w.npy": content}, zipfile.ZIP_DEFLATED)
    true_size = struct.pack("<I", len(content))
    assert archive.count(true_size) == 2
    return archive.replace(true_size, struct.pack("<I", claimed))


def packed_bomb() -> bytes:
    """A deflated file of torch.save that claims to hold almost 4 GiB."""
    content = saved(STATE)
    archive = zipped({"policy.pth": content}, zipfile.ZIP_DEFLATED)
    return archive.replace(struct.pack("<I", len(content)), struct.pack("<I", 0xFFFFFFF0))


def overlapping() -> bytes:
    """Two names for one member's bytes."""
    content = zipped({"a.npy": npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }", b"x"), "b.npy": b""})
    second = content.index(b"PK\1\2", content.index(b"PK\1\2") + 4)
    return content[: second + 42] + bytes(4) + content[second + 46 :]


F4 = '"dtype":"F32","shape":[2],"data_offsets":'
STATE = {"w": torch.ones(3)}
OLD = old_saved(STATE)

HOSTILE = {
    "pickle alone": (torch_zip(pickle.dumps(Harmful(), 2)), "holds no tensor that could be altered"),
    "missing storage": (torch_zip(zipfile.ZipFile(io.BytesIO(saved(STATE))).read("archive/data.pkl")), "does not hold"),
    "short storage": (
        torch_zip(zipfile.ZipFile(io.BytesIO(saved(STATE))).read("archive/data.pkl"), {"0": b"xy"}),
        "a/data/0 has 2 bytes, but the storage of tensor w should have 12",
    ),
    "old torch.save, cut": (OLD[:16], "version: the pickle ends too early"),
    "old torch.save, version": (OLD.replace(b"M\xe9\x03.", b"M\xe8\x03.", 1), "not written by version 1001"),
    "old torch.save, short": (OLD[:-1], "a storage (12 bytes at byte"),
    "old torch.save, length": (OLD[:-20] + b"\4" + OLD[-19:], "has 4 elements, but 3 are described"),
    "old torch.save, keys": (
        old_saved(STATE, keys=["0", "0"]),
        "the keys of its storages are not a list of different names",
    ),
    "old torch.save, keys in an object": (
        old_saved(STATE, keys=collections.deque(["0"])),
        "the keys of its storages are not a list of different names",
    ),
    "old torch.save, no storage": (old_saved(STATE, keys=[]), "which the file does not hold"),
    "old torch.save, another storage": (old_saved(STATE, keys=["x"]), "holds a storage x that no object uses"),
    "other zip": (zipped({"readme": b"hello"}), "neither of torch.save (it has no data.pkl) nor of numpy.savez"),
    "zip of another zip": (zipped({"policy.pth": zipped({"a": b"x"})}), "policy.pth: is not a file that torch.save"),
    "zip of an old file": (zipped({"policy.pth": OLD}), "unpack the archive (`unzip`), and name a file"),
    "deflated bomb": (packed_bomb(), "deflated bytes cannot hold 4294967280"),
    "deflated zip of another zip": (
        zipped({"policy.pth": zipped({"a": b"x" * 999})}, zipfile.ZIP_DEFLATED),
        "policy.pth: is not a file that torch.save",
    ),
    "deflated weights of no HDF5": (
        zipped({"model.weights.h5": b"x" * 999}, zipfile.ZIP_DEFLATED),
        "is not an HDF5 file",
    ),
    "zip of a damaged file": (zipped({"policy.pth": saved(STATE)[:-30]}), "policy.pth: "),
    "zip of itself": (zipped({"a.pt": zipped({"b.pt": saved(STATE)})}), "a.pt: is not a file that torch.save"),
    "exported program": (
        zipped({"p/archive_format": b"pt2", "p/data/weights/weight_0": b"1234"}),
        "torch.export saved",
    ),
    "overlapping members": (overlapping(), "its local header has another name"),
    "zip bomb": (bomb(), "deflated bytes cannot hold 4294967280"),
    "lying shape": (
        zipped({"w.npy": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9,), }", b"1234")}),
        "do not fit",
    ),
    "unknown method": (
        zipped({"w.npy": npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }", b"1")}, 14),
        "method 14",
    ),
    "objects": (
        zipped({"w.npy": npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", pickle.dumps(1))}),
        "(object)",
    ),
    "endless header": (struct.pack("<Q", 2**39) + b"{" + bytes(100), "at most 100000000 are allowed"),
    "header beyond the end": (struct.pack("<Q", 99_000_000) + b"{}", "lies outside of the file"),
    "no JSON": (safetensors("{'w': 1}"), "is not valid JSON"),
    "deep JSON": (safetensors('{"a":' * 40_000), "something unexpected"),
    "lying offsets": (
        safetensors('{"w":{' + F4 + "[0,80]}}", bytes(8)),
        "fit neither its shape and type nor the 8 bytes",
    ),
    "shared bytes": (safetensors('{"a":{' + F4 + '[0,8]},"b":{' + F4 + "[0,8]}}", bytes(8)), "bytes are shared"),
    "two of one name": (
        safetensors('{"a":{' + F4 + '[0,8]},"a":{' + F4 + "[8,16]}}", bytes(16)),
        "two entries named a",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    content, says = HOSTILE[name]
    file = tmp_path / "hostile"
    file.write_bytes(content)
    refused("inject", file, "-o", tmp_path / "out", says=says)
    refused("inject", file, "--in-place", says=says)
    assert file.read_bytes() == content
    assert names_in(tmp_path) == ["hostile"]


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_files_are_refused_or_whole(tmp_path: Path, kind: str) -> None:
    values = {"w": np.arange(6, dtype="<f4"), "b": np.ones(2, "<f4")}
    whole = archives.write(kind, tmp_path / "whole", values).read_bytes()
    cut = tmp_path / "cut"
    for size in range(0, len(whole), 1 + len(whole) // 40):
        cut.write_bytes(whole[:size])
        refused("ls", cut, says=str(cut))
    cut.write_bytes(whole + b"x")
    if kind == "safetensors":
        refused("ls", cut, says=str(cut))
    else:
        assert archives.read(kind, cut).keys() == values.keys()
        run("ls", cut)


@pytest.mark.parametrize("kind", KINDS)
def test_flipped_bits_never_crash_it(tmp_path: Path, kind: str) -> None:
    values = {"w": np.arange(6, dtype="<f4"), "b": np.ones((2, 3), "<f8")}
    whole = archives.write(kind, tmp_path / "whole", values).read_bytes()
    damaged, draw = tmp_path / "damaged", np.random.default_rng(5)
    codes = set()
    for _ in range(60):
        content = bytearray(whole)
        for bit in draw.integers(0, 8 * len(whole), draw.integers(1, 4)):
            content[bit // 8] ^= 1 << bit % 8
        damaged.write_bytes(content)
        # 0 or 1: it differs or not; 2: it is refused
        done = run_any("diff", tmp_path / "whole", damaged)
        codes.add(done)
        assert run_any("inject", damaged, "--dry-run", "--seed", 1) in (0, 2)
    assert codes <= {0, 1, 2} and len(codes) > 1


def run_any(*arguments: object) -> int:
    """The exit code; a complaint must be one line."""
    done = subprocess.run([BITRIFT, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.count("\n") == (1 if done.returncode == 2 else 0), done.stderr
    return done.returncode


def test_a_large_header_takes_bounded_memory(tmp_path: Path) -> None:
    """Fifty thousand empty tensors: 4 MB of JSON."""
    entries = ",".join(f'"layer.{i}.w":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}' for i in range(50_000))
    file = tmp_path / "many"
    file.write_bytes(safetensors("{" + entries + "}"))

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    done = run("ls", file, preexec_fn=limit)
    assert "50,000 tensors" in done.stdout


def test_nothing_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.pt").write_bytes(saved({"w": torch.ones(2), "x": Harmful()}))
    for arguments in (("ls", "m.pt"), ("diff", "m.pt", "m.pt"), ("inject", "m.pt", "-o", "o.pt")):
        run(*arguments)
    assert names_in(tmp_path) == ["m.pt", "o.pt"]
