"""Holds what bitrift says of an HDF5 file, and does to it, against what libhdf5 says (hdf5_witness.py)."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import hdf5plugin
import numpy as np
from h5py import h5t
from hdf5_witness import Holder, Look, Unit, look_at, write_plain
from random_hdf5_types import Chance

BITRIFT = Path(os.environ["BITRIFT_BIN_DIR"]).resolve() / "bitrift"
ENVIRONMENT = {**os.environ, "HDF5_PLUGIN_PATH": hdf5plugin.PLUGIN_PATH}

# Files that docs/reading-hdf5.md says are refused, and the feature that makes one of them so.
REFUSED_FILES = {
    "file of several pieces": r"is one piece of a file that HDF5's driver \w+ keeps in several",
    "group with filters": r"fractal heap at byte \d+ has filters, which bitrift does not undo",
}
# Faults that docs/faults.md says are refused, though the tensor can be altered.
LIMITS = {
    "a type newer than the library": r"datatype that HDF5 1\.\d+\.\d+ cannot read",
    "parameters of plugins": r"filter \d+ \(\w+\) of this machine would code with other parameters than the file's",
}
OWN_FILTERS = {1, 2, 3, 32000}
FIRST_PLUGIN = 256
LOSSY = "its filters do not keep every value"
NO_ROOM = "lists of its free space"


class Divergence(Exception):
    """bitrift and libhdf5 disagree."""


def expect(holds: bool, text: object) -> None:
    if not holds:
        raise Divergence(str(text))


def call(*arguments: object, codes: Sequence[int] = (0,)) -> subprocess.CompletedProcess[str]:
    """Runs bitrift. Any exit code but those of `codes` is a divergence, and so is a refusal of more than one line."""
    command = [str(BITRIFT), *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=ENVIRONMENT)
    except subprocess.TimeoutExpired:
        raise Divergence(f"{command[1:]} took more than 30 seconds") from None
    expect(done.returncode in codes, f"{command[1:]} ended with {done.returncode}: {done.stderr.strip()[:400]}")
    if done.returncode == 2:
        expect((done.stdout, done.stderr.count("\n")) == ("", 1), f"no refusal in one line: {done.stderr[:400]!r}")
    return done


def refused_as_documented(path: Path, seen: Counter[str]) -> bool:
    """Whether bitrift refuses to list the file, for a reason that the documents name and that the file has."""
    done = call("ls", path, codes=(0, 2))
    if done.returncode == 0:
        return False
    reasons = [name for name, pattern in REFUSED_FILES.items() if seen[name] and re.search(pattern, done.stderr)]
    expect(bool(reasons), f"ls refuses the file: {done.stderr.strip()}")
    seen[f"refused by bitrift: {reasons[0]}"] += 1
    return True


def refusal_of(holder: Holder, unit: Unit) -> str:
    """How the reason begins that `ls` has to give; "" where the tensor can be altered."""
    if holder.refusal:
        return holder.refusal
    if 0 in unit.shape:
        return "it has no elements"
    return "" if unit.number else f"its type ({unit.dtype}) is not a number format"


def row_of(holder: Holder, unit: Unit, found: dict[str, Any]) -> dict[str, Any]:
    """The row that `ls --json` has to print. The place of values of variable length is left open."""
    refusal = refusal_of(holder, unit)
    row: dict[str, Any] = {
        "path": unit.path,
        "dtype": unit.dtype,
        "shape": list(unit.shape),
        "elements": int(np.prod(unit.shape, dtype=object)),
        "storage": holder.storage + ("+filters" if holder.filters else ""),
        "bytes": holder.stored,
        **{key: found[key] for key in ("role", "layer") if key in found},
        "alterable": not refusal,
    }
    if unit.number:
        row["byte_order"] = "big" if unit.big else "little"
    if refusal:
        row["refusal"] = found.get("refusal") if found.get("refusal", "").startswith(refusal) else refusal
    whole = holder.raw is None or len(unit.starts) * unit.size == holder.raw.shape[1]
    if holder.offset is not None and len(holder.units) == 1 and whole:
        row["offset"] = holder.offset
    return row


def alias_units(look: Look, holders: list[Holder]) -> Iterator[tuple[str, str, Holder]]:
    """The tensors under further names of their datasets, each with the name that counts."""
    for alias, primary in look.aliases.items():
        for holder in holders:
            if holder.path == primary or holder.path.startswith(primary + "@"):
                for unit in holder.units:
                    yield alias + unit.path.removeprefix(primary), unit.path, holder


def compare_list(path: Path, look: Look) -> None:
    """Path, type, shape, byte order, storage, stored bytes, place and refusal of every tensor."""
    listed = json.loads(call("ls", path, "--json").stdout)["tensors"]
    found = {row["path"]: row for row in listed}
    expected = {unit.path: (holder, unit) for holder in look.datasets for unit in holder.units}
    primaries = {alias: name for alias, name, _ in alias_units(look, look.datasets)}
    expected |= {alias: expected[name] for alias, name in primaries.items()}
    expect(len(found) == len(listed), "a path is listed twice")
    differing = sorted(set(found) ^ set(expected))
    expect(not differing, f"listed by one alone: {differing[:5]}")
    for name, (holder, unit) in expected.items():
        row = row_of(holder, unit, found[name])
        if name in primaries:
            row |= {"path": name, "alias_of": primaries[name]}
        if found[name] != row:
            pairs = {key: (found[name].get(key), row.get(key)) for key in {*found[name], *row}}
            raise Divergence(f"{name!r}: { ({key: pair for key, pair in pairs.items() if pair[0] != pair[1]}) }")


def newest_version(kind: h5t.TypeID) -> bool:
    """Whether the type's message has a version above 3, which HDF5 1.10 does not read."""
    return kind.encode()[2] >> 4 > 3


