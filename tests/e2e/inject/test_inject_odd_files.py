"""Unusual files that other programs read: each fault is judged by the program that the file is for."""

from __future__ import annotations

import contextlib
import gzip
import os
import pickle
import random
import re
import shutil
import struct
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import archive_files as archives
import h5py
import numpy as np
import pytest
import safetensors.torch
import torch
from inject_support import changed_bytes, refused, run, run_json
from safetensors import safe_open
from torch.utils.serialization import config

W = torch.tensor([1.0, 2.5, -3.7, 0.0])
SET = ("--fraction", 1, "--what", "set", "--value")


@contextlib.contextmanager
def without_sums() -> Iterator[None]:
    config.save.compute_crc32 = False
    yield
    config.save.compute_crc32 = True


def sums(path: Path) -> dict[str, set[int]]:
    """The CRC-32 of each member as its headers have it: the local one, the descriptor if any, the central one."""
    data, found = path.read_bytes(), {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            (local,) = struct.unpack_from("<I", data, member.header_offset + 14)
            found[member.filename] = {member.CRC, local}
            name, extra = struct.unpack_from("<HH", data, member.header_offset + 26)
            behind = member.header_offset + 30 + name + extra + member.compress_size
            if data[behind : behind + 4] == b"PK\7\x08":
                found[member.filename] = {member.CRC, struct.unpack_from("<I", data, behind + 4)[0]}
    return found


def set_sum(path: Path, member: str, value: int) -> None:
    """Writes another CRC-32 wherever a member has one."""
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(member)
    old, name = struct.pack("<I", info.CRC), member.encode()
    behind = data.index(name, info.header_offset) + len(name)
    central = data.rindex(name) - 46
    for place in (info.header_offset + 14, central + 16, data.find(b"PK\7\x08", behind) + 4):
        if data[place : place + 4] == old:
            struct.pack_into("<I", data, place, value)
    path.write_bytes(data)


def test_sums_that_were_not_computed_stay_zero(tmp_path: Path) -> None:
    file, out = tmp_path / "n.pt", tmp_path / "o.pt"
    with without_sums():
        torch.save({"w": W, "b": torch.ones(2)}, file)
    assert set.union(*sums(file).values()) == {0}
    for plane in ("value", "storage"):
        run("inject", file, "-o", out, "--tensor", "w", "--element", 1, "--bits", 30, "--plane", plane)
        assert set.union(*sums(out).values()) == {0}
        assert len(changed_bytes(file.read_bytes(), out.read_bytes())) == 1
        assert torch.load(out, weights_only=True)["w"][1] != 2.5
    run("inject", file, "--in-place", "--tensor", "w", *SET, 7)
    assert torch.equal(torch.load(file, weights_only=True)["w"], torch.full((4,), 7.0))
    assert set.union(*sums(file).values()) == {0}


def test_each_member_keeps_the_state_of_its_sum(tmp_path: Path) -> None:
    file, out = tmp_path / "m.pt", tmp_path / "o.pt"
    torch.save({"a": W, "b": W + 1}, file)
    set_sum(file, "m/data/0", 0)
    before = sums(file)
    assert before["m/data/0"] == {0} and 0 not in before["m/data/1"]
    run("inject", file, "-o", out, "--tensor", "a", "--tensor", "b", *SET, 3)
    after = sums(out)
    assert after["m/data/0"] == {0} and after["m/data/1"] != before["m/data/1"]
    with zipfile.ZipFile(out) as archive:
        assert archive.testzip() == "m/data/0"
        assert archive.read("m/data/1") == torch.full((4,), 3.0).numpy().tobytes()
    # A sum that is wrong stays as wrong as it was.
    set_sum(file, "m/data/1", 12345)
    run("inject", file, "-o", out, "--tensor", "b", *SET, 3)
    with zipfile.ZipFile(out) as archive:
        assert archive.getinfo("m/data/1").CRC != 12345
        assert archive.testzip() == "m/data/0"


@pytest.mark.parametrize("checked", [True, False])
def test_data_whose_sum_is_zero_follows_the_archive(tmp_path: Path, checked: bool) -> None:
    file, out = tmp_path / "z.pt", tmp_path / "o.pt"
    with contextlib.nullcontext() if checked else without_sums():
        torch.save({"w": torch.tensor([0x6DD90A9D], dtype=torch.int32)}, file)
    assert sums(file)["z/data/0"] == {0}
    run("inject", file, "-o", out, "--tensor", "w", *SET, 5)
    with zipfile.ZipFile(out) as archive:
        assert (archive.getinfo("z/data/0").CRC != 0) == checked
        assert (archive.testzip() is None) == checked
    assert torch.load(out, weights_only=True)["w"].tolist() == [5]


def faults_of(document: dict) -> dict[tuple[str, int], tuple[int, int]]:
    return {
        (fault["tensor"], fault["element"]): (int(fault["old"], 16), int(fault["new"], 16))
        for fault in document["faults"]
        if fault["old"] != fault["new"]
    }


@pytest.mark.parametrize("kind", ["pt", "npz", "npz_deflated"])
@pytest.mark.parametrize("padding", [b"\0" * 10, b"x" * 65_535], ids=["ten zeros", "as much as is read"])
def test_padding_behind_an_archive_stays(tmp_path: Path, kind: str, padding: bytes) -> None:
    held = {"w": np.zeros(3000, "<f4"), "b": np.ones(3, "<f8")}
    file, out = archives.write(kind, tmp_path / "f", held), tmp_path / "o"
    file.write_bytes(file.read_bytes() + padding)
    document = run_json("inject", file, "-o", out, "--tensor", "w", "--count", 2000, "--seed", 1)
    assert archives.changed(held, archives.read(kind, out)) == faults_of(document)
    assert out.read_bytes().endswith(padding)
    original = file.read_bytes()
    run("inject", file, "--in-place", "--tensor", "w", "--count", 2000, "--seed", 1)
    assert file.read_bytes() == out.read_bytes()
    run("undo", file)
    assert file.read_bytes() == original
    bits = run_json("inject", file, "--dry-run", "--plane", "metadata", "--count", 1)["eligible_bits"]
    sizes = sum(tensor["bytes"] for tensor in run_json("ls", file)["tensors"])
    assert bits == 8 * (file.stat().st_size - sizes)


def safetensors_of(path: Path, header: str, size: int) -> Path:
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode() + bytes(range(1, size + 1)))
    return path


