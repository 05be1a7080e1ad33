"""The command lines of ls, diff and doctor, against h5py and numpy."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import h5py
import inject_support as support
import numpy as np
import pytest
from inject_support import BITRIFT, run, run_json


@pytest.fixture(scope="module")
def formats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return support.every_format(tmp_path_factory.mktemp("formats") / "formats.h5")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return support.model_file(tmp_path / "model.h5")


def test_ls_agrees_with_h5py(model: Path, formats: Path) -> None:
    for path in (model, formats):
        rows = {row["path"]: row for row in run_json("ls", path)["tensors"]}
        found = {}
        with h5py.File(path) as file:
            file.visititems(
                lambda name, item, f=found: f.update({name: item}) if isinstance(item, h5py.Dataset) else None
            )
            assert sorted(found) == list(rows)
            for name, item in found.items():
                assert rows[name]["shape"] == list(item.shape)
                assert rows[name]["bytes"] == item.id.get_storage_size()
                assert rows[name]["offset"] == item.id.get_offset()
                if not name.startswith(("bf16", "checksum")):
                    assert rows[name]["dtype"] == item.dtype.newbyteorder("=").name
    roles = {row["path"]: row["role"] for row in run_json("ls", model)["tensors"]}
    assert roles["model/bn.weight"] == "norm"
    assert roles["model/bn.num_batches_tracked"] == "running_stat"
    assert roles["optimizer/momentum_buffer/conv1.weight"] == "momentum"
    assert "model/conv1.weight" in run("ls", model).stdout


def test_diff_counts_what_numpy_counts(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    assert run_json("diff", model, model)["differences"] == []
    run("inject", model, "-o", out, "--tensor", "model/conv1.weight", "--count", 60, "--seed", 4)
    rows = {row["path"]: row for row in run_json("diff", model, out, code=1)["differences"]}
    with h5py.File(model) as a, h5py.File(out) as b:
        x = (a["model/conv1.weight"][()].view("u4") ^ b["model/conv1.weight"][()].view("u4")).ravel()
    assert rows["model/conv1.weight"]["bits"] == np.bitwise_count(x).sum() == 60
    assert rows["model/conv1.weight"]["elements"] == np.count_nonzero(x)
    assert rows["model/conv1.weight"]["first_element"] == np.flatnonzero(x)[0]
    assert set(rows) == {"model/conv1.weight", "checksum/crc32c"}
    told = run("diff", model, out, code=1).stdout.splitlines()[-1]
    elements = rows["model/conv1.weight"]["elements"]
    assert told == f"1 tensor differs: {elements} elements, 60 bits; stored checksums are not counted"


def test_diff_of_a_file_and_itself_finds_nothing_even_in_what_it_cannot_compare(tmp_path: Path) -> None:
    for name, text in (("a.h5", "one"), ("b.h5", "two")):
        with h5py.File(tmp_path / name, "w") as file:
            file["names"] = ["first", text]
            file["w.weight"] = np.ones(4, np.float32)
    assert run("diff", tmp_path / "a.h5", tmp_path / "a.h5").stdout == "no tensor differs\n"
    (row,) = run_json("diff", tmp_path / "a.h5", tmp_path / "b.h5", code=1)["differences"]
    assert (row["path"], row["kind"]) == ("names", "not_compared")


def test_diff_sees_values_not_storage(tmp_path: Path) -> None:
    one, two = tmp_path / "1.h5", tmp_path / "2.h5"
    data = np.arange(1000, dtype="<f4")
    with h5py.File(one, "w") as a, h5py.File(two, "w") as b:
        a["w"] = data
        b.create_dataset("w", data=data.astype(">f4"), chunks=(100,), compression="gzip", shuffle=True)
    run("diff", one, two)
    with h5py.File(two, "r+") as b:
        b["w"][7] = np.nan
        b["more"] = np.ones(3)
        b.attrs["spec"] = "x"
    with h5py.File(one, "r+") as a:
        a["shape"] = np.ones((2, 3))
        a["text"] = "abc"
    with h5py.File(two, "r+") as b:
        b["shape"] = np.ones((3, 2))
        b["text"] = "abc"
    rows = {row["path"]: row for row in run_json("diff", one, two, code=1)["differences"]}
    assert {name: row["kind"] for name, row in rows.items()} == {
        "@spec": "only_in_second",
        "more": "only_in_second",
        "shape": "shape",
        "text": "not_compared",
        "w": "values",
    }
    assert (rows["w"]["elements"], rows["w"]["first_element"]) == (1, 7)


def test_texts_are_of_one_type_whatever_the_size_of_addresses(tmp_path: Path) -> None:
    for name, size in (("1.h5", 8), ("2.h5", 4)):
        creation = h5py.h5p.create(h5py.h5p.FILE_CREATE)
        creation.set_sizes(size, size)
        with h5py.File(h5py.h5f.create(bytes(tmp_path / name), fcpl=creation)) as file:
            file["text"] = ["a", "bc"]
    rows = run_json("diff", tmp_path / "1.h5", tmp_path / "2.h5", code=1)["differences"]
    assert [(row["path"], row["kind"]) for row in rows] == [("text", "not_compared")]


def test_diff_of_large_chunked_tensors_reads_them_in_pieces(tmp_path: Path) -> None:
    shape = (7001, 2000)  # 53 MiB: more than one piece, the last row of the grid cut off
    values = np.tile(np.arange(2000, dtype="<f4"), (shape[0], 1))
    other = values.copy()
    for row, column in ((0, 0), (3499, 1999), (5600, 7), (7000, 1999)):
        other[row, column] += 1
    layouts: dict[str, dict] = {
        "tiles": {"chunks": (700, 300), "compression": "gzip", "compression_opts": 1},
        "bands": {"chunks": (999, 2000), "shuffle": True},
        "columns": {"chunks": (7001, 100), "compression": "lzf"},
        "plain": {},
    }
    for name, options in layouts.items():
        with h5py.File(tmp_path / name, "w") as file:
            file.create_dataset("w", data=other if name == "bands" else values, **options)
    with h5py.File(tmp_path / "tiles", "r+") as file:
        made = file.create_dataset("z", shape, "<f4", chunks=(700, 300), fillvalue=3)
        made[1400:1401, 5:6] = 4
    for name in layouts:
        found = run_json("diff", tmp_path / "bands", tmp_path / name, code=0 if name == "bands" else 1)["differences"]
        found = [row for row in found if row["path"] == "w"]
        if name == "bands":
            assert found == []
        else:
            assert [(row["elements"], row["first_element"]) for row in found] == [(4, 0)]
    with h5py.File(tmp_path / "tiles") as file, h5py.File(tmp_path / "whole", "w") as whole:
        whole["w"] = file["w"][()]
        whole["z"] = file["z"][()]
    assert run_json("diff", tmp_path / "tiles", tmp_path / "whole")["differences"] == []


def test_the_program_that_must_start_fast_links_neither_libtorch_nor_mpi() -> None:
    """What makes `ls` take milliseconds; bench/ls_start.py measures them."""
    linked = subprocess.run(["ldd", BITRIFT], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "libc.so" in linked
    assert not [name for name in ("libtorch", "libc10", "libmpi", "libopen-pal") if name in linked]


def test_doctor_says_what_is_here() -> None:
    done = subprocess.run([BITRIFT, "doctor", "--json"], capture_output=True, text=True, timeout=60, check=False)
    document = json.loads(done.stdout)
    assert done.returncode == (0 if document["complete"] else 1)
    findings = {entry["name"]: entry for entry in document["findings"]}
    assert findings["HDF5"]["found"].count(".") == 2
    assert all(entry["found"] or entry["remedy"] for entry in findings.values())


def linked(path: Path, link: bool) -> Path:
    """Two datasets with an attribute, or one with two names."""
    with h5py.File(path, "w") as file:
        file["a/vars/0"] = np.ones(4, "f4")
        file["a/vars/0"].attrs["unit"] = 3
        file["b/vars/0"] = file["a/vars/0"] if link else np.ones(4, "f4")
        file["b/vars/0"].attrs["unit"] = 3
    return path


def test_hard_link_is_listed_as_an_alias_and_counts_once(tmp_path: Path) -> None:
    file = linked(tmp_path / "linked.h5", True)
    first, second = run_json("ls", file)["tensors"]
    assert (first["path"], "alias_of" in first) == ("a/vars/0", False)
    assert (second["path"], second["alias_of"], second["offset"]) == ("b/vars/0", "a/vars/0", first["offset"])
    table = run("ls", file).stdout
    assert "contiguous, alias of a/vars/0" in table and "2 tensors, 16 bytes\n" in table
    assert run_json("inject", file, "--dry-run", "--bits", "sign")["eligible_bits"] == 4
    copied = linked(tmp_path / "copied.h5", False)
    assert run_json("inject", copied, "--dry-run", "--bits", "sign")["eligible_bits"] == 8


def test_files_that_read_as_equal_do_not_differ(tmp_path: Path) -> None:
    one, other = linked(tmp_path / "linked.h5", True), linked(tmp_path / "copied.h5", False)
    for pair in ((one, other), (other, one)):
        assert run("diff", *pair).stdout == "no tensor differs\n"


def test_injection_by_an_alias_alters_the_shared_bytes_and_says_so(tmp_path: Path) -> None:
    file, hurt = linked(tmp_path / "linked.h5", True), tmp_path / "hurt.h5"
    said = run("inject", file, "-o", hurt, "--tensor", "b/vars/0", "--element", 2, "--bits", "sign").stdout
    assert "b/vars/0 is an alias of a/vars/0: both are altered\n" in said
    with h5py.File(hurt) as altered:
        for name in ("a", "b"):
            assert altered[f"{name}/vars/0"][()].tolist() == [1, 1, -1, 1]
    document = run_json("inject", file, "--dry-run", "--tensor", "b/**", "--bits", "sign")
    assert document["aliases"] == {"b/vars/0": "a/vars/0"} and document["eligible_bits"] == 4
    assert "aliases" not in run_json("inject", file, "--dry-run", "--tensor", "**/vars/0", "--bits", "sign")
    assert [row["path"] for row in run_json("diff", file, hurt, code=1)["differences"]] == ["a/vars/0", "b/vars/0"]


def test_name_that_was_made_first_counts_where_the_group_keeps_that(tmp_path: Path) -> None:
    for count in (1, 30):  # links in the group's header, and in a heap
        for ordered in (True, False):
            path = tmp_path / f"{count}-{ordered}.h5"
            with h5py.File(path, "w") as file:
                group = file.create_group("model", track_order=ordered)
                group["z"] = np.zeros(2, "f4")
                for i in range(count):
                    group[f"a{i:02}"] = group["z"]
            rows = {row["path"]: row.get("alias_of") for row in run_json("ls", path)["tensors"]}
            first = "model/z" if ordered else "model/a00"
            assert len(rows) == count + 1 and rows.pop(first) is None and set(rows.values()) == {first}