def limit_of(holder: Holder, text: str, seen: Counter[str]) -> bool:
    """Whether a text is that of a documented limit of `bitrift-hdf5`, and the dataset is of such a kind."""
    plugins = sum(number >= FIRST_PLUGIN and number not in OWN_FILTERS for number in holder.filters)
    foreign = set(holder.filters) - OWN_FILTERS
    holds = {
        "a type newer than the library": foreign and newest_version(holder.kind),
        "parameters of plugins": plugins > 1,
    }
    for name, pattern in LIMITS.items():
        if holds[name] and re.search(pattern, text):
            seen[f"refused by bitrift-hdf5: {name}"] += 1
            return True
    return False


def alter_one_bit(unit: Unit, raw: np.ndarray, chance: Chance) -> int:
    """Inverts a bit of one element in `raw`. Returns the element's number."""
    element = chance.between(0, raw.shape[0] * len(unit.starts) - 1)
    row, part = divmod(element, len(unit.starts))
    raw[row, unit.starts[part] + chance.between(0, unit.size - 1)] ^= 1 << chance.between(0, 7)
    return element


def compare_values(path: Path, look: Look, chance: Chance, seen: Counter[str]) -> None:
    """All values, datasets' and attributes': `diff` against a plain file with one altered bit in many tensors."""
    expected: dict[str, tuple[str, int, int, int]] = {}
    altered: dict[str, np.ndarray] = {}
    for holder in look.datasets + look.attributes:
        text = holder.storage == "attribute" and holder.shape == ()
        for unit in holder.units:
            readable = holder.raw is not None and holder.raw.size > 0
            if text and unit.path == holder.path and unit.dtype in ("string", "variable-length string"):
                continue
            if holder.storage == "virtual" or not unit.plain:
                expected[unit.path] = ("not_compared", 0, 0, 0)
            elif readable and not chance.one_in(4):
                assert holder.raw is not None
                raw = altered.setdefault(holder.path, holder.raw.copy())
                expected[unit.path] = ("values", 1, 1, alter_one_bit(unit, raw, chance))
    beyond = {unit.path: holder for holder in look.datasets for unit in holder.units}
    for alias, name, holder in list(alias_units(look, look.datasets + look.attributes)):
        beyond[alias] = holder
        if name in expected:
            expected[alias] = expected[name]
    plain = path.with_suffix(".plain")
    write_plain(plain, look, altered)
    done = call("diff", path, plain, "--json", codes=(1,) if expected else (0,))
    found = {row["path"]: row for row in json.loads(done.stdout)["differences"]}
    for name in sorted({*found, *expected}):
        row = found.get(name, {})
        if row.get("kind") == "not_compared" and name in beyond and limit_of(beyond[name], row["detail"], seen):
            continue
        told = (row.get("kind"), row.get("elements"), row.get("bits"), row.get("first_element", 0))
        expect(told == expected.get(name), f"{name!r}: diff finds {row}, not {expected.get(name)}")


def compare_places(path: Path, look: Look, chance: Chance) -> None:
    """Which bytes hold values, which hold structures, and whose they are."""
    seed = chance.between(0, 1 << 30)
    drawn = json.loads(
        call("inject", path, "--dry-run", "--json", "--plane", "metadata", "--count", 25, "--seed", seed).stdout
    )
    others = path.stat().st_size - look.raw_bytes
    expect(drawn["eligible_elements"] == others, f"{drawn['eligible_elements']} bytes hold no values, not {others}")
    for fault in drawn["faults"]:
        place, structure = fault["element"], fault["structure"]
        owners = [holder.path for holder in look.datasets if any(place in one for one in holder.ranges)]
        expect(not owners, f"byte {place} is called {structure}, but holds values of {owners}")
        expect((structure == "user block") == (place < look.user_block), f"byte {place} is called {structure}")
        kind, _, owner = structure.partition(" of ")
        if kind == "object header" and owner in look.headers:
            first, size = look.headers[owner]
            expect(first <= place < first + size, f"byte {place} is called {structure}, which is {first} + {size}")
    filtered = [
        holder
        for holder in look.datasets
        if holder.filters and holder.chunks and not any(refusal_of(holder, unit) for unit in holder.units)
    ]
    if not filtered:
        return
    holder = chance.pick(filtered)
    count = min(10, 8 * holder.stored)
    whole = ["--plane", "storage", "--tensor", holder.path, "--count", count, "--seed", seed]
    for fault in json.loads(call("inject", path, "--dry-run", "--json", *whole).stdout)["faults"]:
        cell, _, owner = fault["structure"].removeprefix("raw chunk ").partition(" of ")
        places = holder.chunks.get(int(cell), [])
        right = owner == "/" + holder.path and any(fault["element"] in place for place in places)
        expect(right, f"byte {fault['element']} is called {fault['structure']}, which is in {places}")


