"""Random formats, layouts and filters: exactly the asked bits differ, h5py reads everything else as before."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from inject_support import run, run_json

NUMBERS = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
LIBVERS: list = ["earliest", ("v108", "v108"), ("v110", "v110"), ("v112", "v112")]
SCENARIOS = 300
BATCH = 30


def compound() -> np.dtype:
    return np.dtype([("a", "<f4"), ("pad", "V3"), ("b", ">i2", (2,)), ("c", [("x", "<f8"), ("y", "<u1")])])


def choose_type(pick: random.Random) -> np.dtype:
    kind = pick.random()
    if kind < 0.7:
        return np.dtype(pick.choice("<>") + pick.choice(NUMBERS))
    if kind < 0.8:
        return np.dtype(pick.choice(["<c8", ">c8", "<c16", ">c16"]))
    if kind < 0.9:
        return np.dtype((pick.choice(["<f4", ">i4"]), (pick.randint(1, 3),)))
    return compound()


def choose_storage(pick: random.Random, shape: tuple[int, ...], dtype: np.dtype, name: str) -> dict:
    """What create_dataset takes; every kind of chunk index comes up by the file's version and the limits."""
    options: dict = {}
    if pick.random() < 0.2:
        return options
    options["chunks"] = tuple(pick.randint(1, n) for n in shape)
    limits = pick.choice(["none", "one", "all"])
    if limits == "one":
        at = pick.randrange(len(shape))
        options["maxshape"] = tuple(None if i == at else n for i, n in enumerate(shape))
    elif limits == "all":
        options["maxshape"] = (None,) * len(shape)
    kind = pick.choice(["", "gzip", "gzip", "lzf", "szip"])
    if kind == "szip" and (dtype.kind not in "iuf" or dtype.shape or "szip" not in h5py.filters.encode):
        kind = ""
    if kind == "szip":
        # The values of a chunk must fill at least one block of 8.
        options["chunks"] = shape if np.prod(shape) >= 8 else None
        kind = kind if np.prod(shape) >= 8 else ""
        if not kind:
            del options["chunks"]
            options.pop("maxshape", None)
            return options
        options["compression_opts"] = ("nn", 8)
    if kind:
        options["compression"] = kind
    options["shuffle"] = kind != "szip" and pick.random() < 0.5
    options["fletcher32"] = kind != "szip" and pick.random() < 0.4
    return options


