"""Faults replayed on files that hold the same tensors in another layout, and what of another base is named first."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import inject_support as support
import numpy as np
import pytest
from inject_support import crc32c, names_in, refused, run, run_json

VALUES = {
    "net/a.weight": support.random_values("<f4", (33, 20)),
    "net/half": support.random_values("<f2", (70,), 1),
    "net/double": support.random_values("<f8", (5, 3, 4), 2),
    "net/count": support.random_values("<i8", (11,), 3),
    "net/u2": support.random_values("<u2", (4, 9), 4),
    "net/flag": np.arange(24) % 3 == 0,
    "net/z": support.random_values("<f4", (16,), 5) + 1j * support.random_values("<f4", (16,), 6),
    "net/rows": np.array([(1.5, -3, b"ab"), (-2.25, 7, b"cd")] * 6, [("x", "<f4"), ("n", "<i2"), ("s", "S2")]),
    "scalar": np.float64(3.25),
}
ALL = [word for name in (*VALUES, "net@note") for word in ("--tensor", name.replace("scalar", "scalar*"))]
NOTE = np.array([1.0, -2.0], "<f8")


def swapped(value: np.ndarray) -> np.ndarray:
    """The same values in the other byte order."""
    return np.asarray(value, np.asarray(value).dtype.newbyteorder(">"))


def small_chunks(value: np.ndarray) -> tuple[int, ...]:
    return tuple(max(1, size // 3) for size in value.shape)


def chunked(**pipeline: object) -> Callable[[np.ndarray], dict]:
    return lambda value: {"chunks": small_chunks(value), **pipeline} if np.ndim(value) else {}


def plain(_: np.ndarray) -> dict:
    return {}


LAYOUTS: dict[str, tuple[dict, Callable[[np.ndarray], dict], bool]] = {
    "gzip": ({}, chunked(compression="gzip", compression_opts=9), False),
    "all-filters": ({"libver": "latest"}, chunked(compression="gzip", shuffle=True, fletcher32=True), False),
    "lzf": ({}, chunked(compression="lzf"), False),
    "chunks": ({"libver": "v110"}, chunked(), False),
    "grows": ({"libver": "latest"}, lambda v: {"maxshape": (None,) * v.ndim} if np.ndim(v) else {}, False),
    "big-endian": ({}, plain, True),
    "big-endian-gzip": ({"libver": "latest"}, chunked(compression="gzip"), True),
    "new-metadata": ({"libver": "latest"}, plain, False),
    "hdf5-1.8": ({"libver": ("earliest", "v108")}, plain, False),
    "user-block": ({"userblock_size": 1024}, chunked(compression="gzip"), False),
    "ordered": ({"track_order": True}, plain, False),
}


def write(path: Path, layout: str = "", reverse: bool = False) -> Path:
    options, storage, big = LAYOUTS[layout] if layout else ({}, plain, False)
    with h5py.File(path, "w", **options) as file:
        for name in sorted(VALUES, reverse=reverse):
            value = VALUES[name]
            turn = big and np.asarray(value).dtype.kind in "fiuc"
            file.create_dataset(name, data=swapped(value) if turn else value, **storage(value))
        file["net"].attrs["note"] = swapped(NOTE) if big else NOTE
    return path


def patterns(value: np.ndarray) -> np.ndarray:
    """Bit patterns, in the byte order of this machine."""
    native = np.asarray(value).astype(np.asarray(value).dtype.newbyteorder("="))
    return native.reshape(-1).view(f"u{native.dtype.itemsize}")


def numbers(path: Path) -> dict[str, np.ndarray]:
    """What bitrift calls tensors, read by h5py: parts of complex numbers and compounds apart."""
    found = {}
    with h5py.File(path) as file:
        for name in VALUES:
            value = file[name][()]
            if name == "net/z":
                found[name + ":real"], found[name + ":imag"] = patterns(value.real.copy()), patterns(value.imag.copy())
            elif name == "net/rows":
                for part in ("x", "n"):
                    found[f"{name}:{part}"] = patterns(np.ascontiguousarray(value[part]))
            else:
                found[name] = patterns(value)
        found["net@note"] = patterns(file["net"].attrs["note"])
    return found


def drawn(tmp_path: Path, *words: object) -> tuple[Path, Path, dict]:
    """A base, a manifest with faults in all of its tensors, and what the manifest says."""
    base, manifest = write(tmp_path / "base.h5"), tmp_path / "m.json"
    call = [*ALL, "--seed", 8, *words]
    run("inject", base, "-o", tmp_path / "expected.h5", *call, "--manifest", manifest)
    return base, manifest, json.loads(manifest.read_text())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_exactly_the_asked_bits_differ_in_another_layout(tmp_path: Path, layout: str) -> None:
    base, manifest, document = drawn(tmp_path, "--count", 150, "--measure", "tensor")
    assert {row["path"] for row in document["tensors"]} == set(numbers(base))
    other, out, back = write(tmp_path / "other.h5", layout, reverse=True), tmp_path / "o.h5", tmp_path / "new.json"
    before = other.read_bytes()
    assert before != base.read_bytes()
    run("inject", other, "-o", out, "--replay", manifest, "--by-name", "--manifest", back)
    expected = numbers(base)
    for fault in document["faults"]:
        place = expected[fault["tensor"]]
        assert place[fault["element"]] == int(fault["old"], 16)
        place[fault["element"]] = int(fault["new"], 16)
    found = numbers(out)
    for name, value in expected.items():
        assert (found[name] == value).all(), name
    with h5py.File(other) as a, h5py.File(out) as b:
        assert a["net/rows"].dtype == b["net/rows"].dtype
        assert (a["net/rows"]["s"] == b["net/rows"]["s"]).all()
        assert a["net/a.weight"].compression == b["net/a.weight"].compression
    assert other.read_bytes() == before
    run("inject", other, "--in-place", "--replay", manifest, "--by-name")
    assert other.read_bytes() == out.read_bytes()
    run("undo", other)
    assert other.read_bytes() == before
    # What it wrote belongs to this file, byte for byte.
    run("inject", other, "-o", tmp_path / "again.h5", "--replay", back)
    assert (tmp_path / "again.h5").read_bytes() == out.read_bytes()


def compact_dataset(file: h5py.File, name: str, value: np.ndarray) -> None:
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    kind = h5py.h5t.py_create(value.dtype)
    dataset = h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple(value.shape), plist)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, value)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_compact_data_and_custom_floats_by_name(tmp_path: Path, libver: str) -> None:
    values = support.random_values("<f4", (24,))
    for name, order, version in (("base.h5", "<", "earliest"), ("other.h5", ">", libver)):
        with h5py.File(tmp_path / name, "w", libver=version) as file:
            if name == "base.h5":
                file["w"] = values
            else:
                compact_dataset(file, "w", swapped(values))
            support.write_bfloat16(file, "b", values, order)
    manifest, out = tmp_path / "m.json", tmp_path / "o.h5"
    run("inject", tmp_path / "base.h5", "-o", out, "--count", 40, "--manifest", manifest)
    document = json.loads(manifest.read_text())
    assert {row["dtype"] for row in document["tensors"]} == {"float32", "bfloat16"}
    run("inject", tmp_path / "other.h5", "-o", out, "--replay", manifest, "--by-name")
    expected = {"w": patterns(values), "b": (values.view("<u4") >> 16).astype("u4")}
    for fault in document["faults"]:
        expected[fault["tensor"]][fault["element"]] = int(fault["new"], 16)
    with h5py.File(out) as file:
        assert (patterns(file["w"][()]) == expected["w"]).all()
        kind = support.bfloat16_type("<")
        raw = np.zeros(24, "V2")
        file["b"].id.read(h5py.h5s.ALL, h5py.h5s.ALL, raw, kind)
        assert (raw.view("<u2") == expected["b"]).all()


def test_the_checksums_of_a_checkpoint_follow(tmp_path: Path) -> None:
    base, other, out = support.model_file(tmp_path / "base.h5"), tmp_path / "other.h5", tmp_path / "o.h5"
    with h5py.File(base) as a, h5py.File(other, "w", libver="latest") as b:
        for group in a:
            a.copy(group, b)
        del b["model/conv1.weight"]
        weight = a["model/conv1.weight"][()]
        b.create_dataset("model/conv1.weight", data=swapped(weight), chunks=(9, 2), compression="gzip")
    manifest = tmp_path / "m.json"
    run("inject", base, "-o", out, "--role", "weight", "--count", 25, "--manifest", manifest)
    with h5py.File(out) as file:
        sums, expected = file["checksum/crc32c"][()], file["model/conv1.weight"][()]
    run("inject", other, "-o", out, "--replay", manifest, "--by-name")
    with h5py.File(out) as file:
        assert patterns(file["model/conv1.weight"][()]).tolist() == patterns(expected).tolist()
        assert file["checksum/crc32c"][()].tolist() == sums.tolist()
        names = [name.decode() for name in file["checksum/path"][()]]
        assert sums[names.index("model/conv1.weight")] == crc32c(expected.tobytes())


def edited(source: Path, target: Path, edit: Callable[[h5py.File], object]) -> Path:
    shutil.copy(source, target)
    with h5py.File(target, "r+") as file:
        edit(file)
    return target


def replace(name: str, value: np.ndarray, **options: object) -> Callable[[h5py.File], object]:
    def edit(file: h5py.File) -> None:
        del file[name]
        file.create_dataset(name, data=value, **options)

    return edit


def remove(name: str) -> Callable[[h5py.File], object]:
    return lambda file: file.pop(name)


A = VALUES["net/a.weight"]
OTHER_TENSORS = {
    "it has no tensor net/a.weight (float32 [33, 20])": remove("net/a.weight"),
    "net/a.weight is float32 [20, 33], not float32 [33, 20]": replace("net/a.weight", A.reshape(20, 33)),
    "net/a.weight is float32 [660], not float32 [33, 20]": replace("net/a.weight", A.reshape(-1)),
    "net/a.weight is float32 [33, 21], not": replace("net/a.weight", np.hstack([A, A[:, :1]])),
    "net/a.weight is int32 [33, 20], not float32": replace("net/a.weight", A.view("<i4")),
    "net/a.weight is float64 [33, 20], not float32": replace("net/a.weight", A.astype("<f8")),
    "net/a.weight is opaque [33, 20], not float32": replace("net/a.weight", A.view("V4")),
}


@pytest.mark.parametrize("says", OTHER_TENSORS)
@pytest.mark.parametrize("compact", [False, True])
def test_other_tensors_are_refused_by_name(tmp_path: Path, says: str, compact: bool) -> None:
    words = ["--compact-manifest"] if compact else []
    base, manifest = write(tmp_path / "base.h5"), tmp_path / "m.json"
    call = ["--tensor", "net/a.weight", "--count", 9, "--manifest", manifest]
    run("inject", base, "-o", tmp_path / "o.h5", *call, *words)
    other = edited(base, tmp_path / "other.h5", OTHER_TENSORS[says])
    names = names_in(tmp_path)
    line = refused("inject", other, "-o", tmp_path / "p.h5", "--replay", manifest, "--by-name", says=says)
    assert "does not hold the tensors" in line
    line = refused("inject", other, "-o", tmp_path / "p.h5", "--replay", manifest, says=says)
    assert "is not the file that the manifest was drawn from" in line
    assert names_in(tmp_path) == names


def test_the_first_other_value_is_named_in_the_order_of_the_manifest(tmp_path: Path) -> None:
    """Also where the chunks that hold them are looked at on several threads."""
    base, manifest, out = write(tmp_path / "base.h5"), tmp_path / "m.json", tmp_path / "o.h5"
    run("inject", base, "-o", out, "--tensor", "net/a.weight", "--count", 300, "--manifest", manifest)
    faults = json.loads(manifest.read_text())["faults"]
    out.unlink()
    for first in (0, 1, 57, len(faults) - 1):
        value = A.copy().reshape(-1)
        for fault in faults[first:]:
            value[fault["element"]] = 7
        gzip = {"chunks": (2, 3), "compression": "gzip"}
        other = edited(base, tmp_path / "other.h5", replace("net/a.weight", value.reshape(A.shape), **gzip))
        says = f"element {faults[first]['element']} of net/a.weight holds 0x40e00000, the fault was drawn for 0x"
        for words in (["--by-name"], ["--force"], []):
            line = refused("inject", other, "-o", out, "--replay", manifest, *words, says=says)
            assert int(line.split()[-1], 16) == int(faults[first]["old"], 16)
    assert not out.exists()


@pytest.mark.parametrize("extra", [["--count", 40], ["--ber", 0.01], ["--what", "random", "--fraction", 0.1],
                                   ["--what", "burst", "--length", 3, "--count", 20, "--no-nan"]])  # fmt: skip
@pytest.mark.parametrize("layout", ["all-filters", "big-endian"])
def test_a_compact_manifest_is_drawn_again_in_another_layout(tmp_path: Path, layout: str, extra: list) -> None:
    base, full, _ = drawn(tmp_path, *extra)
    other, short = write(tmp_path / "other.h5", layout, reverse=True), tmp_path / "short.json"
    call = [*ALL, "--seed", 8, *extra]
    run("inject", base, "-o", tmp_path / "o.h5", *call, "--manifest", short, "--compact-manifest")
    targeted = {row["path"] for row in json.loads(short.read_text())["tensors"]}
    assert targeted == set(numbers(base)) - ({"net/flag"} if "burst" in extra else set())  # one bit holds no burst
    run("inject", other, "-o", tmp_path / "1.h5", "--replay", full, "--by-name")
    run("inject", other, "-o", tmp_path / "2.h5", "--replay", short, "--by-name")
    assert (tmp_path / "1.h5").read_bytes() == (tmp_path / "2.h5").read_bytes()
    refused("inject", other, "-o", tmp_path / "3.h5", "--replay", short, says="or with --by-name where tensors")
    more = edited(other, tmp_path / "more.h5", lambda file: file.create_dataset("scalar2", data=A))
    refused("inject", more, "-o", tmp_path / "3.h5", "--replay", short, "--by-name",
            says="scalar2 (float32 [33, 20]) is targeted too")  # fmt: skip
    run("inject", more, "-o", tmp_path / "3.h5", "--replay", full, "--by-name")


def test_a_compact_manifest_is_refused_where_values_differ(tmp_path: Path) -> None:
    base, short = write(tmp_path / "base.h5"), tmp_path / "short.json"
    call = ["--tensor", "net/a.weight", "--what", "random", "--count", 660, "--seed", 1, "--manifest", short]
    run("inject", base, "-o", tmp_path / "o.h5", *call, "--compact-manifest")
    other = edited(base, tmp_path / "other.h5", replace("net/a.weight", A + 1))
    refused(
        "inject", other, "-o", tmp_path / "p.h5", "--replay", short, "--by-name", says="again gives different faults"
    )
    assert not (tmp_path / "p.h5").exists()


def test_planes_of_one_file_are_refused_by_name(tmp_path: Path) -> None:
    base, manifest, out = write(tmp_path / "base.h5", "gzip"), tmp_path / "m.json", tmp_path / "o.h5"
    for plane, words in (("storage", ["--tensor", "net/half"]), ("metadata", [])):
        for compact in ([], ["--compact-manifest"]):
            run("inject", base, "-o", out, "--plane", plane, *words, "--manifest", manifest, *compact)
            call = ["inject", base, "-o", out, "--replay", manifest]
            refused(*call, "--by-name", says=f"the faults of plane {plane} are at bytes of one file")
            run(*call)


def test_by_name_needs_a_manifest_that_says_shapes(tmp_path: Path) -> None:
    base, manifest, document = drawn(tmp_path, "--count", 5)
    other, out, new = write(tmp_path / "other.h5", "gzip"), tmp_path / "o.h5", tmp_path / "new.json"
    document["schema"] = "bitrift/fault-manifest/2"
    del document["tensors"], document["base"]["bytes"]
    manifest.write_text(json.dumps(document))
    refused("inject", other, "-o", out, "--replay", manifest, "--by-name", says="does not say the shape of")
    run("inject", base, "-o", out, "--replay", manifest, "--manifest", new)
    run("inject", other, "-o", out, "--replay", new, "--by-name")
    refused("inject", other, "-o", out, "--by-name", says="--by-name goes with --replay")
    refused("inject", other, "-o", out, "--replay", new, "--by-name", "--force", says="exclude each other")


def test_another_base_is_refused_with_what_differs_first(tmp_path: Path) -> None:
    base, manifest, document = drawn(tmp_path, "--count", 3, "--bits", "sign")
    untouched = "net/a.weight"
    assert untouched in VALUES
    out = tmp_path / "o.h5"
    count = len(document["faults"])

    def refuse(other: Path, says: str, advice: str = "--by-name") -> str:
        line = refused("inject", other, "-o", out, "--replay", manifest, says=says)
        assert "is not the file that the manifest was drawn from" in line
        assert advice in line
        return line

    size = base.stat().st_size
    gzip = write(tmp_path / "gzip.h5", "gzip")
    refuse(
        gzip, f"it has {gzip.stat().st_size} bytes, not {size}, and the same tensors and texts are stored differently"
    )
    hit = {(fault["tensor"], fault["element"]) for fault in document["faults"]}
    free = next(i for i in range(660) if (untouched, i) not in hit)
    value = A.copy().reshape(-1)
    old = int(value.view("<u4")[free])
    value[free] = 7

    def assign(file: h5py.File) -> None:
        file[untouched][...] = value.reshape(A.shape)

    other = edited(base, tmp_path / "other.h5", assign)
    says = f"{untouched} differs first in element {free}, which holds 0x40e00000, not {old:#x}"
    line = refuse(other, says, f"all {count} old values fit")
    assert "its digest is " in line
    more = edited(base, tmp_path / "more.h5", lambda file: file.create_dataset("extra", data=A))
    refuse(more, "and it has extra too")
    less = edited(base, tmp_path / "less.h5", remove(untouched)) if not any(t == untouched for t, _ in hit) else None
    if less:
        refuse(less, f"and it has no {untouched}")
    base.unlink()  # then only size and digest can be told
    assert "differs first" not in refuse(other, "its digest is ")
    refuse(more, f"it has {more.stat().st_size} bytes, not {size}; all {count} old values fit")
    run("inject", other, "-o", out, "--replay", manifest, "--by-name")


def test_a_dry_run_checks_a_replay_and_writes_nothing(tmp_path: Path) -> None:
    _, manifest, document = drawn(tmp_path, "--count", 5)
    other = write(tmp_path / "other.h5", "gzip")
    names = names_in(tmp_path)
    shown = run_json("inject", other, "--dry-run", "--replay", manifest, "--by-name")
    assert [fault["new"] for fault in shown["faults"]] == [fault["new"] for fault in document["faults"]]
    assert names_in(tmp_path) == names
