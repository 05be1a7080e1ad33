"""Faults in safetensors, npz and PyTorch files, read back by the programs that such files are for."""

from __future__ import annotations

import hashlib
import json
import random
import zipfile
from pathlib import Path

import archive_files as archives
import numpy as np
import pytest
import torch
from archive_files import KINDS
from inject_support import changed_bytes, names_in, refused, run, run_json


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def faults_of(document: dict) -> dict[tuple[str, int], tuple[int, int]]:
    """The faults that change something, as archive_files.changed() gives them."""
    return {
        (fault["tensor"], fault["element"]): (int(fault["old"], 16), int(fault["new"], 16))
        for fault in document["faults"]
        if fault["old"] != fault["new"]
    }


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def file(kind: str, tmp_path: Path) -> Path:
    return archives.write(kind, tmp_path / f"model.{kind}", archives.model_values())


def test_ls_names_what_the_file_holds(kind: str, file: Path) -> None:
    listed = run_json("ls", file)
    assert listed["format"] == {"npz_deflated": "npz", "pt": "pytorch"}.get(kind, kind)
    assert listed["layout"] == "pytorch"
    values = archives.model_values()
    assert [tensor["path"] for tensor in listed["tensors"]] == sorted(values)
    roles = {tensor["path"]: tensor["role"] for tensor in listed["tensors"]}
    assert (roles["conv1.weight"], roles["bn1.weight"], roles["bn1.running_mean"]) == ("weight", "norm", "running_stat")
    data = file.read_bytes()
    for tensor in listed["tensors"]:
        array = values[tensor["path"]]
        assert (tensor["dtype"], tuple(tensor["shape"])) == (array.dtype.name, array.shape)
        assert tensor["alterable"]
        if kind == "npz_deflated":
            assert tensor["storage"] == "deflated" and "offset" not in tensor
        else:
            assert data[tensor["offset"] :].startswith(array.tobytes())


def test_one_flip_changes_one_bit_for_the_native_reader(kind: str, file: Path, tmp_path: Path) -> None:
    before, out = digest(file), tmp_path / "out"
    arguments = ("--tensor", "fc.weight", "--element", 17, "--bits", 52)
    run("inject", file, "-o", out, *arguments, "--seed", 1)
    assert digest(file) == before
    old, new = archives.read(kind, file), archives.read(kind, out)
    pattern = int(archives.patterns(old["fc.weight"])[17])
    assert archives.changed(old, new) == {("fc.weight", 17): (pattern, pattern ^ 1 << 52)}
    found = run_json("diff", file, out, code=1)["differences"]
    assert [(one["path"], one["elements"], one["bits"], one["first_element"]) for one in found] == [
        ("fc.weight", 1, 1, 17)
    ]


def test_only_the_value_and_its_sums_change(tmp_path: Path) -> None:
    expected = {"safetensors": 1, "npz": 1 + 2 * 4, "pt": 1 + 2 * 4}  # CRC-32: header or descriptor, and directory
    for kind, most in expected.items():
        file = archives.write(kind, tmp_path / kind, archives.model_values())
        out = tmp_path / f"{kind}.out"
        run("inject", file, "-o", out, "--tensor", "conv1.weight", "--element", 5, "--bits", 3, "--seed", 1)
        assert 1 <= len(changed_bytes(file.read_bytes(), out.read_bytes())) <= most
        out = tmp_path / f"{kind}.storage"
        run("inject", file, "-o", out, "--tensor", "conv1.weight", "--element", 5, "--bits", 3, "--plane", "storage")
        assert len(changed_bytes(file.read_bytes(), out.read_bytes())) == 1


