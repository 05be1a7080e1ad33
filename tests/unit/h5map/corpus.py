"""Writes HDF5 files of every kind with h5py, and says beside each what h5py reads from it.

    corpus.py make FOLDER       FOLDER/NAME.h5 and FOLDER/NAME.txt for every kind
    corpus.py describe FILE     the description alone, on stdout

A description has one line for every dataset that hard links reach, under the first of its names, sorted by path:
path, type, shape, storage, offset and filters, separated by tabs; then its attributes, and those of the groups.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
from h5py import h5a, h5d, h5f, h5g, h5o, h5p, h5s, h5t

IEEE = {
    (8, (63, 52, 11, 0, 52), 1023): "float64",
    (4, (31, 23, 8, 0, 23), 127): "float32",
    (2, (15, 10, 5, 0, 10), 15): "float16",
    (2, (15, 7, 8, 0, 7), 127): "bfloat16",
}
STORAGE = {0: "compact", 1: "contiguous", 2: "chunked", 3: "virtual"}


def float_name(kind: h5t.TypeFloatID) -> str:
    fields = kind.get_fields()
    ieee = kind.get_norm() == h5t.NORM_IMPLIED and kind.get_offset() == 0
    plain = IEEE.get((kind.get_size(), fields, kind.get_ebias())) if ieee else None
    if plain and kind.get_precision() == 8 * kind.get_size():
        return plain
    text = f"float{kind.get_precision()} ({fields[2]} exponent, {fields[4]} mantissa bits)"
    return {"float8 (5 exponent, 2 mantissa bits)": "float8_e5m2"}.get(text, text)


def type_name(kind: h5t.TypeID) -> str:
    number = kind.get_class()
    if number == h5t.INTEGER:
        name = f"{'' if kind.get_sign() == h5t.SGN_2 else 'u'}int{kind.get_precision()}"
        if kind.get_precision() == 8 * kind.get_size():
            return name
        at = f"_at_{kind.get_offset()}" if kind.get_offset() else ""
        return f"{name}_in_{8 * kind.get_size()}{at}"
    if number == h5t.FLOAT:
        return float_name(kind)
    if number == h5t.STRING:
        return "variable-length string" if kind.is_variable_str() else "string"
    if number == h5t.COMPLEX:
        return "complex of " + type_name(kind.get_super())
    if number == h5t.ENUM and kind.get_size() == 1:
        named = {kind.get_member_name(i).lower(): kind.get_member_value(i) for i in range(kind.get_nmembers())}
        if named == {b"false": 0, b"true": 1}:
            return "bool"
    names = {
        h5t.TIME: "time",
        h5t.BITFIELD: "bitfield",
        h5t.OPAQUE: "opaque",
        h5t.COMPOUND: "compound",
        h5t.REFERENCE: "reference",
        h5t.ENUM: "enum",
        h5t.VLEN: "variable-length",
        h5t.ARRAY: "array",
    }
    return names[number]


def shape_text(space: h5s.SpaceID) -> str:
    if space.get_simple_extent_type() == h5s.NULL:
        return "0"
    return ",".join(str(n) for n in space.get_simple_extent_dims())


def dataset_line(path: bytes, dataset: h5d.DatasetID) -> bytes:
    plist = dataset.get_create_plist()
    storage = STORAGE[plist.get_layout()]
    if storage == "contiguous" and plist.get_external_count() > 0:
        storage = "external"
    # The library answers base - 1 for bytes that are not allocated after a user block.
    allocated = storage == "contiguous" and dataset.get_storage_size() > 0
    offset = dataset.get_offset() if allocated else None
    filters = ",".join(str(plist.get_filter(i)[0]) for i in range(plist.get_nfilters()))
    if storage == "chunked":
        storage += " " + ",".join(str(n) for n in plist.get_chunk())
    text = [type_name(dataset.get_type()), shape_text(dataset.get_space()), storage, str(offset), filters]
    return path + b"\t" + "\t".join(text).encode()


def is_plain(kind: h5t.TypeID) -> bool:
    return not (kind.detect_class(h5t.VLEN) or kind.detect_class(h5t.REFERENCE) or kind.detect_class(h5t.STRING))


def attribute_lines(path: bytes, target: h5o.ObjectID) -> list[bytes]:
    lines = []
    for index in range(h5a.get_num_attrs(target)):
        attribute = h5a.open(target, index=index)
        kind, space = attribute.get_type(), attribute.get_space()
        value = ""
        count = 0 if space.get_simple_extent_type() == h5s.NULL else space.get_simple_extent_npoints()
        if is_plain(kind) and count:
            stored = np.zeros(count, dtype=f"V{kind.get_size()}")
            attribute.read(stored, mtype=kind)
            value = stored.tobytes().hex()
        head = path + b"@" + attribute.name
        lines.append(head + b"\t" + "\t".join([type_name(kind), shape_text(space), value]).encode())
    return sorted(lines)


def members(group: h5g.GroupID) -> Iterator[bytes]:
    names: list[bytes] = []
    group.links.iterate(lambda name: names.append(name))
    for name in sorted(names):
        if group.links.get_info(name).type == h5py.h5l.TYPE_HARD:
            yield name


def describe(path: Path) -> bytes:
    access = h5p.create(h5p.FILE_ACCESS)
    file = h5f.open(str(path).encode(), h5f.ACC_RDONLY, access)
    root = h5g.open(file, b"/")
    seen = {h5o.get_info(root).addr}
    open_groups = [b""]
    datasets: list[tuple[bytes, list[bytes]]] = []
    groups: list[bytes] = []
    while open_groups:
        here = open_groups.pop()
        group = h5g.open(file, b"/" + here)
        groups += attribute_lines(here + b"/", group)
        children = []
        names: dict[int, list[bytes]] = {}  # of each object, in the order of members()
        for name in members(group):
            names.setdefault(h5o.get_info(group, name).addr, []).append(name)
        for address, same in names.items():
            if address in seen:
                continue
            seen.add(address)
            first = min(same, key=lambda one, links=group.links: links.get_info(one).corder)  # 0 where not kept
            inner = here + b"/" + first if here else first
            info = h5o.get_info(group, first)
            if info.type == h5o.TYPE_GROUP:
                children.append(inner)
            elif info.type == h5o.TYPE_DATASET:
                dataset = h5d.open(file, b"/" + inner)
                datasets.append((inner, [dataset_line(inner, dataset), *attribute_lines(inner, dataset)]))
        open_groups += reversed(children)
    lines = [line for _, lines in sorted(datasets) for line in lines] + groups
    return b"".join(line + b"\n" for line in lines)


class Library:
    """What h5py has no names for, called in the library that h5py has loaded."""

    def __init__(self) -> None:
        loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libhdf5" in line}
        self.c = ctypes.CDLL(next(name for name in loaded if "_hl" not in name))

    def call(self, name: str, *values: int) -> None:
        function = getattr(self.c, name)
        function.argtypes = [ctypes.c_int64] + [ctypes.c_uint] * (len(values) - 1)
        if function(*values) < 0:
            raise RuntimeError(f"{name}{values} failed")


LIBRARY = Library()
Fill = Callable[[h5py.File], None]


def custom_float(size: int, fields: tuple[int, ...], bias: int, base: h5t.TypeFloatID = h5t.IEEE_F32LE) -> h5t.TypeID:
    kind = base.copy()
    kind.set_fields(*fields)
    kind.set_precision(8 * size)
    kind.set_size(size)
    kind.set_ebias(bias)
    return kind


def raw_dataset(file: h5py.File, name: str, kind: h5t.TypeID, shape: tuple[int, ...] = (3,)) -> None:
    h5d.create(file.id, name.encode(), kind, h5s.create_simple(shape))


def number_types(file: h5py.File) -> None:
    for text in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "g"):
        for order in "<>":
            data = np.arange(6).astype(text).reshape(2, 3)
            file.create_dataset(f"numbers/{text}{'le' if order == '<' else 'be'}", data=data.astype(order + text))
    raw_dataset(file, "bfloat16", custom_float(2, (15, 7, 8, 0, 7), 127))
    raw_dataset(file, "bfloat16be", custom_float(2, (15, 7, 8, 0, 7), 127, h5t.IEEE_F32BE))
    raw_dataset(file, "e5m2", custom_float(1, (7, 2, 5, 0, 2), 15))
    raw_dataset(file, "biased", custom_float(4, (31, 23, 8, 0, 23), 126))
    padded = h5t.STD_I32LE.copy()
    padded.set_precision(12)
    padded.set_offset(4)
    raw_dataset(file, "padded", padded)
    raw_dataset(file, "bits", h5t.STD_B16BE)
    raw_dataset(file, "time", h5t.UNIX_D64LE)


def other_types(file: h5py.File) -> None:
    file["bool"] = np.array([True, False])
    file["complex64"] = np.arange(3, dtype="c8")
    file["complex128"] = np.arange(3, dtype=">c16")
    raw_dataset(file, "native_complex", h5t.COMPLEX_IEEE_F32LE)
    raw_dataset(file, "native_complex_be", h5t.COMPLEX_IEEE_F64BE)
    file["text"] = np.array([b"abc", b"de"])
    file.create_dataset("varying", data=["a", "bc"], dtype=h5py.string_dtype())
    file.create_dataset("sequences", (2,), dtype=h5py.vlen_dtype(np.float32))
    file.create_dataset("references", (2,), dtype=h5py.ref_dtype)
    file.create_dataset("regions", (2,), dtype=h5py.regionref_dtype)
    file.create_dataset("opaque", data=np.array([b"12", b"34"], dtype="V2"))
    tagged = h5t.create(h5t.OPAQUE, 2)
    tagged.set_tag(b"bfloat16 as two bytes")
    raw_dataset(file, "tagged", tagged)
    colours = h5py.enum_dtype({"red": 0, "green": 7, "a colour": 9}, basetype=">i2")
    file.create_dataset("colours", (4,), dtype=colours)
    inner = np.dtype([("x", "<f4"), ("y", ">i8"), ("a name of some length", "f2", (2, 3))])
    nested = np.dtype([("p", inner), ("q", "u1"), ("r", inner, (4,)), ("s", "S5"), ("t", h5py.string_dtype())])
    file.create_dataset("compound", data=np.zeros(2, inner))
    file.create_dataset("nested", (2, 2), dtype=nested)
    wide = np.dtype({"names": ["a", "b"], "formats": ["f4", "f4"], "offsets": [0, 70000], "itemsize": 70004})
    file.create_dataset("wide", (1,), dtype=wide)
    raw_dataset(file, "array", h5t.array_create(h5t.IEEE_F32BE, (2, 1, 3)))


def shapes(file: h5py.File) -> None:
    file["scalar"] = np.float32(3)
    file["null"] = h5py.Empty("f4")
    file["empty"] = np.zeros((3, 0, 2), "f8")
    file["deep"] = np.zeros((1,) * 32, "u1")
    file.create_dataset("growing", (4, 2), maxshape=(None, 8), chunks=(2, 2), dtype="f4")
    file.create_dataset("unwritten", (100, 3), dtype="f8")
    file.create_dataset("filled", (5,), dtype="i4", fillvalue=7)
    file.create_dataset("huge", (1 << 40, 1 << 20), dtype="u1", chunks=(1024, 1024))


def storages(file: h5py.File) -> None:
    data = np.arange(24, dtype="f4").reshape(4, 6)
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_layout(h5d.COMPACT)
    space = h5s.create_simple((4, 6))
    h5d.create(file.id, b"compact", h5t.IEEE_F32LE, space, plist).write(h5s.ALL, h5s.ALL, data)
    file["contiguous"] = data
    file.create_dataset("gzip", data=data, chunks=(2, 4), compression="gzip", shuffle=True, fletcher32=True)
    file.create_dataset("lzf", data=data, chunks=(3, 3), compression="lzf")
    file.create_dataset("scaled", data=data, chunks=(2, 3), scaleoffset=2)
    file.create_dataset("szip", data=data, chunks=(2, 4), compression="szip")
    file.create_dataset("one", data=data, chunks=(4, 6))
    file.create_dataset("one_gzip", data=data, chunks=(4, 6), compression="gzip")
    file.create_dataset("tree", data=data, chunks=(2, 2), maxshape=(None, None))
    early = h5p.create(h5p.DATASET_CREATE)
    early.set_chunk((2, 2))
    early.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    h5d.create(file.id, b"early", h5t.IEEE_F32LE, space, early).write(h5s.ALL, h5s.ALL, data)
    file.create_dataset("external", (4, 6), "f4", external=[("raw.bin", 0, 48), ("more.bin", 16, h5py.h5f.UNLIMITED)])
    for prefix in ("src", "a_source_of_a_long_name"):
        layout = h5py.VirtualLayout((4, 6), "f4")
        for row in range(4):
            layout[row] = h5py.VirtualSource(f"{prefix}{row % 2}.h5", "data/some_dataset", (6,))
        file.create_virtual_dataset(f"virtual_{prefix}", layout)
    layout = h5py.VirtualLayout((6,), "f4")
    layout[::2] = h5py.VirtualSource(file["contiguous"])[0, :3]
    file.create_virtual_dataset("virtual_here", layout)


def groups(file: h5py.File) -> None:
    file["z/data"] = np.arange(3.0)
    file["a/b/c/data"] = np.arange(4.0)
    file["a/again"] = file["z/data"]
    file["a/circle"] = file["a"]
    file["z/soft"] = h5py.SoftLink("/a/b/c/data")
    file["z/outside"] = h5py.ExternalLink("other.h5", "/x")
    file["ü/ψ"] = np.arange(2.0)
    file.create_group("nothing")
    file["kind"] = np.dtype("f4")
    file.create_dataset("committed", (3,), dtype=file["kind"])
    file["committed"].attrs.create("also", np.arange(3), dtype=file["kind"])
    del file["z"]["soft"]
    file["with space"] = np.arange(2)


def attributes(file: h5py.File) -> None:
    data = file.create_dataset("data", data=np.arange(3.0))
    for target in (file, data, file.create_group("group")):
        target.attrs["number"] = np.float32(1.5)
        target.attrs["text"] = "variable"
        target.attrs["bytes"] = np.bytes_(b"fixed")
        target.attrs["array"] = np.arange(6, dtype=">i2").reshape(2, 3)
        target.attrs["empty"] = h5py.Empty("f4")
        target.attrs["pair"] = np.zeros(2, np.dtype([("a", "f4"), ("b", "i8")]))
    many = file.create_dataset("many", data=np.arange(2.0))
    for index in range(40):
        many.attrs[f"attribute {index}"] = np.arange(index, dtype="f8")


def large_attributes(file: h5py.File) -> None:
    data = file.create_dataset("data", data=np.arange(3.0))
    for index in range(12):
        data.attrs[f"a{index:02}"] = np.arange(900 * index, dtype="f8")


def references(file: h5py.File) -> None:
    """What lies in global heaps and is read there."""
    groups(file)
    file.attrs["text"] = "in a heap"
    file.attrs["other"] = "behind it"
    layout = h5py.VirtualLayout((6,), "f4")
    layout[::2] = h5py.VirtualSource("source.h5", "data", (3,))
    file.create_virtual_dataset("virtual", layout)


def deep_tree(file: h5py.File) -> None:
    file.create_dataset("deep", data=np.arange(100, dtype="u1"), chunks=(1,))


def many_links(file: h5py.File) -> None:
    group = file.create_group("many")
    for index in range(10_000):
        group[f"link {index}"] = h5py.SoftLink("/data")
    file["data"] = np.arange(3.0)
    for index in range(300):
        group[f"data {index}"] = np.uint8(index % 256)


def shared_messages(file: h5py.File) -> None:
    kind = np.dtype([("first", "f4"), ("second", "i8")])
    for index in range(30):
        data = file.create_dataset(
            f"d{index}", data=np.zeros((index % 3 + 1, 2), kind), chunks=(1, 2), compression="gzip"
        )
        data.attrs["shared"] = np.arange(20, dtype="f8")
        data.attrs["tiny"] = np.uint8(index)
    for index in range(12):
        file["d3"].attrs[f"dense {index}"] = np.arange(20, dtype="f8")


def everything(file: h5py.File) -> None:
    for index, fill in enumerate((number_types, other_types, shapes, storages, attributes, groups)):
        fill(file.create_group(f"part{index}") if fill is not groups else file)


def create(path: Path, libver: str, fill: Fill, prepare: Callable[[h5p.PropFCID], None] = lambda _: None) -> None:
    bounds = {"earliest": h5f.LIBVER_EARLIEST, "v108": h5f.LIBVER_V18, "v110": h5f.LIBVER_V110}
    bounds |= {"v112": h5f.LIBVER_V112, "v114": h5f.LIBVER_V114, "latest": h5f.LIBVER_LATEST}
    # Complex types need the newest.
    high = h5f.LIBVER_LATEST if fill is everything or libver == "earliest" else bounds[libver]
    creation, access = h5p.create(h5p.FILE_CREATE), h5p.create(h5p.FILE_ACCESS)
    access.set_libver_bounds(bounds[libver], high)
    prepare(creation)
    with h5py.File(h5f.create(str(path).encode(), h5f.ACC_TRUNC, creation, access)) as file:
        fill(file)


def share(creation: h5p.PropFCID) -> None:
    LIBRARY.call("H5Pset_shared_mesg_nindexes", creation.id, 2)
    LIBRARY.call("H5Pset_shared_mesg_index", creation.id, 0, 0x2 | 0x8 | 0x20 | 0x800, 0)
    LIBRARY.call("H5Pset_shared_mesg_index", creation.id, 1, 0x1000, 30)


def order(creation: h5p.PropFCID) -> None:
    creation.set_link_creation_order(h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED)
    creation.set_attr_creation_order(h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED)


def keep_space(creation: h5p.PropFCID) -> None:
    creation.set_file_space_strategy(h5f.FSPACE_STRATEGY_FSM_AGGR, True, 1)


def make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    for libver in ("earliest", "v108", "v110", "v112", "v114", "latest"):
        create(folder / f"all_{libver}.h5", libver, everything)
    for libver in ("earliest", "latest"):
        create(folder / f"user_{libver}.h5", libver, groups, lambda c: c.set_userblock(2048))
        create(folder / f"small_{libver}.h5", libver, groups, lambda c: c.set_sizes(4, 4))
        create(folder / f"links_{libver}.h5", libver, many_links)
        for addresses, lengths in ((4, 4), (4, 8), (8, 4)):
            name = f"short_{addresses}_{lengths}_{libver}.h5"
            create(folder / name, libver, references, lambda c, sizes=(addresses, lengths): c.set_sizes(*sizes))
        create(folder / f"k_{libver}.h5", libver, many_links, lambda c: LIBRARY.call("H5Pset_sym_k", c.id, 3, 5))
        create(folder / f"order_{libver}.h5", libver, attributes, order)
    create(folder / "deep_tree.h5", "earliest", deep_tree, lambda c: LIBRARY.call("H5Pset_istore_k", c.id, 1))
    create(folder / "order_links.h5", "latest", many_links, order)
    create(folder / "dense.h5", "latest", large_attributes)
    create(folder / "shared_earliest.h5", "earliest", shared_messages, share)
    create(folder / "shared_latest.h5", "latest", shared_messages, share)
    create(folder / "space.h5", "latest", attributes, keep_space)
    moved = (folder / "user_latest.h5").read_bytes()[2048:]
    (folder / "moved.h5").write_bytes(bytes(512) + moved)
    for path in sorted(folder.glob("*.h5")):
        path.with_suffix(".txt").write_bytes(describe(path))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    else:
        sys.stdout.buffer.write(describe(Path(sys.argv[2])))