ENTRY = '"dtype":"F32","shape":[1],"data_offsets":[0,4]'
SKIPPED = {
    "null metadata": f'{{"__metadata__":null,"w":{{{ENTRY}}}}}',
    "extra number": f'{{"w":{{{ENTRY},"x":1}}}}',
    "extra values": f'{{"w":{{"x":{{"dtype":[["F64"]],"shape":null}},{ENTRY},"y":[-1.5,true,"t",{{}}]}}}}',
}


@pytest.mark.parametrize("name", SKIPPED)
def test_headers_that_safetensors_reads_are_read(tmp_path: Path, name: str) -> None:
    file, out = safetensors_of(tmp_path / "f", SKIPPED[name], 4), tmp_path / "o"
    run("inject", file, "-o", out, "--tensor", "w", *SET, 3)
    with safe_open(out, "np") as found:
        assert found.get_tensor("w").tolist() == [3]


def test_headers_that_safetensors_refuses_are_refused(tmp_path: Path) -> None:
    for number, header in enumerate(
        [f'{{"__metadata__":1,"w":{{{ENTRY}}}}}', f'{{"__metadata__":{{"a":null}},"w":{{{ENTRY}}}}}', '{"w":null}']
    ):
        file = safetensors_of(tmp_path / str(number), header, 4)
        with pytest.raises(Exception, match=r"[Hh]eader"), safe_open(file, "np"):
            pass
        refused("ls", file, says="something unexpected")


NARROW = (
    '{"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"f":{"dtype":"F4","shape":[2,8],"data_offsets":[4,12]},'
    '"s":{"dtype":"F8_E8M0","shape":[3],"data_offsets":[12,15]},"t":{"dtype":"F6_E2M3","shape":[4],'
    '"data_offsets":[15,18]}}'
)