def test_the_storage_plane_leaves_the_sums_as_they_are(tmp_path: Path) -> None:
    values = archives.model_values()
    for kind in ("npz", "npz_deflated"):
        file, out = archives.write(kind, tmp_path / kind, values), tmp_path / f"{kind}.out"
        run("inject", file, "-o", out, "--tensor", "fc.weight", "--plane", "storage", "--count", 1, "--seed", 3)
        with zipfile.ZipFile(out) as archive:
            assert archive.testzip() == "fc.weight.npy"
    file, out = archives.write("pt", tmp_path / "pt", values), tmp_path / "pt.out"
    run("inject", file, "-o", out, "--tensor", "fc.weight", "--plane", "storage", "--count", 1, "--seed", 3)
    with zipfile.ZipFile(out) as archive:
        assert archive.testzip().split("/")[1] == "data"
    loaded = torch.load(out, weights_only=True)  # torch.load() does not look at the sums
    assert len(archives.changed(values, {name: tensor.numpy() for name, tensor in loaded.items()})) == 1


def test_stored_bytes_of_deflated_arrays_are_no_numbers(tmp_path: Path) -> None:
    file = archives.write("npz_deflated", tmp_path / "f.npz", archives.model_values())
    plane = ("--plane", "storage", "--tensor", "fc.weight", "--dry-run")
    document = run_json("inject", file, *plane, "--count", 5, "--seed", 2)
    with zipfile.ZipFile(file) as archive:
        size = archive.getinfo("fc.weight.npy").compress_size
    assert document["eligible_bits"] == 8 * size
    data = file.read_bytes()
    for fault in document["faults"]:
        assert fault["structure"] == "raw chunk 0 of /fc.weight"
        assert data[fault["element"]] == int(fault["old"], 16)
    refused("inject", file, *plane, "--bits", "exponent", says="is stored through filters")


def test_the_metadata_plane_is_everything_else(kind: str, file: Path, tmp_path: Path) -> None:
    document = run_json("inject", file, "--dry-run", "--plane", "metadata", "--count", 300, "--seed", 2)
    listed = run_json("ls", file)["tensors"]
    assert document["eligible_bits"] == 8 * (file.stat().st_size - sum(tensor["bytes"] for tensor in listed))
    data, runs = file.read_bytes(), [(t["offset"], t["offset"] + t["bytes"]) for t in listed if "offset" in t]
    for fault in document["faults"]:
        assert data[fault["element"]] == int(fault["old"], 16)
        assert not any(first <= fault["element"] < end for first, end in runs)
    names = {fault["structure"].split(" ")[0] for fault in document["faults"]}
    assert names <= {"length", "header", "local", "member", "data", ".npy", "central", "end", "unused"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("--role", "weight", "--bits", "exponent", "--count", 7),
        ("--tensor", "**bias", "--what", "burst", "--length", 5, "--count", 4),
        ("--layer", "last", "--what", "set", "--value", "2.5", "--fraction", "0.5"),
        ("--what", "zero", "--measure", "tensor", "--count", 9),
        ("--tensor", "conv1.*", "--ber", "0.01"),
        ("--what", "random", "--no-nan", "--count", 40),
    ],
)
def test_every_way_to_choose_faults_works(kind: str, file: Path, tmp_path: Path, arguments: tuple[object, ...]) -> None:
    out, manifest = tmp_path / "out", tmp_path / "manifest.json"
    document = run_json("inject", file, "-o", out, *arguments, "--seed", 11, "--manifest", manifest)
    assert archives.changed(archives.read(kind, file), archives.read(kind, out)) == faults_of(document)
    again = tmp_path / "again"
    run("inject", file, "-o", again, "--replay", manifest)
    assert again.read_bytes() == out.read_bytes()


def test_a_manifest_goes_from_format_to_format_by_name(tmp_path: Path) -> None:
    values, manifest = archives.model_values(), tmp_path / "m.json"
    files = {kind: archives.write(kind, tmp_path / kind, values) for kind in KINDS}
    flips = ("--count", 20, "--seed", 5)
    document = run_json("inject", files["pt"], "-o", tmp_path / "first", *flips, "--manifest", manifest)
    for kind, file in files.items():
        out = tmp_path / f"{kind}.out"
        run("inject", file, "-o", out, "--replay", manifest, "--by-name")
        assert archives.changed(values, archives.read(kind, out)) == faults_of(document)


