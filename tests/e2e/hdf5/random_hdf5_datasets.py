"""Random datasets of HDF5: dataspace, layout, chunk index, filters, fill value, how they are written and resized."""

from __future__ import annotations

import ctypes
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import h5py
import hdf5plugin
import numpy as np
from h5py import h5d, h5f, h5g, h5p, h5s, h5t
from random_hdf5_types import LIBRARY, Chance, Types, is_plain

INDEXES = ["version 1 B-tree", "single chunk", "implicit", "fixed array", "extensible array", "version 2 B-tree"]
PLUGINS: dict[str, Callable[[Chance], object]] = {
    "blosc": lambda c: hdf5plugin.Blosc(cname=c.pick(["lz4", "zlib", "zstd", "blosclz"]), shuffle=c.between(0, 2)),
    "blosc2": lambda c: hdf5plugin.Blosc2(cname=c.pick(["lz4", "zstd", "blosclz"]), filters=c.between(0, 2)),
    "bitshuffle": lambda c: hdf5plugin.Bitshuffle(cname=c.pick(["none", "lz4", "zstd"])),
    "bzip2": lambda _: hdf5plugin.BZip2(),
    "lz4": lambda _: hdf5plugin.LZ4(),
    "zstd": lambda _: hdf5plugin.Zstd(),
}
OF_ELEMENTS = ["szip", "nbit", "scale-offset"]
FILTERS = ["deflate", "shuffle", "fletcher32", "lzf", *OF_ELEMENTS, *PLUGINS]
NBIT, DONT_FILTER_PARTIAL_CHUNKS = 5, 2
MOST_BYTES = 200_000


@dataclass
class Plan:
    """A dataset that is about to be created."""

    kind: h5t.TypeID
    shape: tuple[int, ...]
    most: tuple[int, ...]
    plist: h5p.PropDCID
    chunk: tuple[int, ...] = ()
    filters: list[str] = field(default_factory=list)
    defined: bool = True  # whether libhdf5 defines what elements hold that were never written
    direct: bool = True  # whether chunks may be written as they will be stored


def space_of(shape: tuple[int, ...] | None, most: tuple[int, ...] | None = None) -> h5s.SpaceID:
    """A dataspace. No shape: null; an empty one: scalar."""
    if shape is None:
        return h5s.create(h5s.NULL)
    return h5s.create_simple(shape, most or shape) if shape else h5s.create(h5s.SCALAR)


