"""Upsets of stored bytes: chunks behind filters, and what HDF5's own checksums cover; h5py says what became of them."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from inject_support import changed_bytes, refused, run, run_json

PIPELINES = {
    "gzip": {"compression": "gzip"},
    "shuffle": {"shuffle": True},
    "fletcher32": {"fletcher32": True},
    "lzf": {"compression": "lzf"},
    "all": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "scale-offset": {"scaleoffset": 3},
}


def values(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype("<f4")


def packed(path: Path, pipeline: str, libver: str = "earliest") -> Path:
    """A dataset of 5 x 2 chunks, the last of each row cut by the edge, and one without filters."""
    with h5py.File(path, "w", libver=libver) as file:
        file.create_dataset("net/w", data=values((33, 20)), chunks=(7, 12), **PIPELINES[pipeline])
        file["plain"] = np.arange(50, dtype="<f4")
    return path


def chunks_of(path: Path, name: str) -> dict[int, range]:
    """The places of each chunk's stored bytes, by its cell in row-major order, as h5py finds them."""
    found = {}
    with h5py.File(path) as file:
        dataset = file[name]
        cells = [-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True)]
        for i in range(dataset.id.get_num_chunks()):
            info = dataset.id.get_chunk_info(i)
            at = [place // chunk for place, chunk in zip(info.chunk_offset, dataset.chunks, strict=True)]
            cell = int(np.ravel_multi_index(at, cells))
            found[cell] = range(info.byte_offset, info.byte_offset + info.size)
    return found


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_flips_land_in_the_stored_bytes_that_they_name(tmp_path: Path, pipeline: str, libver: str) -> None:
    path = packed(tmp_path / "p.h5", pipeline, libver)
    before, chunks = path.read_bytes(), chunks_of(path, "net/w")
    assert len(chunks) == 10
    out, manifest, again = (tmp_path / name for name in ("o.h5", "m.json", "again.h5"))
    call = ["--plane", "storage", "--tensor", "net/w", "--count", 60, "--seed", 4]
    run("inject", path, "-o", out, *call, "--manifest", manifest)
    document = json.loads(manifest.read_text())
    stored = sum(map(len, chunks.values()))
    assert (document["eligible_bits"], document["eligible_elements"]) == (8 * stored, stored)
    expected = {}
    for fault in document["faults"]:
        cell = int(fault["structure"].removeprefix("raw chunk ").removesuffix(" of /net/w"))
        assert fault["element"] in chunks[cell]
        assert (fault["tensor"], fault["plane"], fault["dtype"], fault["field"]) == ("net/w", "storage", "uint8", "")
        assert (fault["stratum"], fault["stratum_bits"]) == ("unknown.any", 8 * stored)
        assert before[fault["element"]] == int(fault["old"], 16)
        expected[fault["element"]] = sum(1 << bit for bit in fault["bits"])
    assert sum(mask.bit_count() for mask in expected.values()) == 60
    assert changed_bytes(before, out.read_bytes()) == expected
    run("inject", path, "-o", again, "--replay", manifest)
    assert again.read_bytes() == out.read_bytes()
    run("inject", path, "--in-place", *call, "--compact-manifest", "--manifest", tmp_path / "c.json")
    assert path.read_bytes() == out.read_bytes()
    run("undo", path)
    assert path.read_bytes() == before
    run("inject", path, "-o", again, "--replay", tmp_path / "c.json")
    assert again.read_bytes() == out.read_bytes()


def test_every_stored_bit_is_drawn_once(tmp_path: Path) -> None:
    path, out = packed(tmp_path / "p.h5", "all"), tmp_path / "o.h5"
    places = {place for chunk in chunks_of(path, "net/w").values() for place in chunk}
    bits = 8 * len(places)
    run("inject", path, "-o", out, "--plane", "storage", "--tensor", "net/w", "--count", bits)
    assert changed_bytes(path.read_bytes(), out.read_bytes()) == dict.fromkeys(places, 255)
    refused("inject", path, "-o", out, "--plane", "storage", "--tensor", "net/w", "--count", bits + 1, says="is more")


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_what_h5py_makes_of_one_flipped_bit(tmp_path: Path, pipeline: str) -> None:
    """A checksum refuses; a permutation of bytes shows one bit; nothing outside of the chunk is touched."""
    path = packed(tmp_path / "p.h5", pipeline)
    with h5py.File(path) as file:
        good = file["net/w"][()]
    for seed in range(12):
        out = tmp_path / "o.h5"
        call = ["--plane", "storage", "--tensor", "net/w", "--seed", seed]
        (fault,) = run_json("inject", path, "-o", out, *call)["faults"]
        cell = int(fault["structure"].split()[2])
        row, column = 7 * (cell // 2), 12 * (cell % 2)
        spared = np.ones(good.shape, bool)
        spared[row : row + 7, column : column + 12] = False
        with h5py.File(out) as file:
            assert (file["plain"][()] == np.arange(50)).all()
            for i in range(good.shape[0]):
                for j in (0, 12):
                    part = np.s_[i, j : j + 12]
                    if spared[part].all():
                        assert (file["net/w"][part] == good[part]).all()
            try:
                found = file["net/w"][()]
            except OSError:
                assert pipeline not in ("shuffle", "scale-offset")
                continue
        assert pipeline not in ("fletcher32", "all"), "a checksum was not looked at"
        assert found[spared].tobytes() == good[spared].tobytes()
        if pipeline == "shuffle":
            flipped = found.view("<u4") ^ good.view("<u4")
            # The edge chunk is stored whole: a flip may lie beyond the dataset's edge.
            assert sum(int(one).bit_count() for one in flipped.flat) == 1 or cell % 2 == 1 or cell >= 8


def test_filtered_and_plain_tensors_share_one_population(tmp_path: Path) -> None:
    path = packed(tmp_path / "p.h5", "all")
    stored = sum(map(len, chunks_of(path, "net/w").values()))
    shown = run_json("inject", path, "--dry-run", "--plane", "storage", "--count", 400, "--seed", 2)
    sizes = {row["stratum"]: row["bits"] for row in shown["strata"]}
    assert sizes == {
        "unknown.sign": 50,
        "unknown.exponent": 8 * 50,
        "unknown.mantissa": 23 * 50,
        "unknown.any": 8 * stored,
    }
    assert shown["eligible_bits"] == sum(sizes.values())
    kinds = {fault["structure"].split(" of ")[0].rstrip("0123456789 ") for fault in shown["faults"]}
    assert kinds == {"raw chunk", "raw data, contiguous"}
    for fault in shown["faults"]:
        assert fault["stratum_bits"] == sum(
            sizes[f"unknown.{name}"] for name in fault["stratum"].removeprefix("unknown.").split("+")
        )
        assert (fault["dtype"] == "uint8") == (fault["stratum"] == "unknown.any")
    rate = run_json("inject", path, "--dry-run", "--plane", "storage", "--ber", 1, "--seed", 2)
    assert sum(len(fault["bits"]) for fault in rate["faults"]) == shown["eligible_bits"]


REFUSED = [
    (["--bits", "exponent"], "have no bit fields (--bits exponent)"),
    (["--bits", "0-3"], "have no bit fields (--bits 0-3)"),
    (["--what", "nan"], "can be flipped only (--what nan)"),
    (["--what", "zero"], "can be flipped only (--what zero)"),
    (["--what", "burst", "--length", 2], "can be flipped only (--what burst)"),
    (["--what", "stuck-at-0"], "can be flipped only (--what stuck-at-0)"),
    (["--no-nan"], "have no NaN to forbid"),
    (["--keep-sign"], "have no sign to keep"),
]


@pytest.mark.parametrize(("words", "says"), REFUSED)
def test_what_stored_bytes_do_not_have_is_refused_by_name(tmp_path: Path, words: list, says: str) -> None:
    path = packed(tmp_path / "p.h5", "gzip")
    line = refused("inject", path, "-o", tmp_path / "o.h5", "--plane", "storage", *words, says=says)
    assert "net/w is stored through filters" in line
    assert not (tmp_path / "o.h5").exists()
    run("inject", path, "-o", tmp_path / "o.h5", "--plane", "storage", "--tensor", "plain", *words)


def test_parts_of_a_filtered_dataset_are_targeted_together(tmp_path: Path) -> None:
    path = tmp_path / "c.h5"
    rows = np.zeros(300, [("a", "<f4"), ("b", "<i2"), ("s", "S3")])
    rows["a"] = values((300,))
    with h5py.File(path, "w") as file:
        file.create_dataset("t", data=rows, chunks=(100,), compression="gzip")
    stored = sum(map(len, chunks_of(path, "t").values()))
    storage = ["--plane", "storage", "--seed", 1]
    line = refused("inject", path, "--dry-run", *storage, "--tensor", "t:a", says="hold all of its parts")
    assert "choose t:b too" in line
    for choice in (["--tensor", "t"], ["--tensor", "t:a", "--tensor", "t:b"]):
        out, manifest = tmp_path / "o.h5", tmp_path / "m.json"
        run("inject", path, "-o", out, *storage, *choice, "--count", 9, "--manifest", manifest)
        document = json.loads(manifest.read_text())
        assert document["eligible_bits"] == 8 * stored
        assert {fault["tensor"] for fault in document["faults"]} == {"t"}
        assert {row["path"] for row in document["tensors"]} == {"t:a", "t:b", "t:s"}
        run("inject", path, "-o", tmp_path / "again.h5", "--replay", manifest)
        assert (tmp_path / "again.h5").read_bytes() == out.read_bytes()


def test_a_byte_that_is_in_no_chunk_is_refused(tmp_path: Path) -> None:
    path, manifest, out = packed(tmp_path / "p.h5", "gzip"), tmp_path / "m.json", tmp_path / "o.h5"
    run("inject", path, "-o", out, "--plane", "storage", "--tensor", "net/w", "--manifest", manifest)
    good = json.loads(manifest.read_text())
    out.unlink()

    def replay(says: str, **change: object) -> None:
        bad = json.loads(json.dumps(good))
        bad["faults"][0].update(change)
        manifest.write_text(json.dumps(bad))
        refused("inject", path, "-o", out, "--replay", manifest, "--force", says=says)
        assert not out.exists()

    first = good["faults"][0]
    outside = max(place for chunk in chunks_of(path, "net/w").values() for place in chunk) + 1
    replay("is not in a chunk of net/w", element=0)
    replay("is not in a chunk of net/w", element=outside)
    replay("is not in a chunk of net/w", element=2**60)
    replay("plain has no chunks with filters", tensor="plain")
    replay("has no tensor none", tensor="none")
    replay("holds", old=f"0x{int(first['old'], 16) ^ 1:02x}", new=f"0x{int(first['new'], 16) ^ 1:02x}")
    replay("a byte of the file is uint8", dtype="float32")
    replay("bytes of its chunks, not its values", structure="raw data, chunk", element=0, dtype="float32")


@pytest.mark.parametrize("what", ["compact", "@note"])
def test_what_a_checksum_of_hdf5_covers_is_altered_and_the_checksum_stays(tmp_path: Path, what: str) -> None:
    """A new object header ends in a checksum, which h5py looks at: at the plane value it follows, here it stays."""
    path, out = tmp_path / "c.h5", tmp_path / "o.h5"
    with h5py.File(path, "w", libver="latest") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        dataset = h5py.h5d.create(file.id, b"compact", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((8,)), plist)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ones(8, "<f4"))
        file["compact"].attrs["note"] = np.ones(8, "<f4")
    name = {"compact": "compact", "@note": "compact@note"}[what]

    def read() -> np.ndarray:
        with h5py.File(out) as file:
            return file["compact"].attrs["note"] if "@" in name else file["compact"][()]

    before = path.read_bytes()
    call = ["inject", path, "-o", out, "--tensor", name, "--bits", "mantissa", "--seed", 3]
    (fault,) = run_json(*call, "--plane", "storage")["faults"]
    assert fault["structure"] == {"compact": "raw data, compact", "@note": "attribute value"}[what]
    assert len(changed_bytes(before, out.read_bytes())) == 1
    with pytest.raises((OSError, KeyError, RuntimeError)):
        read()
    (value,) = run_json(*call)["faults"]
    assert (value["element"], value["new"]) == (fault["element"], fault["new"])
    assert 2 <= len(changed_bytes(before, out.read_bytes())) <= 5
    assert (read().view("<u4") ^ np.ones(8, "<f4").view("<u4")).nonzero()[0].tolist() == [fault["element"]]
    run("inject", path, "--in-place", "--tensor", name, "--plane", "storage", "--count", 100)
    run("undo", path)
    assert path.read_bytes() == before