def test_300_injections_are_undone(tmp_path: Path) -> None:
    draw = random.Random(20261123)
    values = archives.model_values(3)
    files = {kind: archives.write(kind, tmp_path / kind, values) for kind in KINDS}
    originals = {kind: (file.read_bytes(), archives.read(kind, file)) for kind, file in files.items()}
    for i in range(300):
        kind = KINDS[i % len(KINDS)]
        file, (original, before) = files[kind], originals[kind]
        plane = draw.choice(["value", "value", "storage", "metadata"])
        arguments: list[object] = [
            "--plane",
            plane,
            "--seed",
            draw.randrange(2**53),
            "--count",
            draw.choice([1, 1, 5, 15]),
        ]
        if plane != "metadata":
            arguments += draw.choice([[], ["--role", "weight"], ["--tensor", "*.bias"], ["--tensor", "half.weight"]])
        if plane == "value":
            arguments += draw.choice(
                [[], ["--bits", "mantissa"], ["--what", "max"], ["--what", "scale", "--factor", 2]]
            )
        if "scale" in arguments:
            arguments += ["--tensor", "fc.*"]
        document = run_json("inject", file, "--in-place", *arguments)
        if plane == "value":
            assert archives.changed(before, archives.read(kind, file)) == faults_of(document), arguments
        assert file.read_bytes() != original or not faults_of(document)
        if file.with_name(f"{file.name}.undo").exists():
            run("undo", file)
        assert file.read_bytes() == original, arguments
    assert names_in(tmp_path) == sorted(KINDS)


def test_a_deflated_array_may_grow(tmp_path: Path) -> None:
    values = {"zeros": np.zeros(4000, "<f4"), "ones": np.ones(4000, "<f4"), "last": np.arange(9, dtype="<i2")}
    file, out = archives.write("npz_deflated", tmp_path / "f.npz", values), tmp_path / "out.npz"
    document = run_json("inject", file, "-o", out, "--count", 3000, "--seed", 1)
    assert out.stat().st_size > file.stat().st_size
    assert archives.changed(values, archives.read("npz", out)) == faults_of(document)
    twice = tmp_path / "twice.npz"
    second = run_json("inject", out, "-o", twice, "--tensor", "zeros", "--count", 900, "--seed", 2)
    assert archives.changed(archives.read("npz", out), archives.read("npz", twice)) == faults_of(second)
    before = digest(out)
    run("inject", out, "--in-place", "--count", 3000, "--seed", 3)
    run("undo", out)
    assert digest(out) == before


def test_views_are_altered_where_their_elements_are(tmp_path: Path) -> None:
    base = torch.arange(120, dtype=torch.float32).reshape(4, 5, 6)
    content = {"a": {"t": base.transpose(0, 2)[1:]}, "s": base.double()[:, ::2, 1], "n": [base.half(), (7, None)]}
    file, out = tmp_path / "v.pt", tmp_path / "o.pt"
    torch.save(content, file)
    listed = {tensor["path"]: tensor for tensor in run_json("ls", file)["tensors"]}
    assert {path: tuple(tensor["shape"]) for path, tensor in listed.items()} == {
        "a/t": (5, 5, 4),
        "n/0": (4, 5, 6),
        "s": (4, 3),
    }
    document = run_json("inject", file, "-o", out, "--count", 60, "--seed", 4)
    new = torch.load(out, weights_only=True)

    def flat(held: dict) -> dict[str, np.ndarray]:
        return {"a/t": held["a"]["t"].numpy(), "n/0": held["n"][0].numpy(), "s": held["s"].numpy()}

    assert archives.changed(flat(content), flat(new)) == faults_of(document)
    assert {"a/t", "s"} <= {fault["tensor"] for fault in document["faults"]}


