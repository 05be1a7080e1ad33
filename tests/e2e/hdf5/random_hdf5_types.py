"""Random datatypes of HDF5, of every class, and what h5py has no names for in the library that it has loaded."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import h5py
import numpy as np
from h5py import h5t

T = TypeVar("T")


class Library:
    """The HDF5 library behind h5py, by C name. Every argument is an integer; a pointer is its address."""

    def __init__(self) -> None:
        loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libhdf5" in line}
        self.c = ctypes.CDLL(next(name for name in loaded if "_hl" not in name))

    def call(self, name: str, *values: int) -> int:
        """Raises RuntimeError if the function returns a negative number."""
        function = getattr(self.c, name)
        function.argtypes = [ctypes.c_int64] * len(values)
        function.restype = ctypes.c_int
        result = int(function(*values))
        if result < 0:
            raise RuntimeError(f"{name}{values} failed")
        return result

    def standard_reference(self) -> h5t.TypeID:
        """H5T_STD_REF of HDF5 1.12, the only type whose message has version 4."""
        self.c.H5Tcopy.argtypes, self.c.H5Tcopy.restype = [ctypes.c_int64], ctypes.c_int64
        return h5t.TypeReferenceID(self.c.H5Tcopy(ctypes.c_int64.in_dll(self.c, "H5T_STD_REF_g").value))


LIBRARY = Library()


class Chance:
    """Random choices from a seed."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def one_in(self, n: float) -> bool:
        return bool(self.generator.random() * n < 1)

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self.generator.integers(len(options)))]

    def between(self, least: int, most: int) -> int:
        return int(self.generator.integers(least, most + 1))

    def raw(self, count: int, size: int) -> np.ndarray:
        """The bytes of `count` elements: noise, a few values, a ramp or zeros."""
        how = self.pick(["noise", "noise", "few", "ramp", "zero"])
        if how == "noise":
            return self.generator.integers(0, 256, (count, size), dtype="u1")
        if how == "few":
            return self.generator.integers(0, 256, (3, size), dtype="u1")[self.generator.integers(0, 3, count)]
        if how == "ramp":
            numbers = np.arange(count, dtype="<u8")[:, None].view("u1").reshape(count, 8)
            return np.ascontiguousarray(
                np.resize(np.tile(numbers, -(-size // 8)), (count, -(-size // 8) * 8))[:, :size]
            )
        return np.zeros((count, size), "u1")


def custom_float(base: h5t.TypeFloatID, size: int, fields: tuple[int, ...], bias: int) -> h5t.TypeID:
    kind = base.copy()
    kind.set_fields(*fields)
    kind.set_precision(max(fields[0] + 1, fields[1] + fields[2], fields[3] + fields[4]))
    kind.set_size(size)
    kind.set_ebias(bias)
    return kind


INTEGERS = [
    getattr(h5t, f"STD_{sign}{bits}{order}") for sign in "IU" for bits in (8, 16, 32, 64) for order in ("LE", "BE")
]
BITFIELDS = [getattr(h5t, f"STD_B{bits}{order}") for bits in (8, 16, 32, 64) for order in ("LE", "BE")]
FLOATS = [getattr(h5t, f"IEEE_F{bits}{order}") for bits in (16, 32, 64) for order in ("LE", "BE")]
SINGLES = [h5t.IEEE_F32LE, h5t.IEEE_F32BE]


class Types:
    """Makes types, and counts under `class ...` what it made."""

    def __init__(self, chance: Chance, seen: Counter[str], newest: bool) -> None:
        self.chance, self.seen, self.newest = chance, seen, newest

    def integer(self) -> h5t.TypeID:
        kind = self.chance.pick(INTEGERS).copy()
        if self.chance.one_in(6):
            kind.set_size(self.chance.pick([3, 5, 16]))
            kind.set_precision(8 * kind.get_size())
            self.seen["class integer of odd size"] += 1
        return self.padded(kind)

    def padded(self, kind: h5t.TypeID) -> h5t.TypeID:
        if self.chance.one_in(5):
            bits = 8 * kind.get_size()
            precision = self.chance.between(bits // 2 + 1, bits)  # HDF5 refuses to read more padding
            LIBRARY.call("H5Tset_precision", kind.id, precision)
            LIBRARY.call("H5Tset_offset", kind.id, self.chance.between(0, bits - precision))
            self.seen["class padded integer"] += 1
        return kind

    def bitfield(self) -> h5t.TypeID:
        return self.padded(self.chance.pick(BITFIELDS).copy())

    def float(self) -> h5t.TypeID:
        which = self.chance.pick(["ieee"] * 6 + ["bfloat16", "e5m2", "e4m3", "long double", "other"])
        self.seen[f"class float, {which}"] += 1
        base = self.chance.pick(SINGLES)
        if which == "bfloat16":
            return custom_float(base, 2, (15, 7, 8, 0, 7), 127)
        if which == "e5m2":
            return custom_float(base, 1, (7, 2, 5, 0, 2), 15)
        if which == "e4m3":
            return custom_float(base, 1, (7, 3, 4, 0, 3), 7)
        if which == "long double":
            return h5t.NATIVE_LDOUBLE.copy()
        if which == "other":
            mantissa, exponent = self.chance.between(10, 18), self.chance.between(6, 10)
            kind = custom_float(base, 4, (mantissa + exponent, mantissa, exponent, 0, mantissa), 3)
            kind.set_norm(self.chance.pick([h5t.NORM_IMPLIED, h5t.NORM_MSBSET, h5t.NORM_NONE]))
            return kind
        return self.chance.pick(FLOATS).copy()

    def string(self) -> h5t.TypeID:
        kind = h5t.C_S1.copy()
        kind.set_size(self.chance.between(1, 20))
        kind.set_strpad(self.chance.pick([h5t.STR_NULLTERM, h5t.STR_NULLPAD, h5t.STR_SPACEPAD]))
        kind.set_cset(self.chance.pick([h5t.CSET_ASCII, h5t.CSET_UTF8]))
        return kind

    def opaque(self) -> h5t.TypeID:
        kind = h5t.create(h5t.OPAQUE, self.chance.between(1, 9))
        kind.set_tag(self.chance.pick([b"", b"bytes", b"a tag of some length"]))
        return kind

    def enum(self) -> h5t.TypeID:
        base = self.chance.pick(INTEGERS)
        kind = h5t.enum_create(base)
        for number in range(self.chance.between(1, 6)):
            kind.enum_insert(f"name {number}".encode(), number * 3)
        return kind

    def boolean(self) -> h5t.TypeID:
        kind = h5t.enum_create(h5t.STD_I8LE)
        for number, name in enumerate([b"FALSE", b"TRUE"]):
            kind.enum_insert(name, number)
        return kind

    def time(self) -> h5t.TypeID:
        return self.chance.pick([h5t.UNIX_D32LE, h5t.UNIX_D32BE, h5t.UNIX_D64LE, h5t.UNIX_D64BE]).copy()

    def complex(self) -> h5t.TypeID:
        if self.newest and self.chance.one_in(2):
            self.seen["class native complex"] += 1
            names = [f"COMPLEX_IEEE_F{bits}{order}" for bits in (16, 32, 64) for order in ("LE", "BE")]
            return getattr(h5t, self.chance.pick(names)).copy()
        part = self.chance.pick(FLOATS)
        kind = h5t.create(h5t.COMPOUND, 2 * part.get_size())
        kind.insert(b"r", 0, part)
        kind.insert(b"i", part.get_size(), part)
        return kind

    def array(self, depth: int) -> h5t.TypeID:
        dimensions = tuple(self.chance.between(1, 3) for _ in range(self.chance.between(1, 3)))
        return h5t.array_create(self.any(depth + 1), dimensions)

    def compound(self, depth: int) -> h5t.TypeID:
        members = [self.any(depth + 1, whole=self.chance.one_in(8)) for _ in range(self.chance.between(1, 5))]
        gaps = [self.chance.pick([0, 0, 0, 1, 3, 300]) for _ in [*members, None]]
        kind = h5t.create(h5t.COMPOUND, sum(gaps) + sum(member.get_size() for member in members))
        at = 0
        for number, (gap, member) in enumerate(zip(gaps, members, strict=False)):
            kind.insert(self.chance.pick([f"m{number}", f"a longer name {number}"]).encode(), at + gap, member)
            at += gap + member.get_size()
        return kind

    def not_plain(self, depth: int) -> h5t.TypeID:
        which = self.chance.pick(["text", "sequence", "object", "region", "any reference"])
        self.seen[f"class of variable length or reference, {which}"] += 1
        if which == "text":
            kind = h5t.C_S1.copy()
            kind.set_size(h5t.VARIABLE)
            return kind
        if which == "sequence":
            return h5t.vlen_create(self.any(depth + 1))
        if which == "any reference" and self.newest:
            return LIBRARY.standard_reference()
        return (h5t.STD_REF_DSETREG if which == "region" else h5t.STD_REF_OBJ).copy()

    def any(self, depth: int = 0, whole: bool = False) -> h5t.TypeID:
        """A type. `whole`: it may have parts of variable length and references."""
        simple: list[tuple[str, Callable[[], Any]]] = [
            ("integer", self.integer),
            ("float", self.float),
            ("integer", self.integer),
            ("float", self.float),
            ("bitfield", self.bitfield),
            ("string", self.string),
            ("opaque", self.opaque),
            ("enum", self.enum),
            ("bool", self.boolean),
            ("time", self.time),
            ("complex", self.complex),
        ]
        nested = [("array", lambda: self.array(depth)), ("compound", lambda: self.compound(depth))]
        if whole and self.chance.one_in(8):
            name, make = "not plain", lambda: self.not_plain(depth)
        else:
            name, make = self.chance.pick(simple + (nested if depth < 3 else []))
        self.seen[f"class {name}"] += 1
        return make()


def is_plain(kind: h5t.TypeID) -> bool:
    """The stored bytes are the value."""
    if kind.get_class() == h5t.STRING:
        return not kind.is_variable_str()
    if kind.get_class() == h5t.COMPOUND:
        return all(is_plain(kind.get_member_type(i)) for i in range(kind.get_nmembers()))
    if kind.get_class() == h5t.ARRAY:
        return is_plain(kind.get_super())
    return kind.get_class() not in (h5t.VLEN, h5t.REFERENCE)


assert h5py.version.hdf5_version_tuple >= (1, 14, 0)
