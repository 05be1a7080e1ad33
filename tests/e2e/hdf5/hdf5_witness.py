"""What libhdf5 says of a file: its tensors as `bitrift ls` names them, their values, and where their bytes are."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np
from h5py import h5a, h5d, h5f, h5g, h5o, h5p, h5s, h5t
from random_hdf5_datasets import space_of
from random_hdf5_types import LIBRARY, is_plain

IEEE = {
    (8, (63, 52, 11, 0, 52), 1023): "float64",
    (4, (31, 23, 8, 0, 23), 127): "float32",
    (2, (15, 10, 5, 0, 10), 15): "float16",
    (2, (15, 7, 8, 0, 7), 127): "bfloat16",
    (1, (7, 2, 5, 0, 2), 15): "float8_e5m2",
}
STORAGE = {h5d.COMPACT: "compact", h5d.CONTIGUOUS: "contiguous", h5d.CHUNKED: "chunked", h5d.VIRTUAL: "virtual"}
OTHERS = {
    h5t.TIME: "time",
    h5t.STRING: "string",
    h5t.BITFIELD: "bitfield",
    h5t.OPAQUE: "opaque",
    h5t.COMPOUND: "compound",
    h5t.REFERENCE: "reference",
    h5t.ENUM: "enum",
    h5t.VLEN: "variable-length",
    h5t.ARRAY: "array",
}


@dataclass
class Unit:
    """A tensor: a dataset or attribute, or the part of one that is a number in each element."""

    path: str
    dtype: str
    number: bool  # whether bitrift has a number format for it
    big: bool
    size: int
    low_bit: int  # of the value among the bits that are stored
    shape: tuple[int, ...]
    plain: bool
    starts: np.ndarray  # of its elements in one element of the holder

    def elements(self, raw: np.ndarray) -> np.ndarray:
        """Its elements, a row of bytes each, in little-endian order."""
        places = self.starts[:, None] + np.arange(self.size)
        found = raw[:, places].reshape(-1, self.size)
        return found[:, ::-1] if self.big else found


@dataclass
class Holder:
    """A dataset or an attribute."""

    path: str
    kind: h5t.TypeID
    shape: tuple[int, ...] | None
    storage: str = "attribute"
    raw: np.ndarray | None = None
    text: object = None
    units: list[Unit] = field(default_factory=list)
    offset: int | None = None
    stored: int = 0
    refusal: str = ""
    filters: list[int] = field(default_factory=list)
    ranges: list[range] = field(default_factory=list)  # of stored bytes
    chunks: dict[int, list[range]] = field(default_factory=dict)  # where a cell's chunk may be, by its bytes


@dataclass
class Look:
    """A file."""

    datasets: list[Holder] = field(default_factory=list)
    attributes: list[Holder] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)  # further names of datasets, with the first
    headers: dict[str, tuple[int, int]] = field(default_factory=dict)  # first byte and size, of those in one piece
    user_block: int = 0
    persistent: bool = False  # keeps lists of free space
    raw_bytes: int = 0  # that hold values of datasets


def integer_name(kind: h5t.TypeID, unsigned: bool) -> tuple[str, bool]:
    bits, size, at = kind.get_precision(), 8 * kind.get_size(), kind.get_offset()
    name = f"{'u' if unsigned else ''}int{bits}"
    known = size in (8, 16, 32, 64)
    if bits == size:
        return name, known
    if (name, size, at) == ("uint1", 8, 0):
        return "bool", True
    if not known:
        return f"{name} in {size // 8} bytes", False
    return f"{name}_in_{size}" + (f"_at_{at}" if at else ""), True


def float_name(kind: h5t.TypeFloatID) -> tuple[str, bool]:
    fields, bits = kind.get_fields(), kind.get_precision()
    whole = kind.get_norm() == h5t.NORM_IMPLIED and kind.get_offset() == 0 and bits == 8 * kind.get_size()
    name = IEEE.get((kind.get_size(), fields, kind.get_ebias())) if whole else None
    return name or f"float{bits} ({fields[2]} exponent, {fields[4]} mantissa bits)", name is not None


def name_of(kind: h5t.TypeID) -> tuple[str, bool]:
    """The name that `bitrift ls` has for a type that is neither a compound nor an array, and whether it is a number."""
    number = kind.get_class()
    if number == h5t.INTEGER:
        return integer_name(kind, kind.get_sign() == h5t.SGN_NONE)
    if number == h5t.FLOAT:
        return float_name(kind)
    if number == h5t.BITFIELD:
        return "bitfield", 8 * kind.get_size() in (8, 16, 32, 64)
    if number == h5t.STRING and kind.is_variable_str():
        return "variable-length string", False
    if number == h5t.COMPLEX:
        return "complex of " + name_of(kind.get_super())[0], False
    if number == h5t.ENUM:
        named = {kind.get_member_name(i): kind.get_member_value(i) for i in range(kind.get_nmembers())}
        truth = kind.get_size() == 1 and named == {b"FALSE": 0, b"TRUE": 1}
        return "bool" if truth else "enum", name_of(kind.get_super())[1]
    return OTHERS[number], False


def is_complex(kind: h5t.TypeID) -> bool:
    if kind.get_class() == h5t.COMPLEX:
        return name_of(kind.get_super())[1]
    if kind.get_class() != h5t.COMPOUND or kind.get_nmembers() != 2:
        return False
    parts = [kind.get_member_type(i) for i in range(2)]
    named = [kind.get_member_name(i) for i in range(2)] == [b"r", b"i"]
    return named and parts[0].get_class() == h5t.FLOAT and parts[0] == parts[1] and name_of(parts[0])[1]


def order_of(kind: h5t.TypeID) -> tuple[bool, int]:
    """Whether it is big-endian, and the lowest bit of its value."""
    base = kind.get_super() if kind.get_class() == h5t.ENUM else kind
    if base.get_class() not in (h5t.INTEGER, h5t.FLOAT, h5t.BITFIELD):
        return False, 0
    big = LIBRARY.call("H5Tget_order", base.id) == h5t.ORDER_BE
    return base.get_size() > 1 and big, LIBRARY.call("H5Tget_offset", base.id)


Part = tuple[str, h5t.TypeID, tuple[int, ...], np.ndarray]


def parts_of(kind: h5t.TypeID, member: str = "", at: int = 0) -> Iterator[Part]:
    """Member, type, dimensions and starts of each part, as src/ckpt/format/units.h divides types."""

    def joined(name: str) -> str:
        return f"{member}.{name}" if member else name

    if is_complex(kind):
        native = kind.get_class() == h5t.COMPLEX
        part = kind.get_super() if native else kind.get_member_type(0)
        yield joined("real"), part, (), np.array([at])
        yield joined("imag"), part, (), np.array([at + part.get_size()])
    elif kind.get_class() == h5t.COMPOUND:
        for i in range(kind.get_nmembers()):
            name = kind.get_member_name(i).decode()
            yield from parts_of(kind.get_member_type(i), joined(name), at + kind.get_member_offset(i))
    elif kind.get_class() == h5t.ARRAY:
        base, dimensions = kind.get_super(), kind.get_array_dims()
        for name, part, inner, starts in parts_of(base, member, 0):
            steps = at + base.get_size() * np.arange(int(np.prod(dimensions)))
            yield name, part, (*dimensions, *inner), (steps[:, None] + starts).ravel()
    else:
        yield member, kind, (), np.array([at])


def units_of(path: str, kind: h5t.TypeID, shape: tuple[int, ...] | None) -> list[Unit]:
    units = []
    for name, part, dimensions, starts in parts_of(kind):
        dtype, number = name_of(part)
        big, low = order_of(part) if number else (False, 0)
        whole = (*((0,) if shape is None else shape), *dimensions)
        full = f"{path}:{name}" if name else path
        units.append(Unit(full, dtype, number, big, part.get_size(), low, whole, is_plain(part), starts))
    return units


def read_raw(source: h5d.DatasetID | h5a.AttrID, holder: Holder) -> np.ndarray | None:
    """All elements, a row of bytes each. None where they are not the values."""
    if holder.shape is None or not is_plain(holder.kind):
        return None
    values = np.zeros(holder.shape, f"V{holder.kind.get_size()}")
    if values.size:
        if isinstance(source, h5a.AttrID):
            source.read(values, holder.kind)
        else:
            source.read(h5s.ALL, h5s.ALL, values, holder.kind)
    return np.frombuffer(values.tobytes(), "u1").reshape(values.size, holder.kind.get_size())


def own_type(source: h5d.DatasetID | h5a.AttrID) -> h5t.TypeID:
    """A type that knows of no file: a copy would still be committed or shared there."""
    return h5t.decode(source.get_type().encode())


def extent(space: h5s.SpaceID) -> tuple[int, ...] | None:
    return None if space.get_simple_extent_type() == h5s.NULL else space.get_simple_extent_dims()


def lists_wrongly(space: h5s.SpaceID) -> bool:
    """HDF5 2.0 lists chunks at wrong corners where an extensible array counts them in an order of its own."""
    most = space.get_simple_extent_dims(True)
    return most.count(h5s.UNLIMITED) == 1 and most[0] != h5s.UNLIMITED


def note_storage(holder: Holder, dataset: h5d.DatasetID, plist: h5p.PropDCID, blob: bytes) -> None:
    elements = 0 if holder.shape is None else int(np.prod(holder.shape, dtype=object))
    if holder.storage == "chunked":
        chunk = plist.get_chunk()
        cells = [-(-n // c) for n, c in zip(holder.shape or (), chunk, strict=True)]

        def cell_of(corner: tuple[int, ...]) -> int:
            cell = 0
            for place, c, many in zip(corner, chunk, cells, strict=True):
                cell = cell * many + place // c
            return cell

        listed: list[h5d.StoreInfo] = []
        if elements:
            dataset.chunk_iter(listed.append)
        places = [range(info.byte_offset, info.byte_offset + info.size) for info in listed]
        if elements and lists_wrongly(dataset.get_space()):
            for corner in itertools.product(*(range(0, n, c) for n, c in zip(holder.shape or (), chunk, strict=True))):
                with contextlib.suppress(OSError, RuntimeError, MemoryError):  # it is not stored
                    stored = dataset.read_direct_chunk(corner)[1]
                    holder.chunks[cell_of(corner)] = [one for one in places if blob[one.start : one.stop] == stored]
        else:
            holder.chunks = {cell_of(info.chunk_offset): [one] for info, one in zip(listed, places, strict=True)}
        holder.ranges = places
        holder.stored = sum(map(len, places))
        every = int(np.prod(cells, dtype=object))
        if elements and not holder.chunks:
            holder.refusal = "no bytes are stored for it, only a fill value"
        elif elements and len(holder.chunks) < every:
            holder.refusal = f"{every - len(holder.chunks)} of its {every} chunks are not stored, only a fill value"
    elif holder.storage in ("contiguous", "compact") and elements:
        holder.stored = dataset.get_storage_size()
        if holder.stored == 0:
            holder.refusal = "no bytes are stored for it, only a fill value"
        elif holder.storage == "contiguous":
            holder.offset = dataset.get_offset()
            holder.ranges = [range(holder.offset, holder.offset + holder.stored)]


def look_at_dataset(path: str, dataset: h5d.DatasetID, blob: bytes) -> Holder:
    plist = dataset.get_create_plist()
    storage = STORAGE[plist.get_layout()]
    holder = Holder(path, own_type(dataset), extent(dataset.get_space()), storage)
    holder.units = units_of(path, holder.kind, holder.shape)
    if storage == "contiguous" and plist.get_external_count() > 0:
        holder.storage = "external"
        holder.refusal = "its values lie in another file"
    if storage == "virtual":
        holder.refusal = "it is virtual"
        return holder
    if storage == "chunked":
        holder.filters = [plist.get_filter(i)[0] for i in range(plist.get_nfilters())]
    note_storage(holder, dataset, plist, blob)
    holder.raw = read_raw(dataset, holder)
    return holder


def look_at_attributes(look: Look, path: str, target: h5g.GroupID | h5d.DatasetID) -> None:
    for index in range(h5a.get_num_attrs(target)):
        attribute = h5a.open(target, index=index)
        full = f"{path}@{attribute.name.decode()}"
        holder = Holder(full, own_type(attribute), extent(attribute.get_space()))
        holder.units = units_of(full, holder.kind, holder.shape)
        if holder.kind.get_class() == h5t.STRING and holder.kind.is_variable_str() and holder.shape == ():
            holder.text = h5py.Group(target).attrs[attribute.name] if isinstance(target, h5g.GroupID) else None
            if holder.text is None:
                holder.text = h5py.Dataset(target).attrs[attribute.name]
        holder.raw = read_raw(attribute, holder)
        look.attributes.append(holder)


def members(group: h5g.GroupID) -> list[bytes]:
    names: list[bytes] = []
    group.links.iterate(names.append)
    return sorted(name for name in names if group.links.get_info(name).type == h5py.h5l.TYPE_HARD)


def note_header(look: Look, path: str, target: h5o.ObjectID) -> None:
    info = h5o.get_info(target)
    if info.hdr.nchunks == 1:
        look.headers["/" + path] = (info.addr + look.user_block, info.hdr.space.total)


def first_names(group: h5g.GroupID) -> dict[int, bytes]:
    """The name of each object in a group, by its address: of several the one made first, or else the first sorted."""
    made: dict[int, tuple[int, bytes]] = {}
    for name in members(group):
        link = group.links.get_info(name)
        order = link.corder if link.corder_valid else 0
        address = h5o.get_info(group, name).addr
        made[address] = min(made.get(address, (order, name)), (order, name), key=lambda one: one[0])
    return {address: name for address, (_, name) in made.items()}


def look_at(path: Path) -> Look:
    """Every dataset under the first of its names, as bitrift walks a file: a group's datasets, then its groups."""
    file = h5f.open(os.fsencode(path), h5f.ACC_RDONLY, h5p.create(h5p.FILE_ACCESS))
    blob = path.read_bytes()
    creation = file.get_create_plist()
    look = Look(user_block=creation.get_userblock(), persistent=bool(creation.get_file_space_strategy()[1]))
    root = h5g.open(file, b"/")
    seen, left, datasets = {h5o.get_info(root).addr}, [""], dict[int, str]()
    while left:
        here = left.pop()
        group = h5g.open(file, b"/" + here.encode())
        look.groups.append(here)
        note_header(look, here, group)
        look_at_attributes(look, here, group)
        inner_groups = []
        first = first_names(group)
        for name in members(group):
            info = h5o.get_info(group, name)
            path_of = (f"{here}/" if here else "").__add__
            if info.addr not in seen:
                seen.add(info.addr)
                inner = path_of(first[info.addr].decode())
                if info.type == h5o.TYPE_GROUP:
                    inner_groups.append(inner)
                elif info.type == h5o.TYPE_DATASET:
                    datasets[info.addr] = inner
                    dataset = h5d.open(group, name)
                    note_header(look, inner, dataset)
                    look.datasets.append(look_at_dataset(inner, dataset, blob))
                    look_at_attributes(look, inner, dataset)
            primary = datasets.get(info.addr)
            if primary is not None and primary != path_of(name.decode()):
                look.aliases[path_of(name.decode())] = primary
        left += reversed(inner_groups)
    look.raw_bytes = sum(holder.stored for holder in look.datasets)
    return look