def test_fortran_order_and_big_endian_arrays(tmp_path: Path) -> None:
    values = {"f": np.asfortranarray(np.arange(35, dtype="<f4").reshape(5, 7)), "b": np.arange(9, dtype=">f8")}
    values["c"] = (np.arange(6) + 1j).astype("<c8")
    for kind in ("npz", "npz_deflated"):
        file, out = archives.write(kind, tmp_path / kind, values), tmp_path / f"{kind}.out"
        document = run_json("inject", file, "-o", out, "--count", 90, "--seed", 4)
        new = archives.read(kind, out)

        def parts(held: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {"b": held["b"], "c:imag": held["c"].imag, "c:real": held["c"].real, "f": held["f"]}

        assert archives.changed(parts(values), parts(new)) == faults_of(document)
        assert new["f"].flags.f_contiguous


def test_tied_weights_are_one_target(tmp_path: Path) -> None:
    shared = torch.arange(12.0).reshape(3, 4)
    file, out = tmp_path / "tied.pt", tmp_path / "o.pt"
    torch.save({"head.weight": shared, "embed.weight": shared, "other": torch.ones(2)}, file)
    listed = {tensor["path"]: tensor for tensor in run_json("ls", file)["tensors"]}
    assert listed["head.weight"]["alias_of"] == "embed.weight" and "alias_of" not in listed["embed.weight"]
    assert "stored, alias of embed.weight" in run("ls", file).stdout
    assert run_json("inject", file, "--dry-run", "--seed", 1)["eligible_bits"] == 32 * 14
    one = ("--tensor", "head.weight", "--element", 3, "--bits", 30)
    run("inject", file, "-o", out, *one, "--seed", 1)
    loaded = torch.load(out, weights_only=True)
    assert torch.equal(loaded["head.weight"], loaded["embed.weight"])
    assert not torch.equal(loaded["head.weight"], shared)
    assert {one["path"] for one in run_json("diff", file, out, code=1)["differences"]} == {
        "head.weight",
        "embed.weight",
    }


def test_tensors_that_overlap_must_be_chosen_one_by_one(tmp_path: Path) -> None:
    base = torch.arange(10.0)
    file = tmp_path / "o.pt"
    torch.save({"all": base, "head": base[:6], "tail": base[6:]}, file)
    refused("inject", file, "--dry-run", says="all and head lie over the same stored bytes; choose one of them")
    run("inject", file, "--dry-run", "--tensor", "head", "--tensor", "tail", "--count", 3)
    expanded = tmp_path / "e.pt"
    torch.save({"e": torch.ones(1).expand(1000)}, expanded)
    refused("inject", expanded, "--dry-run", says="some of its elements are the same stored bytes")


def test_types_of_pytorch(tmp_path: Path) -> None:
    names = [
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "float8_e5m2",
        "float8_e4m3fn",
        "int64",
        "int32",
        "int16",
        "int8",
    ]
    names += ["uint8", "uint16", "uint32", "uint64", "bool"]
    content = {name: torch.arange(2).to(getattr(torch, name)) for name in names}
    content["complex64"] = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex64)
    file, out = tmp_path / "t.pt", tmp_path / "o.pt"
    torch.save(content, file)
    listed = {tensor["path"]: tensor["dtype"] for tensor in run_json("ls", file)["tensors"]}
    assert listed == {name: name for name in names} | {"complex64:real": "float32", "complex64:imag": "float32"}
    document = run_json("inject", file, "-o", out, "--measure", "tensor", "--count", 40, "--seed", 2)
    new = torch.load(out, weights_only=True)
    for fault in document["faults"]:
        name, _, part = fault["tensor"].partition(":")
        width = content[name].element_size() // (2 if part else 1)
        place = (fault["element"] * 2 + (part == "imag") if part else fault["element"]) * width
        for held, key in ((content, "old"), (new, "new")):
            stored = int.from_bytes(archives.raw(held[name])[place : place + width], "little")
            assert stored == int(fault[key], 16), fault


