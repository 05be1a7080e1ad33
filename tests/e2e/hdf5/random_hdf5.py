"""Random HDF5 files, written by libhdf5: layouts, chunk indexes, filters, types and versions, all from one seed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np
from h5py import h5a, h5d, h5f, h5g, h5p, h5t
from random_hdf5_datasets import Datasets, Plan, space_of
from random_hdf5_types import LIBRARY, Chance, Types, is_plain

VERSIONS = {
    "earliest": h5f.LIBVER_EARLIEST,
    "v108": h5f.LIBVER_V18,
    "v110": h5f.LIBVER_V110,
    "v112": h5f.LIBVER_V112,
    "v114": h5f.LIBVER_V114,
    "latest": h5f.LIBVER_LATEST,
}
REFUSED = (ValueError, RuntimeError, OSError, TypeError, KeyError, NotImplementedError)


@dataclass
class Made:
    """A file, and how often each feature occurs in it."""

    path: Path
    seen: Counter[str] = field(default_factory=Counter)


class Maker:
    """Fills one file."""

    def __init__(self, path: Path, seed: int) -> None:
        self.chance = Chance(seed)
        self.made = Made(path)
        self.seen = self.made.seen
        low, high = sorted(self.chance.between(0, len(VERSIONS) - 1) for _ in range(2))
        self.versions = list(VERSIONS)[low], list(VERSIONS)[max(high, 1)]
        self.types = Types(self.chance, self.seen, self.versions[1] == "latest")
        self.datasets = Datasets(self.chance, self.seen, self.types, path.stem)
        self.names = 0

    def name(self) -> bytes:
        self.names += 1
        word = self.chance.pick(["data", "layer", "ünïcode ψ", "with space", "dotted.name", "tab\t", "l" * 60])
        return f"{word}{self.names}".encode()

    # Files

    def access(self, low: str, high: str) -> h5p.PropFAID:
        access = h5p.create(h5p.FILE_ACCESS)
        access.set_libver_bounds(VERSIONS[low], VERSIONS[high])
        self.seen[f"version {low} to {high}"] += 1
        if self.chance.one_in(8):
            access.set_alignment(1, self.chance.pick([8, 256]))
            self.seen["file aligned"] += 1
        if self.chance.one_in(8):
            access.set_meta_block_size(self.chance.pick([0, 256, 8192]))
        return access

    def creation(self) -> h5p.PropFCID:
        creation = h5p.create(h5p.FILE_CREATE)
        options: dict[str, Callable[[], None]] = {
            "user block": lambda: creation.set_userblock(self.chance.pick([512, 1024, 4096])),
            "small addresses": lambda: self.sizes(creation),
            "symbol table sizes": lambda: self.call("H5Pset_sym_k", creation, *self.chance.pick([(2, 2), (3, 5)])),
            "chunk B-tree size": lambda: self.call("H5Pset_istore_k", creation, self.chance.pick([1, 2, 64])),
            "shared messages": lambda: self.share(creation),
        }
        if VERSIONS[self.versions[1]] >= h5f.LIBVER_V110:
            options["space strategy"] = lambda: self.strategy(creation)
        for name, option in options.items():
            if self.chance.one_in(6):
                option()
                self.seen[f"file with {name}"] += 1
        self.group_options(creation)
        return creation

    def sizes(self, creation: h5p.PropFCID) -> None:
        addresses, lengths = self.chance.pick([(4, 4), (8, 4), (4, 8)])
        creation.set_sizes(addresses, lengths)
        self.datasets.unlimited = lengths == 8  # HDF5 writes a shorter "unlimited" that it takes for a number

    def strategy(self, creation: h5p.PropFCID) -> None:
        names = ["FSM_AGGR", "PAGE", "AGGR", "NONE"]
        which = self.chance.pick(names)
        keep = which in ("FSM_AGGR", "PAGE") and self.chance.one_in(2)
        creation.set_file_space_strategy(getattr(h5f, f"FSPACE_STRATEGY_{which}"), keep, self.chance.pick([1, 20]))
        if which == "PAGE":
            creation.set_file_space_page_size(self.chance.pick([512, 4096]))
        self.seen[f"file space {which}{', persistent' if keep else ''}"] += 1

    def share(self, creation: h5p.PropFCID) -> None:
        self.call("H5Pset_shared_mesg_nindexes", creation, 2)
        self.call("H5Pset_shared_mesg_index", creation, 0, 0x2 | 0x8 | 0x20 | 0x800, self.chance.pick([0, 40]))
        self.call("H5Pset_shared_mesg_index", creation, 1, 0x1000, 30)
        if self.chance.one_in(2):
            self.call("H5Pset_shared_mesg_phase_change", creation, 4, 2)

    def call(self, name: str, plist: h5p.PropID, *values: int) -> None:
        LIBRARY.call(name, plist.id, *values)

    def make(self) -> Made:
        name = os.fsencode(self.made.path)
        if self.chance.one_in(80):
            return self.make_pieces()
        with h5py.File(h5f.create(name, h5f.ACC_TRUNC, self.creation(), self.access(*self.versions))) as file:
            self.fill(file)
        for _ in range(self.chance.pick([0, 0, 1, 2])):
            low = self.chance.pick([name for name in VERSIONS if VERSIONS[name] <= VERSIONS[self.versions[1]]])
            self.seen["file opened again"] += 1
            access = self.access(low, self.versions[1])
            with h5py.File(h5f.open(name, h5f.ACC_RDWR, access)) as file:
                self.remove(file)
                self.fill(file)
        return self.made

    def make_pieces(self) -> Made:
        """A file in several, which bitrift refuses."""
        folder, stem = self.made.path.parent, self.made.path.stem
        with h5py.File(folder / f"{stem}-%d.h5", "w", driver="family", memb_size=4096, libver=self.versions) as file:
            file["data"] = np.arange(2000.0)
        self.made.path = folder / f"{stem}-0.h5"
        self.seen["file of several pieces"] += 1
        return self.made

    def fill(self, file: h5py.File) -> None:
        groups = [file.id]
        for _ in range(self.chance.between(1, 9)):
            parent = self.chance.pick(groups)
            step = self.chance.pick(
                [self.dataset] * 6 + [self.group, self.group, self.links, self.committed, self.virtual]
            )
            try:
                new = step(parent)
            except REFUSED as error:
                self.seen["refused by libhdf5"] += 1
                self.seen[f"refused by libhdf5: {str(error)[:60]}"] += 1
                continue
            if isinstance(new, h5g.GroupID):
                groups.append(new)
        for target in groups:
            if self.chance.one_in(3):
                self.attributes(target)

    def remove(self, file: h5py.File) -> None:
        names = [name for name in file if self.chance.one_in(3)]
        for name in names:
            del file[name]
            self.seen["object deleted"] += 1

    def dataset(self, parent: h5g.GroupID) -> None:
        name = self.name()
        self.datasets.create(parent, name)
        if self.chance.one_in(3):
            self.attributes(h5d.open(parent, name))

    def virtual(self, parent: h5g.GroupID) -> None:
        self.datasets.virtual(parent, self.name())

    # Groups, links, attributes

    def group_options(self, creation: h5p.PropOCID) -> None:
        options: dict[str, Callable[[], None]] = {
            "link order": lambda: creation.set_link_creation_order(self.chance.pick([1, 3])),
            "attribute order": lambda: creation.set_attr_creation_order(self.chance.pick([1, 3])),
            "dense links": lambda: self.call("H5Pset_link_phase_change", creation, *self.chance.pick([(0, 0), (2, 1)])),
            "dense attributes": lambda: creation.set_attr_phase_change(0, 0),
        }
        for name, option in options.items():
            if self.chance.one_in(6):
                option()
                self.seen[f"group with {name}"] += 1

    def group(self, parent: h5g.GroupID) -> h5g.GroupID:
        creation = h5p.create(h5p.GROUP_CREATE)
        self.group_options(creation)
        if self.chance.one_in(40):
            self.call("H5Pset_deflate", creation, 6)
            self.call("H5Pset_link_phase_change", creation, 0, 0)
            self.seen["group with filters"] += 1
        self.seen["group"] += 1
        made = h5g.create(parent, self.name(), gcpl=creation)
        if self.chance.one_in(4):
            for _ in range(self.chance.pick([9, 40, 300])):
                made.links.create_soft(self.name(), b"/nowhere")
            self.seen["group of many links"] += 1
        return made

    def links(self, parent: h5g.GroupID) -> None:
        members: list[bytes] = []
        parent.links.iterate(members.append)
        which = self.chance.pick(["soft", "external", "hard", "hard"])
        if which == "soft":
            parent.links.create_soft(self.name(), self.chance.pick([b"/", b"/nothing", b"../x"]))
        elif which == "external":
            parent.links.create_external(self.name(), b"other.h5", b"/x")
        else:
            target = self.chance.pick([*members, b"."])
            parent.links.create_hard(self.name(), parent, target)
        self.seen[f"{which} link"] += 1

    def committed(self, parent: h5g.GroupID) -> None:
        kind = self.types.any()
        kind.commit(parent, self.name())
        self.seen["committed type"] += 1
        plan = Plan(kind, (3,), (3,), h5p.create(h5p.DATASET_CREATE))
        self.datasets.write(parent, self.name(), plan)
        self.attribute(parent, kind)

    def attributes(self, target: h5g.GroupID | h5d.DatasetID) -> None:
        for _ in range(self.chance.pick([1, 2, 5, 12])):
            try:
                self.attribute(target, self.types.any(whole=self.chance.one_in(4)))
            except REFUSED:
                self.seen["refused by libhdf5"] += 1

    def attribute(self, target: h5g.GroupID | h5d.DatasetID, kind: h5t.TypeID) -> None:
        shape = self.chance.pick([None, (), (), (1,), (3,), (2, 0), (2, 3), (9000 // kind.get_size() + 1,)])
        made = h5a.create(target, self.name(), kind, space_of(shape))
        self.seen["attribute"] += 1
        if shape is not None and is_plain(kind) and np.prod(shape) > 0:
            count = int(np.prod(shape))
            made.write(self.chance.raw(count, kind.get_size()).view(f"V{kind.get_size()}").reshape(shape), kind)
        elif shape == () and kind.get_class() == h5t.STRING:
            made.write(np.array("täxt", h5py.string_dtype()))
