"""The inputs that fuzzing starts from: small files of every kind, and words that mutations may use.

corpus.py FOLDER writes FOLDER/<target>/<seed> and FOLDER/<target>.dict; what is there already stays.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import archive_seeds
import h5py
import numpy as np
import schedule_seeds
import seal_seeds
from h5py import h5d, h5f, h5p, h5s, h5t
from json_words import JSON_WORDS, words_of

Fill = Callable[[h5py.File], None]
MOST_BYTES = 12_500


def call(name: str, *values: int) -> None:
    """What h5py has no names for, in the library that it has loaded."""
    loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libhdf5" in line}
    function = getattr(ctypes.CDLL(next(one for one in loaded if "_hl" not in one)), name)
    function.argtypes = [ctypes.c_int64] + [ctypes.c_uint] * (len(values) - 1)
    if function(*values) < 0:
        raise RuntimeError(f"{name}{values} failed")


def raw(file: h5py.File, name: str, kind: h5t.TypeID, count: int = 3) -> None:
    h5d.create(file.id, name.encode(), kind, h5s.create_simple((count,)))


def numbers(file: h5py.File) -> None:
    for text in ("<f2", ">f4", "<f8", "i1", ">u2", "<i8", "?"):
        file[text[-2:]] = np.arange(4).astype(text)
    small = h5t.STD_I32LE.copy()
    small.set_precision(12)
    small.set_offset(4)
    raw(file, "padded", small)
    short = h5t.IEEE_F32LE.copy()
    short.set_fields(15, 7, 8, 0, 7)
    short.set_precision(16)
    short.set_size(2)
    raw(file, "bfloat16", short)


def types(file: h5py.File) -> None:
    file["text"] = np.array([b"abc", b"de"])
    file["complex"] = np.arange(3, dtype="c8")
    file["opaque"] = np.array([b"12", b"34"], dtype="V2")
    inner = np.dtype([("x", "<f4"), ("y", ">i2", (2,))])
    file["pairs"] = np.zeros(2, np.dtype([("p", inner), ("q", "u1")]))
    file.create_dataset("colours", (4,), dtype=h5py.enum_dtype({"red": 0, "blue": 7}, basetype="i2"))
    raw(file, "array", h5t.array_create(h5t.IEEE_F32BE, (2, 3)))
    file["kind"] = np.dtype("f4")
    file.create_dataset("committed", (3,), dtype=file["kind"])


def shapes(file: h5py.File) -> None:
    file["scalar"] = np.float32(3)
    file["null"] = h5py.Empty("f4")
    file["empty"] = np.zeros((3, 0, 2), "f8")
    file.create_dataset("unwritten", (100, 3), dtype="f8")
    file.create_dataset("filled", (5,), dtype="i4", fillvalue=7)
    file.create_dataset("huge", (1 << 40, 1 << 20), dtype="u1", chunks=(1024, 1024))


def plain_storage(file: h5py.File) -> None:
    data = np.arange(6, dtype="f4")
    compact = h5p.create(h5p.DATASET_CREATE)
    compact.set_layout(h5d.COMPACT)
    h5d.create(file.id, b"compact", h5t.IEEE_F32LE, h5s.create_simple((6,)), compact).write(h5s.ALL, h5s.ALL, data)
    file["contiguous"] = data
    file.create_dataset("external", (6,), "f4", external=[("raw.bin", 0, 24)])


def in_heaps(file: h5py.File) -> None:
    file.create_dataset("varying", data=["a", "bc"], dtype=h5py.string_dtype())
    layout = h5py.VirtualLayout((6,), "f4")
    layout[::2] = h5py.VirtualSource("other.h5", "data", (3,))
    file.create_virtual_dataset("virtual", layout)


def chunked(file: h5py.File, name: str, early: bool = False, **options: Any) -> None:
    data = np.arange(24, dtype="f4").reshape(4, 6) // 12  # LZF leaves small chunks alone that it cannot shorten
    if not early:
        file.create_dataset(name, data=data, **options)
        return
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_chunk((2, 3))
    plist.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    h5d.create(file.id, name.encode(), h5t.IEEE_F32LE, h5s.create_simple((4, 6)), plist).write(h5s.ALL, h5s.ALL, data)


# In new files each has another index; in old ones all have B-trees.
INDEXES: dict[str, dict[str, Any]] = {
    "single": {"chunks": (4, 6)},
    "single_gzip": {"chunks": (4, 6), "compression": "gzip"},
    "implicit": {"early": True},
    "fixed": {"chunks": (2, 3)},
    "fixed_gzip": {"chunks": (3, 4), "compression": "gzip", "shuffle": True, "fletcher32": True},
    "extensible": {"chunks": (1, 3), "maxshape": (None, 6)},
    "extensible_lzf": {"chunks": (2, 6), "maxshape": (None, 6), "compression": "lzf"},
    "tree": {"chunks": (2, 3), "maxshape": (None, None)},
    "tree_gzip": {"chunks": (2, 3), "maxshape": (None, None), "compression": "gzip"},
    "fletcher": {"chunks": (2, 3), "fletcher32": True},
    "szip": {"chunks": (4, 6), "compression": "szip"},
    "scaled": {"chunks": (4, 6), "scaleoffset": 2},
}


def groups(file: h5py.File) -> None:
    file["a/b/data"] = np.arange(4.0)
    file["a/again"] = file["a/b/data"]
    file["a/circle"] = file["a"]
    file["soft"] = h5py.SoftLink("/a/b/data")
    file["outside"] = h5py.ExternalLink("other.h5", "/x")
    file["ü"] = np.arange(2.0)
    file.create_group("nothing")


def dense_links(file: h5py.File) -> None:
    for index in range(12):
        file[f"link {index}"] = h5py.SoftLink("/data")
    file["data"] = np.arange(3.0)


def attributes(file: h5py.File) -> None:
    file["data"] = np.arange(3.0)
    for target in (file, file["data"]):
        target.attrs["number"] = np.float32(1.5)
        target.attrs["text"] = "variable"
        target.attrs["bytes"] = np.bytes_(b"fixed")
        target.attrs["pairs"] = np.zeros(2, np.dtype([("a", "f4"), ("b", "i8")]))


def dense_attributes(file: h5py.File) -> None:
    file["data"] = np.arange(3.0)
    for index in range(9):
        file["data"].attrs[f"a{index}"] = np.arange(index, dtype="f4")


def model(file: h5py.File) -> None:
    weights = {"model/conv1.weight": np.ones((2, 3), "<f4"), "optimizer/momentum": np.ones(6, "<f4")}
    for name, values in weights.items():
        file[name] = values
    file["checksum/path"] = np.array([name.encode() for name in weights])
    file["checksum/crc32c"] = np.array([zlib.crc32(values.tobytes()) for values in weights.values()], "<u4")
    file.attrs["schema"] = np.bytes_(b"bitrift/checkpoint/1")


def keras(file: h5py.File) -> None:
    file.attrs["layer_names"] = [b"dense"]
    file.attrs["backend"] = np.bytes_(b"tensorflow")
    file["dense/kernel:0"] = np.ones((2, 3), "f4")
    file["dense/bias:0"] = np.ones(3, "f4")
    file["dense"].attrs["weight_names"] = [b"kernel:0", b"bias:0"]


# Paths with shapes as other programs lay their checkpoints out.
LAYOUTS: dict[str, dict[str, tuple[int, ...]]] = {
    "keras3": {"layers/dense/vars/0": (2, 3), "layers/dense/vars/1": (3,), "layers/batch_normalization/vars/3": (2,)}
    | {f"optimizer/vars/{i}": (2,) for i in range(4)},
    "chainer": {
        "updater/model:main/l1/W": (2, 3),
        "updater/model:main/l1/b": (2,),
        "updater/optimizer:main/l1/W/v": (2, 3),
    },
    "caffe": {
        "data/conv1/0": (2, 1, 2, 2),
        "data/conv1/1": (2,),
        "data/bn/0": (2,),
        "data/bn/1": (2,),
        "data/bn/2": (1,),
    }
    | {f"history/{i}": (2,) for i in range(4)},
    "pytorch": {
        "model/bn1.weight": (2,),
        "model/bn1.bias": (2,),
        "model/bn1.running_mean": (2,),
        "model/fc.weight": (3, 2),
    }
    | {"optimizer/state/0/exp_avg": (2,), "optimizer/state/0/step": ()},
}


def laid_out(file: h5py.File, shapes: dict[str, tuple[int, ...]]) -> None:
    for path, shape in shapes.items():
        file[path] = np.ones(shape, "f4")


def deep_heap(file: h5py.File) -> None:
    file["data"] = np.arange(3.0)
    for index in range(10):
        file["data"].attrs[f"a{index}"] = np.zeros(90, "f4")


def huge_attribute(file: h5py.File) -> None:
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_attr_phase_change(0, 0)
    h5d.create(file.id, b"data", h5t.IEEE_F32LE, h5s.create_simple((3,)), plist)
    file["data"].attrs["small"] = np.float32(1)
    file["data"].attrs["huge"] = np.zeros(4200, "u1")


def paged(file: h5py.File) -> None:
    made = file.create_dataset("fixed", (1100,), "u1", chunks=(1,))
    made[3], made[1090] = 1, 2


def paged_growing(file: h5py.File) -> None:
    file.create_dataset("growing", (200_000,), "u1", chunks=(1,), maxshape=(None,))[140_000] = 3


def edge_chunks(file: h5py.File) -> None:
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_chunk((4,))
    plist.set_deflate(6)
    call("H5Pset_chunk_opts", plist.id, 2)  # H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS
    made = h5d.create(file.id, b"w", h5t.IEEE_F32LE, h5s.create_simple((6,)), plist)
    made.write(h5s.ALL, h5s.ALL, np.arange(6, dtype="f4"))


def shared(file: h5py.File) -> None:
    for index in range(3):
        file.create_dataset(f"d{index}", data=np.zeros((2, 2), [("a", "f4"), ("b", "i8")]), chunks=(1, 2))
        file[f"d{index}"].attrs["same"] = np.arange(20, dtype="f8")


FILES: dict[str, Fill] = {
    "numbers": numbers,
    "types": types,
    "shapes": shapes,
    "plain": plain_storage,
    "in_heaps": in_heaps,
    "groups": groups,
    "dense_links": dense_links,
    "attributes": attributes,
    "dense_attributes": dense_attributes,
    "model": model,
    "keras": keras,
    **{f"chunked_{name}": partial(chunked, name="w", **options) for name, options in INDEXES.items()},
}


def made(folder: Path, libver: str, fill: Fill, prepare: Callable[[h5p.PropFCID], None] = lambda _: None) -> bytes:
    path = folder / "made.h5"
    creation, access = h5p.create(h5p.FILE_CREATE), h5p.create(h5p.FILE_ACCESS)
    low = {"old": h5f.LIBVER_EARLIEST, "v110": h5f.LIBVER_V110, "new": h5f.LIBVER_LATEST}[libver]
    access.set_libver_bounds(low, h5f.LIBVER_LATEST)
    prepare(creation)
    with h5py.File(h5f.create(os.fsencode(path), h5f.ACC_TRUNC, creation, access)) as file:
        fill(file)
    content = path.read_bytes()
    path.unlink()
    return content


def ordered(creation: h5p.PropFCID) -> None:
    creation.set_link_creation_order(h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED)
    creation.set_attr_creation_order(h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED)


def sharing(creation: h5p.PropFCID) -> None:
    call("H5Pset_shared_mesg_nindexes", creation.id, 2)
    call("H5Pset_shared_mesg_index", creation.id, 0, 0x2 | 0x8 | 0x20 | 0x800, 0)
    call("H5Pset_shared_mesg_index", creation.id, 1, 0x1000, 30)


def hdf5_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for name, fill in FILES.items():
        for libver in ("old", "new"):
            yield f"{name}_{libver}", made(folder, libver, fill)
    for libver in ("old", "v110", "new"):
        yield f"user_{libver}", made(folder, libver, groups, lambda c: c.set_userblock(512))
        yield f"narrow_{libver}", made(folder, libver, numbers, lambda c: c.set_sizes(4, 4))
        yield f"ordered_{libver}", made(folder, libver, dense_attributes, ordered)
    for name, shapes_of in LAYOUTS.items():
        yield name, made(folder, "new", partial(laid_out, shapes=shapes_of))
    for fill in (deep_heap, huge_attribute, edge_chunks):
        yield fill.__name__, made(folder, "new", fill)
    for fill in (paged, paged_growing):
        yield fill.__name__, made(folder, "new", fill, lambda c: c.set_sizes(4, 4))
    yield "shared", made(folder, "new", shared, sharing)
    yield (
        "space_new",
        made(folder, "new", groups, lambda c: c.set_file_space_strategy(h5f.FSPACE_STRATEGY_FSM_AGGR, True, 1)),
    )


def models() -> Iterator[dict[str, object]]:
    full: dict[str, object] = {
        "tensors": [],
        "roles": [],
        "bits": "any",
        "what": "flip",
        "measure": "bit",
        "plane": "value",
    }
    full |= {"seed": 7, "allow_nan": True, "keep_sign": False}
    yield full | {"count": 3}
    yield full | {"fraction": 0.5, "what": "zero", "roles": ["weight"]}
    yield full | {"ber": 0.01, "layers": ["first", "2"], "plane": "storage"}
    yield full | {"count": 1, "what": "burst", "length": 3, "bits": "0-7"}
    yield full | {"count": 1, "what": "xor", "mask": "0x5", "mask_at": "random", "keep_sign": True}
    yield full | {"count": 1, "what": "set", "value": "-1.5e3", "allow_nan": False}
    yield full | {"count": 1, "what": "scale", "factor": -2.5, "as": {"**": "bfloat16"}}
    yield full | {"count": 2, "what": "upset", "ecc": "secded", "upset_mode": "word", "upset_rates": "permanent"}
    yield full | {"count": 1, "what": "random", "bits": "exponent", "measure": "tensor", "scope": {"replicas": [0, 3]}}


def manifests() -> Iterator[dict[str, object]]:
    fault: dict[str, object] = {"tensor": "w", "role": "weight", "element": 3, "dtype": "float32", "bits": [4]}
    fault |= {"msb_first_bits": [27], "field": "mantissa", "old": "0x00000000", "new": "0x00000010"}
    fault |= {"old_value": "0", "new_value": "2.2e-44", "stratum": "weight.mantissa", "measure": "bit"}
    fault |= {"stratum_bits": 23, "stratum_elements": 1}
    stratum: dict[str, object] = {"stratum": "weight.mantissa", "role": "weight", "field": "mantissa"}
    stratum |= {"tensors": 1, "elements": 1, "bits": 23}
    for model in models():
        head: dict[str, object] = {"schema": "bitrift/fault-manifest/2", "provenance": {}, "model": model, "redrawn": 0}
        head |= {"base": {"path": "f.h5", "digest": "0" * 32}, "eligible_bits": 32, "eligible_elements": 1}
        yield head | {"strata": [stratum], "faults": [fault]}
        yield head | {"drawn": {"faults": 1, "digest": "0" * 32}}


def journals() -> Iterator[bytes]:
    content = bytes(range(32))
    ranges = struct.pack("<QQ", 4, 2) + content[4:6] + b"zz" + struct.pack("<QQ", 9, 1) + content[9:10] + b"z"
    for tail in (b"", b"tail"):
        head = {"schema": "bitrift/undo/2", "file_bytes": 32, "ranges": 2, "tail": len(tail), "crc32c": "00000000"}
        text = json.dumps(head, separators=(",", ":")).encode() + b"\n" + ranges + tail
        # The target takes from the end: which game, how many bytes the file has.
        yield text + content + tail + struct.pack("<H", len(content + tail)) + b"\0"
    yield bytes(range(64)) + b"\1"


def chunks() -> Iterator[bytes]:
    values = np.arange(64, dtype="f4").tobytes()
    for stored in (zlib.compress(values), values, b"\x20" * 40):
        for trailer in (b"\0\0", b"\1\1\1", b"\3\2\1\0\3\2\1\0"):
            yield stored + b"\0\1" + trailer


def deflate_streams() -> Iterator[bytes]:
    weights = np.random.default_rng(1).standard_normal(600, dtype="f4")
    phrases = b"".join(b"layer%d/weight, " % (i % 7) for i in range(90))
    contents = [weights.tobytes(), weights.view("u1").reshape(-1, 4).T.tobytes(), phrases, bytes(3000)]
    for content in contents:
        for level, strategy in ((0, zlib.Z_DEFAULT_STRATEGY), (6, zlib.Z_DEFAULT_STRATEGY), (6, zlib.Z_FIXED)):
            packer = zlib.compressobj(level, zlib.DEFLATED, -15, 1, strategy)
            half = packer.compress(content[:900]) + packer.flush(zlib.Z_SYNC_FLUSH)
            # The target takes the changes from the end.
            yield half + packer.compress(content[900:]) + packer.flush() + bytes(range(11))


def escaped(word: bytes) -> str:
    return '"' + "".join(f"\\x{byte:02x}" for byte in word) + '"'


HDF5_WORDS = [b"\x89HDF\r\n\x1a\n", b"TREE", b"SNOD", b"HEAP", b"GCOL", b"FRHP", b"FHDB", b"FHIB", b"BTHD", b"BTLF"]
HDF5_WORDS += [b"BTIN", b"OHDR", b"OCHK", b"FAHD", b"FADB", b"EAHD", b"EAIB", b"EADB", b"EASB", b"SMTB", b"SMLI"]
HDF5_WORDS += [b"FSHD", b"FSSE", b"\xff" * 8, b"\xff" * 4, b"\0\0\0\0\0\0\0\x80", b"\xff\xff\xff\xff\0\0\0\0"]


def write(folder: Path, target: str, seeds: dict[str, bytes], words: list[bytes]) -> None:
    (place := folder / target).mkdir(parents=True, exist_ok=True)
    for name, content in seeds.items():
        (place / name).write_bytes(content)
    if words:
        (folder / f"{target}.dict").write_text("".join(escaped(word) + "\n" for word in sorted(set(words))))


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    files = dict(hdf5_files(folder)) | archive_seeds.files()
    assert all(len(content) <= MOST_BYTES for content in files.values()), "larger seeds are mutated too slowly"
    write(folder, "list", files, HDF5_WORDS + archive_seeds.WORDS)
    # The model follows the file, and the target takes it from the end.
    planned = {f"{name}_{i}": content + bytes([i] * 20) for name, content in files.items() for i in (0, 1, 3, 7)}
    write(folder, "plan", planned, HDF5_WORDS + archive_seeds.WORDS)
    write(folder, "archive", archive_seeds.parts(), archive_seeds.WORDS)
    sets = archive_seeds.sets()
    assert all(len(content) <= 2 * MOST_BYTES for content in sets.values()), "larger seeds are mutated too slowly"
    write(folder, "set", sets, archive_seeds.WORDS + archive_seeds.SET_WORDS)
    texts = [*models(), *manifests()]
    words = JSON_WORDS + [word for text in texts for word in words_of(text)]
    as_seeds = {f"{i}": json.dumps(text).encode() for i, text in enumerate(texts)}
    write(folder, "model", {name: as_seeds[name] for name in list(as_seeds)[: len([*models()])]}, words)
    write(folder, "manifest", as_seeds, words)
    write(folder, "undo", {f"{i}": content for i, content in enumerate(journals())}, JSON_WORDS)
    write(folder, "schedule", schedule_seeds.files(), JSON_WORDS + schedule_seeds.WORDS)
    write(
        folder, "seal", {f"{i}": content for i, content in enumerate(seal_seeds.seals())}, JSON_WORDS + seal_seeds.WORDS
    )
    write(folder, "deflate", {f"{i}": stream for i, stream in enumerate(deflate_streams())}, [])
    write(folder, "codec", {f"{i}": content for i, content in enumerate(chunks())}, [])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