class Datasets:
    """Creates datasets."""

    def __init__(self, chance: Chance, seen: Counter[str], types: Types, stem: str) -> None:
        self.chance, self.seen, self.types, self.stem = chance, seen, types, stem
        self.pieces = 0
        self.unlimited = True

    def create(self, parent: h5g.GroupID, name: bytes) -> None:
        kind = self.types.any(whole=self.chance.one_in(5))
        plist = h5p.create(h5p.DATASET_CREATE)
        if self.chance.one_in(8):
            plist.set_attr_creation_order(self.chance.pick([1, 3]))
        plist.set_obj_track_times(self.chance.one_in(2))
        layout = self.chance.pick(
            ["chunked"] * 10 + ["contiguous"] * 4 + ["compact"] * 2 + ["external", "sparse", "sparse"]
        )
        if layout == "external" and not is_plain(kind):
            layout = "contiguous"
        if layout in ("contiguous", "compact") and self.chance.one_in(5):
            shape = self.chance.pick([None, ()])
            if layout == "compact":
                plist.set_layout(h5d.COMPACT)
            self.seen["scalar or null dataspace"] += 1
            return self.write(parent, name, Plan(kind, shape, shape, plist))
        plan = Plan(kind, *self.shape(kind, layout), plist)
        getattr(self, layout)(plan)
        if layout != "sparse":
            self.fill_value(plan)
        if layout == "external":
            plan.defined = False  # before the first write the other files do not exist
        return self.write(parent, name, plan)

    def shape(self, kind: h5t.TypeID, layout: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if layout == "sparse":
            return self.sparse_shape()
        rank = self.chance.pick([1, 1, 2, 2, 3, 4, 8, 32])
        room = max(1, (30_000 if layout == "compact" else MOST_BYTES) // kind.get_size())
        shape = []
        for _ in range(rank):
            shape.append(self.chance.between(1, max(1, min(room, 3 if rank > 4 else self.chance.pick([4, 20, 600])))))
            room //= shape[-1]
        if layout != "external" and self.chance.one_in(20):
            shape[self.chance.between(0, rank - 1)] = 0
            self.seen["zero-size dataspace"] += 1
        most = list(shape)
        if layout == "chunked":
            for i in range(rank):
                if self.chance.one_in(3) or shape[i] == 0:
                    more = shape[i] + self.chance.between(0, 9)
                    most[i] = self.chance.pick([h5s.UNLIMITED, h5s.UNLIMITED, more]) if self.unlimited else more
        return tuple(shape), tuple(most)

    def sparse_shape(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Very many chunks, few of them stored: indexes with pages and of several levels."""
        size = self.chance.pick([1030, 5000, 200_000])
        which = self.chance.pick(["fixed", "one", "two"]) if self.unlimited else "fixed"
        self.seen[f"sparse, {which}"] += 1
        if which == "two":
            return (size, 2), (h5s.UNLIMITED, h5s.UNLIMITED)
        return (size,), (size if which == "fixed" else h5s.UNLIMITED,)

    def sparse(self, plan: Plan) -> None:
        plan.kind = self.chance.pick([h5t.STD_U8LE, h5t.IEEE_F32BE])
        plan.chunk = (1,) * len(plan.shape)
        plan.plist.set_chunk(plan.chunk)
        if self.chance.one_in(2):
            self.pipeline(plan)

    def contiguous(self, plan: Plan) -> None:
        plan.plist.set_alloc_time(self.chance.pick([h5d.ALLOC_TIME_EARLY, h5d.ALLOC_TIME_LATE]))

    def compact(self, plan: Plan) -> None:
        plan.plist.set_layout(h5d.COMPACT)

    def external(self, plan: Plan) -> None:
        left = int(np.prod(plan.shape)) * plan.kind.get_size()
        for last in [False] * self.chance.between(0, 2) + [True]:
            size = left if last else self.chance.between(0, left - 1)
            if size == 0:
                continue
            self.pieces += 1
            size = h5f.UNLIMITED if last and self.chance.one_in(3) else size
            plan.plist.set_external(f"{self.stem}.{self.pieces}.raw".encode(), self.chance.pick([0, 7]), size)
            left -= size

    def chunked(self, plan: Plan) -> None:
        chunk = [
            self.chance.between(1, max(1, n if m == n else n + 3)) for n, m in zip(plan.shape, plan.most, strict=True)
        ]
        if self.chance.one_in(6):
            chunk = [max(n if m == h5s.UNLIMITED else m, 1) for n, m in zip(plan.shape, plan.most, strict=True)]
        while np.prod([-(-n // c) for n, c in zip(plan.shape, chunk, strict=True)]) > 300:
            worst = int(np.argmax([n / c for n, c in zip(plan.shape, chunk, strict=True)]))
            chunk[worst] *= 2
        while np.prod(chunk, dtype=float) * plan.kind.get_size() > MOST_BYTES / 10 and max(chunk) > 1:
            worst = int(np.argmax(chunk))
            chunk[worst] //= 2
        plan.chunk = tuple(min(c, m) if m != h5s.UNLIMITED else c for c, m in zip(chunk, plan.most, strict=True))
        plan.plist.set_chunk(plan.chunk)
        if not self.chance.one_in(3):
            self.pipeline(plan)
        if self.chance.one_in(3 if plan.filters else 1.5):
            times = [h5d.ALLOC_TIME_EARLY, h5d.ALLOC_TIME_EARLY, h5d.ALLOC_TIME_LATE, h5d.ALLOC_TIME_INCR]
            plan.plist.set_alloc_time(self.chance.pick(times))

    def pipeline(self, plan: Plan) -> None:
        """Some filters, often of the customary kind. libhdf5 refuses those that do not suit the type."""
        customary = [
            ["deflate"],
            ["shuffle", "deflate"],
            ["shuffle", "deflate", "fletcher32"],
            ["lzf"],
            ["shuffle", "lzf"],
        ]
        if self.chance.one_in(2):
            plan.filters = list(self.chance.pick(customary))
        else:
            plan.filters = [self.chance.pick(FILTERS) for _ in range(self.chance.pick([1, 1, 2, 3]))]
        # These read elements, and two of them lose bits: behind another filter they would spoil its bytes.
        plan.filters = [name for i, name in enumerate(plan.filters) if i == 0 or name not in OF_ELEMENTS]
        if not {*OF_ELEMENTS, *PLUGINS}.isdisjoint(plan.filters):
            plan.filters = [name for name in plan.filters if name != "lzf"]  # which `bitrift-hdf5` does not have
        if plan.filters[0] in OF_ELEMENTS and not self.chance.one_in(4):
            plan.kind = self.chance.pick([h5t.STD_I32LE, h5t.STD_U16BE, h5t.IEEE_F32LE, h5t.IEEE_F64BE])
        for name in plan.filters:
            self.add_filter(plan, name)
        if self.chance.one_in(5):
            LIBRARY.call("H5Pset_chunk_opts", plan.plist.id, DONT_FILTER_PARTIAL_CHUNKS)
            plan.direct = False

    def add_filter(self, plan: Plan, name: str) -> None:
        plist = plan.plist
        if name == "deflate":
            plist.set_deflate(self.chance.between(0, 9))
        elif name == "shuffle":
            plist.set_shuffle()
        elif name == "fletcher32":
            plist.set_fletcher32()
        elif name == "lzf":
            plist.set_filter(h5py.h5z.FILTER_LZF, h5py.h5z.FLAG_OPTIONAL)
        elif name == "szip":
            plist.set_szip(self.chance.pick([h5py.h5z.SZIP_NN_OPTION_MASK, h5py.h5z.SZIP_EC_OPTION_MASK]), 8)
        elif name == "nbit":
            plist.set_filter(h5py.h5z.FILTER_NBIT, h5py.h5z.FLAG_OPTIONAL)
        elif name == "scale-offset":
            whole = plan.kind.get_class() in (h5t.INTEGER, h5t.ENUM)
            plist.set_scaleoffset(h5py.h5z.SO_INT if whole else h5py.h5z.SO_FLOAT_DSCALE, 0 if whole else 2)
        else:
            options = dict(PLUGINS[name](self.chance))
            plist.set_filter(options["compression"], h5py.h5z.FLAG_OPTIONAL, tuple(options["compression_opts"]))

    def fill_value(self, plan: Plan) -> None:
        which = self.chance.pick(["none"] * 3 + ["value"] * 4 + ["undefined", "never"])
        size = plan.kind.get_size()
        if which == "value" and is_plain(plan.kind):
            value = self.chance.raw(1, size)
            LIBRARY.call("H5Pset_fill_value", plan.plist.id, plan.kind.id, value.ctypes.data)
            plan.plist.set_fill_time(self.chance.pick([h5d.FILL_TIME_ALLOC, h5d.FILL_TIME_IFSET]))
            self.seen["fill value"] += 1
        elif which == "undefined":
            LIBRARY.call("H5Pset_fill_value", plan.plist.id, plan.kind.id, 0)
            plan.defined = False
        elif which == "never":
            plan.plist.set_fill_time(h5d.FILL_TIME_NEVER)
            plan.defined = False

    def write(self, parent: h5g.GroupID, name: bytes, plan: Plan) -> None:
        """Creates the dataset and gives it values."""
        made = h5d.create(parent, name, plan.kind, space_of(plan.shape, plan.most), plan.plist)
        self.count(made, plan)
        if plan.shape is None or not is_plain(plan.kind):
            self.write_text(made, plan)
        elif not plan.defined:
            self.put(made, plan, (0,) * len(plan.shape), plan.shape)
        else:
            self.write_parts(made, plan)
        made.flush()

    def count(self, made: h5d.DatasetID, plan: Plan) -> None:
        layout = {h5d.COMPACT: "compact", h5d.CONTIGUOUS: "contiguous", h5d.CHUNKED: "chunked"}[plan.plist.get_layout()]
        if plan.plist.get_external_count():
            layout = "external"
        if layout == "chunked":
            index = ctypes.c_int()
            LIBRARY.call("H5Dget_chunk_index_type", made.id, ctypes.addressof(index))
            layout = f"chunked, {INDEXES[index.value]}"
        self.seen[f"layout {layout}"] += 1
        for name in plan.filters:
            self.seen[f"filter {name}"] += 1

    def write_text(self, made: h5d.DatasetID, plan: Plan) -> None:
        text = plan.kind.get_class() == h5t.STRING and plan.kind.is_variable_str()
        if text and plan.shape and np.prod(plan.shape) > 0:
            values = np.array(["text " * self.chance.between(0, 5) for _ in range(int(np.prod(plan.shape)))], object)
            made.write(h5s.ALL, h5s.ALL, values.reshape(plan.shape).astype(h5py.string_dtype()))
            self.seen["text written"] += 1

    def write_parts(self, made: h5d.DatasetID, plan: Plan) -> None:
        shape = plan.shape or ()
        many = plan.chunk and int(np.prod([-(-n // c) for n, c in zip(shape, plan.chunk, strict=True)])) > 1000
        how = self.chance.pick(["all", "all", "parts", "nothing", "direct", "resized"])
        if shape == () or (how == "all" and not many):
            return self.put(made, plan, (0,) * len(shape), shape)
        if how == "nothing":
            self.seen["nothing written"] += 1
            return None
        self.parts(made, plan, shape, many)
        if how == "direct" and plan.chunk and plan.direct:
            self.put_chunk(made, plan, shape)
        if plan.most != plan.shape and (how == "resized" or self.chance.one_in(3)):
            self.resize(made, plan)
        return None

    def parts(self, made: h5d.DatasetID, plan: Plan, shape: tuple[int, ...], many: bool) -> None:
        self.seen["written in parts"] += 1
        for _ in range(self.chance.between(1, 5)):
            start = tuple(self.chance.between(0, n - 1) if n else 0 for n in shape)
            most = 30 if many else max((*shape, 1))
            count = tuple(self.chance.between(1, max(1, min(most, n - s))) for n, s in zip(shape, start, strict=True))
            if 0 not in shape:
                self.put(made, plan, start, count)

    def put(self, made: h5d.DatasetID, plan: Plan, start: tuple[int, ...], count: tuple[int, ...]) -> None:
        """Writes random elements into a box."""
        elements = int(np.prod(count))
        if elements == 0:
            return
        size = plan.kind.get_size()
        values = self.chance.raw(elements, size).view(f"V{size}").reshape(count)
        if not count:
            made.write(h5s.ALL, h5s.ALL, values, plan.kind)
            return
        space = made.get_space()
        space.select_hyperslab(start, count)
        made.write(h5s.create_simple(count), space, values, plan.kind)

    def put_chunk(self, made: h5d.DatasetID, plan: Plan, shape: tuple[int, ...]) -> None:
        """Stores a chunk as a program does that applies its filters itself, or leaves some of them out."""
        if 0 in shape:
            return
        size = plan.kind.get_size()
        place = tuple(self.chance.between(0, (n - 1) // c) * c for n, c in zip(shape, plan.chunk, strict=True))
        stored = self.chance.raw(int(np.prod(plan.chunk)), size)
        mask = 0
        for number, name in enumerate(plan.filters):
            if name == "deflate" and self.chance.one_in(2):
                stored = np.frombuffer(zlib.compress(stored.tobytes()), "u1")
            elif name == "shuffle" and number == 0 and self.chance.one_in(2):
                stored = np.ascontiguousarray(stored.T)
            else:
                mask |= 1 << number
        made.write_direct_chunk(place, stored.tobytes(), mask)
        self.seen[f"chunk written directly{', filters left out' if mask else ''}"] += 1

    def resize(self, made: h5d.DatasetID, plan: Plan) -> None:
        for _ in range(self.chance.between(1, 3)):
            room = [n + 8 if m == h5s.UNLIMITED else m for n, m in zip(plan.shape or (), plan.most, strict=True)]
            shape = tuple(
                n if self.chance.one_in(2) else self.chance.between(max(0, n // 2), m)
                for n, m in zip(made.shape, room, strict=True)
            )
            if np.prod(shape, dtype=float) * plan.kind.get_size() > 4 * MOST_BYTES:
                continue
            made.set_extent(shape)
            self.seen["resized"] += 1
            if self.chance.one_in(2):
                self.parts(made, plan, shape, True)

    def virtual(self, parent: h5g.GroupID, name: bytes) -> None:
        layout = h5py.VirtualLayout((4, 6), self.chance.pick(["<f4", ">i2"]))
        for row in range(self.chance.between(1, 4)):
            file = self.chance.pick(["other.h5", "another file.h5", "."])
            layout[row] = h5py.VirtualSource(file, f"data {row % 2}", (6,))
        h5py.Group(parent).create_virtual_dataset(name.decode(), layout)
        self.seen["layout virtual"] += 1