def write_plain(path: Path, look: Look, raw: dict[str, np.ndarray]) -> None:
    """A file of the same tensors, contiguous and without filters, of which some have other values: those of `raw`."""
    with h5py.File(path, "w", libver=("v108", "latest")) as file:
        for name in look.groups:
            file.require_group("/" + name)
        for holder in look.datasets:
            file.require_group("/" + holder.path.rpartition("/")[0])
            made = h5d.create(file.id, b"/" + holder.path.encode(), holder.kind, space_of(holder.shape))
            put_raw(made, holder, raw.get(holder.path, holder.raw))
        for alias, primary in look.aliases.items():
            file["/" + alias] = file["/" + primary]
        for holder in look.attributes:
            owner, _, name = holder.path.rpartition("@")
            made = h5a.create(file["/" + owner].id, name.encode(), holder.kind, space_of(holder.shape))
            if holder.text is not None:
                made.write(np.array(holder.text, h5py.string_dtype()))
            put_raw(made, holder, raw.get(holder.path, holder.raw))


def put_raw(made: h5d.DatasetID | h5a.AttrID, holder: Holder, raw: np.ndarray | None) -> None:
    """Writes plain values. Others are zeros in both files, but for texts."""
    if raw is None or not raw.size:
        return
    values = raw.view(f"V{raw.shape[1]}").reshape(holder.shape)
    if isinstance(made, h5a.AttrID):
        made.write(values, holder.kind)
    else:
        made.write(h5s.ALL, h5s.ALL, values, holder.kind)