def random_values(pick: random.Random, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    count = int(np.prod(shape, dtype=int)) * dtype.itemsize
    seed = np.random.default_rng(pick.randrange(2**32))
    raw = seed.integers(0, 256, count, dtype="u1") if pick.random() < 0.5 else np.full(count, 63, "u1")
    if dtype.shape:
        return raw.view(dtype.base).reshape(shape + dtype.shape)
    return raw.view(dtype).reshape(shape)


def make_file(path: Path, pick: random.Random) -> None:
    with h5py.File(path, "w", libver=pick.choice(LIBVERS), userblock_size=pick.choice([0, 0, 512, 2048])) as file:
        for index in range(3):
            dtype = choose_type(pick)
            shape = tuple(pick.randint(1, 9) for _ in range(pick.randint(1, 4)))
            name = f"group{index % 2}/data{index}"
            storage = choose_storage(pick, shape, dtype, name)
            values = random_values(pick, shape, dtype)
            if pick.random() < 0.15 and not storage and values.nbytes < 60000:
                plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                plist.set_layout(h5py.h5d.COMPACT)
                space = h5py.h5s.create_simple(shape)
                group = file.require_group(name.rpartition("/")[0])
                kind = h5py.h5t.py_create(dtype, logical=True)
                made = h5py.h5d.create(group.id, name.rpartition("/")[2].encode(), kind, space, plist)
                h5py.Dataset(made)[...] = values
            else:
                made = file.create_dataset(name, shape, dtype, **storage)
                made[...] = values
            file[name].attrs["numbers"] = values.ravel()[:3].astype(dtype.base) if dtype.names is None else 1.5


def raw_values(path: Path) -> dict[str, np.ndarray]:
    """Every value of the file as bytes, an element a row, and the attributes."""
    found = {}
    with h5py.File(path, "r") as file:

        def visit(name: str, item: object) -> None:
            if isinstance(item, h5py.Dataset):
                found[name] = np.ascontiguousarray(item[()])
            for key, value in item.attrs.items():  # type: ignore[attr-defined]
                found[f"{name}@{key}"] = np.ascontiguousarray(value)

        file.visititems(visit)
    return found


def part_of(values: dict[str, np.ndarray], tensor: str) -> np.ndarray:
    """The numbers of a tensor as a flat array that shares memory with the values."""
    name, _, member = tensor.partition(":")
    array = values[name]
    if array.dtype.kind == "c":
        return (array.real if member == "real" else array.imag).reshape(-1)
    for field in member.split(".") if member else []:
        array = array[field]
    return array


def pattern_of(number: np.ndarray) -> int:
    native = number.astype(number.dtype.newbyteorder("<"))
    return int.from_bytes(native.tobytes(), "little")


def check(before: dict, after: dict, faults: list[dict]) -> None:
    """Exactly the named elements differ, from the named old pattern to the named new one."""
    assert before.keys() == after.keys()
    places: dict[str, set[int]] = {}
    for fault in faults:
        old = part_of(before, fault["tensor"])
        new = part_of(after, fault["tensor"])
        index = np.unravel_index(fault["element"], old.shape)
        assert pattern_of(old[index]) == int(fault["old"], 16), fault
        assert pattern_of(new[index]) == int(fault["new"], 16), fault
        assert int(fault["old"], 16) ^ int(fault["new"], 16) == sum(1 << bit for bit in fault["bits"])
        places.setdefault(fault["tensor"].partition(":")[0], set())
    for name, old in before.items():
        new = after[name]
        same = old.tobytes() == new.tobytes()
        assert same == (name not in places), name
    total = 0
    for name in places:
        a = np.frombuffer(before[name].tobytes(), "u1")
        b = np.frombuffer(after[name].tobytes(), "u1")
        total += int(np.unpackbits(a ^ b).sum())
    assert total == sum(len(fault["bits"]) for fault in faults)


@pytest.mark.parametrize(
    "batch", [pytest.param(one, marks=[pytest.mark.thorough] * (one > 3)) for one in range(SCENARIOS // BATCH)]
)
def test_exactly_the_asked_bits_differ(tmp_path: Path, batch: int) -> None:
    for scenario in range(batch * BATCH, (batch + 1) * BATCH):
        pick = random.Random(scenario)
        path, out = tmp_path / "in.h5", tmp_path / "out.h5"
        make_file(path, pick)
        original = path.read_bytes()
        before = raw_values(path)
        alterable = [t["path"] for t in run_json("ls", path)["tensors"] if t["alterable"]]
        names = {tensor.partition(":")[0] for tensor in alterable}
        target = pick.choice(
            ["**", *sorted(names), *sorted(n for n in before if "@" in n and before[n].dtype.names is None)]
        )
        if target == "**":
            choice = [word for name in alterable for word in ("--tensor", name)]
        else:
            choice = ["--tensor", target.replace("[", "?")]
        bits, count = pick.choice([("any", pick.randint(1, 8)), ("0", 1)])
        amount = ["--count", count, "--seed", scenario, "--bits", bits]
        manifest = tmp_path / "manifest.json"
        run("inject", path, "-o", out, *choice, *amount, "--manifest", manifest)
        assert path.read_bytes() == original
        faults = json.loads(manifest.read_text())["faults"]
        check(before, raw_values(out), faults)
        # In place the same bytes come out, and undo gives the old ones back.
        twin = tmp_path / "twin.h5"
        shutil.copy(path, twin)
        run("inject", twin, "--in-place", *choice, *amount)
        assert twin.read_bytes() == out.read_bytes()
        run("undo", twin)
        assert twin.read_bytes() == original, scenario
        # The manifest gives them once more.
        again = tmp_path / "again.h5"
        run("inject", path, "-o", again, "--replay", manifest)
        assert again.read_bytes() == out.read_bytes()
        if pick.random() < 0.1:
            run("diff", path, out, code=1)


def test_szip_is_there() -> None:
    """Without it the scenarios above would leave it out."""
    assert "szip" in h5py.filters.encode


def test_arrays_of_compounds_arrays_and_complex_numbers(tmp_path: Path) -> None:
    path, out, manifest = tmp_path / "in.h5", tmp_path / "out.h5", tmp_path / "m.json"
    inner = np.dtype([("x", ">f4"), ("pad", "V3"), ("y", "<i2", (2,))])
    dtype = np.dtype([("n", "u1"), ("parts", inner, (2, 3)), ("wave", "<c8", (4,))])
    values = np.frombuffer(np.random.default_rng(1).bytes(5 * dtype.itemsize), dtype)
    with h5py.File(path, "w") as file:
        file["rows"] = values
    shapes = {t["path"]: t["shape"] for t in run_json("ls", path)["tensors"] if t["alterable"]}
    assert shapes == {
        "rows:n": [5],
        "rows:parts.x": [5, 2, 3],
        "rows:parts.y": [5, 2, 3, 2],
        "rows:wave.imag": [5, 4],
        "rows:wave.real": [5, 4],
    }
    for name in shapes:
        run("inject", path, "-o", out, "--tensor", name, "--fraction", 1, "--seed", 3, "--manifest", manifest)
        faults = json.loads(manifest.read_text())["faults"]
        assert len(faults) == np.prod(shapes[name])
        with h5py.File(out) as file:
            before, after = values.copy(), file["rows"][()]
        for part in name.partition(":")[2].split("."):
            before, after = (
                (a.real if part == "real" else a.imag) if a.dtype.kind == "c" else a[part] for a in (before, after)
            )
        for fault in faults:
            index = np.unravel_index(fault["element"], before.shape)
            assert pattern_of(before[index]) == int(fault["old"], 16)
            assert pattern_of(after[index]) == int(fault["new"], 16)
        total = np.unpackbits(np.frombuffer(path.read_bytes(), "u1") ^ np.frombuffer(out.read_bytes(), "u1")).sum()
        assert total == len(faults)


def test_only_an_enumeration_of_false_and_true_is_a_truth_value(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        file["switch"] = np.array([True])
        for name, names in {"colour": {"red": 0, "green": 1}, "inverse": {"TRUE": 0, "FALSE": 1}}.items():
            file[name] = np.array([0], dtype=h5py.enum_dtype(names, "u1"))
    kinds = {t["path"]: t["dtype"] for t in run_json("ls", path)["tensors"]}
    assert kinds == {"switch": "bool", "colour": "enum", "inverse": "enum"}
    assert run_json("inject", path, "--dry-run", "--tensor", "colour")["eligible_bits"] == 8