def test_narrow_types_stand_beside_others(tmp_path: Path) -> None:
    file, out = safetensors_of(tmp_path / "f", NARROW, 18), tmp_path / "o"
    found = {tensor["path"]: tensor for tensor in run_json("ls", file)["tensors"]}
    assert {name: (one["dtype"], one["elements"], one["bytes"], one["alterable"]) for name, one in found.items()} == {
        "b": ("float32", 1, 4, True),
        "f": ("float4_e2m1", 16, 8, True),
        "s": ("float8_e8m0", 3, 3, True),
        "t": ("float6_e2m3", 4, 3, False),
    }
    run("inject", file, "-o", out, "--tensor", "b", *SET, 3)
    with safe_open(out, "np") as opened:
        assert opened.get_tensor("b").tolist() == [3]
        assert opened.get_slice("f").get_shape() == [2, 8]
    refused("inject", file, "--dry-run", "--tensor", "t", says="an element takes 6 bits, less than a byte")
    refused("inject", file, "--dry-run", "--tensor", "t", "--as", "t=uint8", says="f")
    for view in ("f=uint8", "s=float4_e2m1"):
        refused("inject", file, "--dry-run", "--tensor", view[0], "--as", view, says="can neither give nor replace")
    metadata = run_json("inject", file, "--dry-run", "--plane", "metadata", "--count", 1)
    assert metadata["eligible_bits"] == 8 * (file.stat().st_size - 18)


HALVES = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
"""The values of float4_e2m1, by their patterns ("OCP Microscaling Formats (MX) Specification", 1.0, section 5.3.3)."""


def halves(file: Path) -> list[int]:
    """By the package safetensors: two elements in each byte, the first in its low bits."""
    stored = safetensors.torch.load_file(file)["f"].view(torch.uint8).flatten().tolist()
    return [part for byte in stored for part in (byte & 15, byte >> 4)]