def test_types_of_safetensors(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    tensors = {}
    for name, code in archives.SAFE_TYPES.items():
        width = 1 if name == "BOOL" else np.dtype(code).itemsize
        stored = draw.integers(0, 2 if name == "BOOL" else 256, 3 * width, dtype="u1").tobytes()
        tensors[name] = (name, np.frombuffer(stored, code))
    file = archives.write_safetensors(tmp_path / "t.safetensors", tensors, {"format": "pt"})
    listed = run_json("ls", file)
    assert listed["attributes"] == {"format": "pt"}
    types = {tensor["path"]: tensor["dtype"] for tensor in listed["tensors"]}
    assert (types["BF16"], types["F8_E4M3"], types["BOOL"], types["C64:imag"]) == (
        "bfloat16",
        "float8_e4m3fn",
        "bool",
        "float32",
    )
    out = tmp_path / "o.safetensors"
    document = run_json("inject", file, "-o", out, "--measure", "tensor", "--count", 150, "--seed", 2)
    flips = [int(fault["old"], 16) ^ int(fault["new"], 16) for fault in document["faults"]]
    found = changed_bytes(file.read_bytes(), out.read_bytes())
    assert sum(flip.bit_count() for flip in flips) == sum(xor.bit_count() for xor in found.values()) == 150
    assert {fault["tensor"].split(":")[0] for fault in document["faults"]} == set(tensors)
    odd = tmp_path / "odd.pt"
    torch.save({"w": torch.ones(4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)}, odd)
    refused("inject", odd, "--dry-run", says="its type (float4_e2m1fn_x2) is not a number format that bitrift alters")


def test_a_second_injection_in_place_is_refused(kind: str, file: Path) -> None:
    run("inject", file, "--in-place", "--seed", 1, "--count", 3)
    refused("inject", file, "--in-place", "--seed", 2, says="already holds an injection; undo it first")
    run("undo", file)


def test_diff_compares_formats(tmp_path: Path) -> None:
    values = archives.model_values()
    first = archives.write("npz", tmp_path / "a.npz", values)
    second = archives.write("pt", tmp_path / "b.pt", values)
    assert run("diff", first, second).stdout == "no tensor differs\n"
    values["fc.bias"] = values["fc.bias"] + 1
    third = archives.write("safetensors", tmp_path / "c.safetensors", values)
    assert [one["path"] for one in run_json("diff", first, third, code=1)["differences"]] == ["fc.bias"]


def test_options_and_archive_members_with_odd_names(tmp_path: Path) -> None:
    values = {"deep/er/w": np.ones(3, "<f4"), "with space": np.ones(3, "<f4"), "größe": np.ones(3, "<f4")}
    for kind in KINDS:
        file, out = archives.write(kind, tmp_path / kind, values), tmp_path / f"{kind}.out"
        document = run_json("inject", file, "-o", out, "--count", 80, "--seed", 1)
        assert archives.changed(values, archives.read(kind, out)) == faults_of(document)
    with zipfile.ZipFile(tmp_path / "mixed.npz", "w") as archive:
        archive.writestr("readme.txt", "no array")
        with archive.open("w.npy", "w") as member:
            np.save(member, np.ones(3))
    listed = {tensor["path"]: tensor["dtype"] for tensor in run_json("ls", tmp_path / "mixed.npz")["tensors"]}
    assert listed == {"readme.txt": "opaque", "w": "float64"}
    manifest = tmp_path / "m.json"
    run("inject", tmp_path / "mixed.npz", "-o", tmp_path / "o", "--tensor", "w", "--manifest", manifest)
    assert json.loads(manifest.read_text())["tensors"] == [{"path": "w", "dtype": "float64", "shape": [3]}]