def apply(fault: dict[str, Any], units: dict[str, Unit], raws: dict[str, np.ndarray], owner: dict[str, str]) -> None:
    unit = units[fault["tensor"]]
    row, part = divmod(fault["element"], len(unit.starts))
    for bit in fault["bits"]:
        byte, within = divmod(bit + unit.low_bit, 8)
        place = unit.size - 1 - byte if unit.big else byte
        raws[owner[unit.path]][row, unit.starts[part] + place] ^= 1 << within


def same_values(look: Look, raws: dict[str, np.ndarray], after: Look) -> None:
    expect([one.path for one in look.datasets] == [one.path for one in after.datasets], "other datasets are there")
    for old, new in zip(look.datasets + look.attributes, after.datasets + after.attributes, strict=True):
        expect((old.path, old.shape, old.text) == (new.path, new.shape, new.text), f"{old.path!r} became another")
        wanted = raws.get(old.path, old.raw)
        for unit in old.units:
            if unit.plain and wanted is not None and new.raw is not None:
                same = np.array_equal(unit.elements(wanted), unit.elements(new.raw))
                expect(same, f"{unit.path!r}: libhdf5 reads other values than the altered ones")


def compare_injection(path: Path, look: Look, chance: Chance, seen: Counter[str]) -> None:
    """libhdf5 reads the altered bits and nothing else; `undo` gives the same bytes."""
    able = [
        (holder, unit)
        for holder in look.datasets
        for unit in holder.units
        if holder.raw is not None and not refusal_of(holder, unit)
    ]
    if not able:
        return
    chosen = [chance.pick(able) for _ in range(chance.between(1, 3))]
    most = sum(int(np.prod(unit.shape, dtype=object)) for unit in {unit.path: unit for _, unit in chosen}.values())
    before = path.read_bytes()
    globs = [word for _, unit in chosen for word in ("--tensor", unit.path)]
    amount = ["--count", chance.between(1, min(most, 5)), "--seed", chance.between(0, 1 << 30)]
    done = call("inject", path, "--in-place", "--json", *globs, *amount, codes=(0, 2))
    if done.returncode == 2:
        lossy = LOSSY in done.stderr and any(holder.filters for holder, _ in chosen)
        limited = any(limit_of(holder, done.stderr, seen) for holder, _ in chosen)
        no_room = NO_ROOM in done.stderr and look.persistent
        expect(lossy or limited or no_room, f"inject refuses: {done.stderr.strip()}")
        expect(path.read_bytes() == before, "a refused injection altered the file")
        seen["injection refused: " + (LOSSY if lossy else NO_ROOM if no_room else "a limit of bitrift-hdf5")] += 1
        return
    units = {unit.path: unit for holder in look.datasets for unit in holder.units}
    owner = {unit.path: holder.path for holder in look.datasets for unit in holder.units}
    raws = {holder.path: holder.raw.copy() for holder, _ in chosen if holder.raw is not None}
    for fault in json.loads(done.stdout)["faults"]:
        apply(fault, units, raws, owner)
    same_values(look, raws, look_at(path))
    call("undo", path)
    expect(path.read_bytes() == before, "undo gives other bytes")
    seen["injected and taken back"] += 1


def compare(path: Path, seed: int, seen: Counter[str]) -> None:
    """Raises Divergence for the first thing that bitrift and libhdf5 see differently."""
    if seen["file of several pieces"]:
        expect(refused_as_documented(path, seen), "a piece of a file is read as if it were whole")
        return
    try:
        look = look_at(path)
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        call("ls", path, codes=(0, 2))
        seen["unreadable for libhdf5"] += 1
        seen[f"unreadable for libhdf5: {str(error)[:120]}"] += 1
        return
    if refused_as_documented(path, seen):
        return
    chance = Chance(seed)
    seen["tensors"] += sum(len(holder.units) for holder in look.datasets)
    seen["attributes compared"] += len(look.attributes)
    compare_list(path, look)
    compare_values(path, look, chance, seen)
    compare_places(path, look, chance)
    compare_injection(path, look, chance, seen)
    seen["files compared"] += 1