@pytest.mark.parametrize("plane", ["value", "storage"])
def test_two_elements_of_a_byte_are_altered_by_themselves(plane: str, tmp_path: Path) -> None:
    file, out = tmp_path / "f.safetensors", tmp_path / "o.safetensors"
    stored = torch.randint(0, 256, (5, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    safetensors.torch.save_file({"f": stored.view(torch.float4_e2m1fn_x2), "w": torch.ones(3)}, file)
    before = halves(file)
    for what in (
        ("--bits", "any"),
        ("--bits", "exponent"),
        ("--what", "random"),
        ("--what", "zero"),
        ("--what", "max"),
    ):
        options = ("--tensor", "f", "--count", 30, "--seed", 5, *what, "--plane", plane)
        faults = run_json("inject", file, "-o", out, *options)["faults"]
        expected = list(before)
        for fault in faults:
            assert expected[fault["element"]] == int(fault["old"], 16)
            np.testing.assert_equal(float(fault["old_value"]), HALVES[int(fault["old"], 16)])
            np.testing.assert_equal(float(fault["new_value"]), HALVES[int(fault["new"], 16)])
            expected[fault["element"]] = int(fault["new"], 16)
        assert halves(out) == expected and expected != before
        assert {fault["element"] % 2 for fault in faults} == {0, 1}
        assert safetensors.torch.load_file(out)["w"].tolist() == [1, 1, 1]
        out.unlink()
    original = file.read_bytes()
    run("inject", file, "--in-place", "--tensor", "f", "--count", 320, "--plane", plane)
    assert halves(file) == [pattern ^ 15 for pattern in before]
    run("undo", file)
    assert file.read_bytes() == original


def test_elements_of_half_a_byte_have_no_nan(tmp_path: Path) -> None:
    file, out = tmp_path / "f.safetensors", tmp_path / "o.safetensors"
    safetensors.torch.save_file({"f": torch.arange(8, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)}, file)
    for what in ("nan", "inf"):
        refused("inject", file, "--dry-run", "--what", what, says="none of the 1 chosen tensors")
    refused("inject", file, "--dry-run", *SET, "nan", says="cannot be stored as float4_e2m1")
    run("inject", file, "-o", out, "--element", 3, *SET, 100)  # the largest value, as the hardware converts it
    assert HALVES[halves(out)[3]] == 6
    told = run_json("diff", file, out, code=1)
    assert [one["elements"] for one in told["differences"]] == [1]


def test_powers_of_two_are_exponents_alone(tmp_path: Path) -> None:
    file, out = tmp_path / "e.pt", tmp_path / "o.pt"
    exponents = torch.arange(256, dtype=torch.uint8)
    torch.save({"e": exponents.view(torch.float8_e8m0fnu)}, file)
    population = run_json("inject", file, "--dry-run", "--bits", "exponent", "--count", 300, "--seed", 1)
    assert population["eligible_bits"] == 8 * 256
    assert {fault["field"] for fault in population["faults"]} == {"exponent"}
    for fault in population["faults"]:
        value = exponents[fault["element"]].view(torch.float8_e8m0fnu).to(torch.float64).item()
        np.testing.assert_equal(np.float32(fault["old_value"]), np.float32(value))
    refused("inject", file, "--dry-run", "--bits", "sign", says="none of the 1 chosen tensors has a bit of 'sign'")
    refused("inject", file, "--dry-run", "--what", "zero", says="none of the 1 chosen tensors")
    refused("inject", file, "--dry-run", "--what", "inf", says="none of the 1 chosen tensors")
    refused("inject", file, "--dry-run", *SET, 0, says="--value 0 cannot be stored as float8_e8m0")
    refused("inject", file, "--dry-run", *SET, -1, says="--value -1 cannot be stored as float8_e8m0")
    for value in ("1", "2.9", "3", "3.1", "1e-45", "1e38", "1e39", "nan", "0.3"):
        run("inject", file, "-o", out, "--element", 5, *SET, value)
        stored = torch.load(out, weights_only=True)["e"][5]
        expected = torch.tensor(float(value), dtype=torch.float64).to(torch.float32).to(torch.float8_e8m0fnu)
        assert stored.view(torch.uint8) == expected.view(torch.uint8), value
    run("inject", file, "-o", out, "--element", 5, "--what", "max")
    assert torch.load(out, weights_only=True)["e"][5].to(torch.float64) == 2.0**127
    run("inject", file, "-o", out, "--no-nan", "--what", "random", "--fraction", 1, "--seed", 4)
    assert not torch.load(out, weights_only=True)["e"].to(torch.float32)[:255].isnan().any()


@pytest.mark.parametrize("name", ["float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_formats_with_one_zero_are_what_pytorch_says(tmp_path: Path, name: str) -> None:
    file, out = tmp_path / "z.pt", tmp_path / "o.pt"
    dtype, patterns = getattr(torch, name), torch.arange(256, dtype=torch.uint8)
    torch.save({"z": patterns.view(dtype)}, file)
    for field in ("sign", "exponent", "mantissa"):
        for fault in run_json("inject", file, "--dry-run", "--bits", field, "--count", 250, "--seed", 1)["faults"]:
            for key in ("old", "new"):  # the text tells a value from its neighbours
                value = torch.tensor(float(fault[f"{key}_value"])).to(dtype).view(torch.uint8).item()
                assert value == int(fault[key], 16), fault
    refused("inject", file, "--dry-run", "--what", "inf", says="none of the 1 chosen tensors")
    values = ["0", "-0", "1", "-1.3", "1e-9", "-1e-9", "nan", "inf", "1e9", "-1e9", "0.0625", "200", "239", "-7e4"]
    draw = random.Random(6)
    values += [repr(float(np.float32(draw.gauss(0, 1) * 2.0 ** draw.randint(-20, 18)))) for _ in range(40)]
    for value in values:
        run("inject", file, "-o", out, "--element", 5, *SET, value)
        stored = torch.load(out, weights_only=True)["z"][5]
        expected = torch.tensor(float(value), dtype=torch.float32).to(dtype)
        assert stored.view(torch.uint8) == expected.view(torch.uint8), value
    run("inject", file, "-o", out, "--element", 5, "--what", "max")
    assert torch.load(out, weights_only=True)["z"][5].to(torch.float64) == torch.finfo(dtype).max
    run("inject", file, "-o", out, "--element", 5, "--what", "nan")
    assert torch.load(out, weights_only=True)["z"][5].view(torch.uint8) == 0x80
    run("inject", file, "-o", out, "--no-nan", "--bits", "sign", "--count", 255, "--seed", 4)
    after = torch.load(out, weights_only=True)["z"].view(torch.uint8)
    assert after[0] == 0 and after[0x81:].tolist() == list(range(1, 0x80))  # zero has no other sign


def custom_float(order: int, size: int = 2) -> h5py.h5t.TypeID:
    """Sign, 6 exponent bits with bias 31, 9 mantissa bits: no format that has a name."""
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 9, 6, 0, 9)
    kind.set_offset(0)
    kind.set_precision(16)
    kind.set_size(size)
    kind.set_ebias(31)
    kind.set_order(order)
    return kind


@pytest.mark.parametrize("order", ["little", "big"])
def test_views_of_custom_types_keep_their_byte_order(tmp_path: Path, order: str) -> None:
    file, out = tmp_path / "c.h5", tmp_path / "o.h5"
    kind = custom_float(h5py.h5t.ORDER_BE if order == "big" else h5py.h5t.ORDER_LE)
    numbers = np.array([1.0, -2.5, 0.75])
    with h5py.File(file, "w") as held:
        space = h5py.h5s.create_simple((3,))
        h5py.h5d.create(held.id, b"w", kind, space).write(h5py.h5s.ALL, h5py.h5s.ALL, numbers)
        compound = h5py.h5t.create(h5py.h5t.COMPOUND, 4)
        compound.insert(b"x", 0, kind)
        compound.insert(b"n", 2, h5py.h5t.STD_I16BE if order == "big" else h5py.h5t.STD_I16LE)
        whole = h5py.h5d.create(held.id, b"c", compound, space)
        whole.write(h5py.h5s.ALL, h5py.h5s.ALL, np.zeros(3, [("x", "<f8"), ("n", "<i2")]))
    assert run_json("ls", file)["tensors"][2]["dtype"] == "float16 (6 exponent, 9 mantissa bits)"
    refused("inject", file, "--dry-run", "--tensor", "w", says="is not a number format that bitrift alters")

    def stored(path: Path) -> np.ndarray:
        with h5py.File(path) as held:
            dataset = held["w"].id
            return np.frombuffer(path.read_bytes(), f"{'>' if order == 'big' else '<'}u2", 3, dataset.get_offset())

    # 1.0 is 0 011111 000000000, and -2.5 is 1 100000 010000000.
    assert stored(file).tolist() == [0x3E00, 0xC080, 0x3D00]
    for bit in (0, 8, 9, 15):
        fault = run_json("inject", file, "-o", out, "--tensor", "w", "--as", "w=uint16", "--element", 1, "--bits", bit)
        assert int(fault["faults"][0]["old"], 16) == stored(file)[1]
        assert stored(out)[1] == stored(file)[1] ^ 1 << bit
    run("inject", file, "-o", out, "--tensor", "w", "--as", "w=float16", *SET, 1.5)
    assert stored(out).view(stored(out).dtype.str.replace("u", "f")).tolist() == [1.5] * 3
    with h5py.File(out) as held:  # by the library's own conversion of the type: 0x3e00 is 1 there
        seen = np.zeros(3)
        held["w"].id.read(h5py.h5s.ALL, h5py.h5s.ALL, seen, h5py.h5t.NATIVE_DOUBLE)
    assert seen.tolist() == [1.0] * 3
    run("inject", file, "-o", out, "--tensor", "c:x", "--as", "c:x=uint16", *SET, 0x3E00)
    with h5py.File(out) as held:
        seen = np.zeros(3, [("x", "<f8"), ("n", "<i2")])
        held["c"].id.read(h5py.h5s.ALL, h5py.h5s.ALL, seen)
    assert seen["x"].tolist() == [1.0] * 3 and seen["n"].tolist() == [0] * 3


def test_custom_types_of_both_byte_orders_are_equal(tmp_path: Path) -> None:
    files = []
    for order in (h5py.h5t.ORDER_LE, h5py.h5t.ORDER_BE):
        files.append(tmp_path / f"{order}.h5")
        with h5py.File(files[-1], "w") as held:
            dataset = h5py.h5d.create(held.id, b"w", custom_float(order), h5py.h5s.create_simple((3,)))
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([1.0, -2.5, 0.75]))
    assert run("diff", *files).stdout == "no tensor differs\n"


def test_dates_of_numpy_keep_their_byte_order(tmp_path: Path) -> None:
    for code in ("<M8[s]", ">M8[s]"):
        file, out = tmp_path / f"{code[0] == '<'}.npz", tmp_path / "o.npz"
        np.savez(file, t=np.array([10, 20], code))
        run("inject", file, "-o", out, "--tensor", "t", "--as", "t=int64", *SET, 7)
        with np.load(out) as found:
            assert found["t"].astype("<i8").tolist() == [7, 7]


ONNX = b"\x08\x08\x12\x07pytorch\x1a\x052.1.0:\x10graph of the model"  # ModelProto: ir_version 8, producer_name
OTHERS = {
    "model.gguf": (b"GGUF\3\0\0\0" + bytes(24), "is a GGUF file; bitrift reads the safetensors or PyTorch file"),
    "model.onnx": (ONNX, "is an ONNX model; bitrift reads the checkpoint"),
    "model.pt": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n", "by `git lfs pull`"),
    "page.safetensors": (b"<!DOCTYPE HTML><html><body>Sign in</body></html>", "is a web page; the download failed"),
    "model.h5.gz": (gzip.compress(b"x" * 99), "is a compressed file; unpack it first"),
    "model.nc": (b"CDF\1" + bytes(40), "is a NetCDF-3 file; convert it to NetCDF-4"),
    "model.safetensors.index.json": (b'{"metadata": {}, "weight_map": {"a": "b"}}', "b: is missing, and model"),
    "index.txt": (b'{"metadata": {}, "weight_map": {"a": "b"}}', "its name does not end in .index.json"),
    "config.json": (b' {"layers": 3}', "is JSON text, which holds no tensors"),
    "flax_model.msgpack": (b"\x81\xa6params\x81\xa6Conv_0\x80", "is a msgpack file, as Flax writes it; restore it"),
    "more.msgpack": (b"\xde\x00\x10\xa6params\x80", "is a msgpack file, as Flax writes it; restore it"),
    "state.pkl": (pickle.dumps({"a": 1}), "is a pickle of Python; load it, and save its tensors by torch.save"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_other_kinds_are_named_as_what_they_are(name: str, tmp_path: Path) -> None:
    content, says = OTHERS[name]
    (tmp_path / name).write_bytes(content)
    assert says in refused("ls", tmp_path / name, says=name)
    assert says in refused("inject", tmp_path / name, "-o", tmp_path / "out", says=name)
    assert not (tmp_path / "out").exists()


def test_arrays_archives_and_folders_are_named_as_what_they_are(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones(3))
    assert "numpy.savez" in refused("ls", tmp_path / "a.npy", says="is an .npy file of one array")
    for content, kind in {
        b"MATLAB 5.0 MAT-file, Platform: GLNXA64": "save it with '-v7.3', which writes HDF5",
        b"lmgg" + bytes(60): "is a ggml file",
        b"\x1c\0\0\0TFL3" + bytes(60): "is a model of TensorFlow Lite",
        b"\x1c\0\0\0ET12" + bytes(60): "is a program of ExecuTorch",
        bytes(60)
        + bytes.fromhex("57fb808b247547db"): "is a checkpoint of TensorFlow; load it, and save its weights by",
        b'{"depth": 2}\n' + (tmp_path / "a.npy").read_bytes(): "is a file of Equinox",
        b"something else": "(no HDF5 signature in its 14 bytes), nor safetensors, npz, or a file of torch.save",
    }.items():
        (tmp_path / "m.index").write_bytes(content)
        refused("ls", tmp_path / "m.index", says=kind)
        if "TensorFlow;" in kind:
            refused("ls", tmp_path, says=f"{tmp_path.name}: {kind}")
    (tmp_path / "m.index").rename(tmp_path / "m.data-00000-of-00002")
    refused("ls", tmp_path / "m.data-00000-of-00002", says="is a checkpoint of TensorFlow")
    with tarfile.open(tmp_path / "model.tar", "w") as archive:
        archive.add(tmp_path / "a.npy", "a.npy")
    refused("ls", tmp_path / "model.tar", says="is a tar archive; unpack it first")
    with zipfile.ZipFile(tmp_path / "model.keras", "w") as zipped:
        zipped.writestr("config.json", "{}")
        zipped.writestr("model.weights.h5", b"x")
    refused("ls", tmp_path / "model.keras", says="model.keras: is not an HDF5 file")
    refused("ls", tmp_path, says="is a folder; name a file in it, such as model.keras")
    (tmp_path / "model.keras").unlink()
    refused("ls", tmp_path, says="is a folder, and holds no file with the name of a checkpoint")
    torch.save({"w": W}, tmp_path / "w.pt")
    refused("ls", tmp_path, says="is a folder; name a file in it, such as w.pt")
    for mark, kind in {"manifest.ocdbt": "Orbax", "saved_model.pb": "TensorFlow", "zarr.json": "Zarr"}.items():
        (tmp_path / mark).touch()
        assert "numpy.savez or safetensors" in refused("ls", tmp_path, says=kind)
        (tmp_path / mark).unlink()
    (tmp_path / ".metadata").touch()
    refused("ls", tmp_path, says=".metadata")


def test_hdf5_behind_a_user_block_of_another_kind_is_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=512) as file:
        file["w"] = np.ones(3)
    with (tmp_path / "a.h5").open("r+b") as file:
        file.write(b'{"written by": "a program"}')
    assert run_json("ls", tmp_path / "a.h5")["tensors"][0]["path"] == "w"


def test_what_cannot_be_altered_is_left_out_unless_it_is_asked_for(tmp_path: Path) -> None:
    path, out = tmp_path / "a.pt", tmp_path / "out.pt"
    torch.save(
        {"w": W, "e": torch.ones(1).expand(5), "f": torch.ones(6, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)}, path
    )
    done = run("inject", path, "-o", out, "--fraction", 1, "--what", "zero")
    assert "not targets, because they cannot be altered: 2 tensors with 208 bits\n" in done.stdout
    assert "  e: some of its elements are the same stored bytes\n" in done.stdout
    found = torch.load(out, weights_only=True)
    assert found["w"].count_nonzero() == 0 and found["e"].tolist() == [1.0] * 5
    document = run_json("inject", path, "-o", out, "--count", 1, "--seed", 2)
    assert [(one["tensor"], one["bits"]) for one in document["left_out"]] == [("e", 160), ("f", 48)]
    refused("inject", path, "-o", out, "--tensor", "*", says="e cannot be altered")
    refused("inject", path, "-o", out, "--role", "unknown", says="or leave it out with --exclude")
    run("inject", path, "-o", out, "--role", "unknown", "--exclude", "e", "--exclude", "f", "--count", 3)
    torch.save({"e": torch.ones(1).expand(5)}, path)
    refused("inject", path, "-o", out, says="holds no tensor that could be altered; e: some of its elements")


def test_excluded_tensors_are_no_targets(tmp_path: Path) -> None:
    path, out, manifest = tmp_path / "a.pt", tmp_path / "out.pt", tmp_path / "m.json"
    torch.save({name: torch.ones(50) for name in ("a.weight", "a.bias", "b.weight", "c.d.weight")}, path)
    document = run_json("inject", path, "-o", out, "--exclude", "*.bias", "--exclude", "c.**", "--fraction", 1)
    assert {fault["tensor"] for fault in document["faults"]} == {"a.weight", "b.weight"}
    document = run_json("inject", path, "-o", out, "--role", "weight", "--exclude", "a.*", "--count", 99, "--seed", 1)
    assert {fault["tensor"] for fault in document["faults"]} == {"b.weight", "c.d.weight"}
    more = ("--role", "weight", "--exclude", "a.*", "--count", 9, "--seed", 1, "--compact-manifest")
    run("inject", path, "-o", out, *more, "--manifest", manifest)
    run("inject", path, "-o", tmp_path / "again.pt", "--replay", manifest)
    assert (tmp_path / "again.pt").read_bytes() == out.read_bytes()
    refused("inject", path, "-o", out, "--exclude", "none.*", says="--exclude 'none.*': none of the chosen tensors")
    refused("inject", path, "-o", out, "--exclude", "**", says="holds no tensor that could be altered")
    refused("inject", path, "-o", out, "--plane", "metadata", "--exclude", "*", says="no tensors to exclude")


def test_the_listing_says_how_opaque_numbers_can_be_altered(tmp_path: Path) -> None:
    """As h5py and NumPy write the bfloat16 of ml_dtypes."""
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file["dense/kernel"] = (W.numpy().view("u4") >> 16).astype("u2").view("V2")
    np.savez(tmp_path / "m.npz", **{"dense/kernel": np.zeros(4, "V2")})
    for name in ("m.h5", "m.npz"):
        (tensor,) = run_json("ls", tmp_path / name)["tensors"]
        hint = re.search(r"--as '(.*)'", tensor["refusal"])
        assert hint and hint[1] == "dense/kernel=bfloat16"
        run_json("inject", tmp_path / name, "--dry-run", "--tensor", "dense/kernel", "--as", hint[1])


def test_what_is_not_utf8_is_named(tmp_path: Path) -> None:
    torch.save({"w": W}, tmp_path / "m.pt")
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/m\xff.pt")
    shutil.copy(tmp_path / "m.pt", odd)
    words = ("-o", tmp_path / "out.pt", "--seed", 1, "--manifest", tmp_path / "m.json")
    refused("inject", odd, *words, says="the file's name is not UTF-8")
    assert not (tmp_path / "out.pt").exists()
