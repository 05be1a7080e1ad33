"""Files that h5py makes, and calls of bitrift, for the tests of its command line."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path

import h5py
import numpy as np

BITRIFT = Path(os.environ["BITRIFT_BIN_DIR"]) / "bitrift"

FORMATS = {
    "float64": "f8",
    "float32": "f4",
    "float16": "f2",
    "int8": "i1",
    "int16": "i2",
    "int32": "i4",
    "int64": "i8",
    "uint8": "u1",
    "uint16": "u2",
    "uint32": "u4",
    "uint64": "u8",
}


def run(*arguments: object, code: int = 0, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs bitrift and checks its exit code."""
    done = subprocess.run(
        [BITRIFT, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False, **options
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def run_json(*arguments: object, code: int = 0) -> dict:
    """What bitrift prints with --json."""
    return json.loads(run(*arguments, "--json", code=code).stdout)


def refused(*arguments: object, says: str, **options: object) -> str:
    """Runs bitrift, which must refuse with exit code 2, nothing on stdout and one line on stderr."""
    done = run(*arguments, code=2, **options)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("bitrift: error: ")
    assert says in done.stderr, done.stderr
    return done.stderr


def undo_ranges(path: Path) -> list[tuple[int, bytes, bytes]]:
    """What an undo journal holds: offset, bytes before, bytes after (docs/faults.md, "Undo journal")."""
    head, _, payload = path.read_bytes().partition(b"\n")
    ranges, at = [], 0
    for _ in range(json.loads(head)["ranges"]):
        offset, size = struct.unpack_from("<QQ", payload, at)
        at += 16
        ranges.append((offset, payload[at : at + size], payload[at + size : at + 2 * size]))
        at += 2 * size
    assert len(payload) - at == json.loads(head)["tail"]
    return ranges


def crc32c(data: bytes) -> int:
    """CRC-32C, bit by bit, as RFC 3720 defines it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def bfloat16_type(order: str = "<") -> h5py.h5t.TypeID:
    """The custom floating type of bfloat16."""
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_precision(16)
    kind.set_size(2)
    kind.set_ebias(127)
    kind.set_order(h5py.h5t.ORDER_BE if order == ">" else h5py.h5t.ORDER_LE)
    return kind


def write_bfloat16(file: h5py.File, name: str, values: np.ndarray, order: str = "<") -> None:
    """Stores the upper halves of float32 values."""
    space = h5py.h5s.create_simple(values.shape)
    kind = bfloat16_type(order)
    dataset = h5py.h5d.create(file.id, name.encode(), kind, space)
    raw = (values.astype("<f4").view("<u4") >> 16).astype(order + "u2")
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.frombuffer(raw.tobytes(), "u1").copy().view("V2"), kind)


def random_values(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Finite numbers of any dtype, of every sign."""
    generator = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    limits = np.iinfo(kind)
    return generator.integers(limits.min, limits.max, shape, dtype=kind.newbyteorder("="), endpoint=True).astype(dtype)


def every_format(path: Path) -> Path:
    """A file with one contiguous dataset per number format and byte order."""
    with h5py.File(path, "w") as file:
        for name, code in FORMATS.items():
            for order, letter in (("le", "<"), ("be", ">")):
                file[f"{name}/{order}"] = random_values(letter + code, (3, 5))
        for order, letter in (("le", "<"), ("be", ">")):
            write_bfloat16(file, f"bf16_{order}", random_values("<f4", (3, 5)), letter)
    return path


def model_file(path: Path, elements: int = 300) -> Path:
    """A checkpoint with weights, a norm layer, momentum, and the table of checksums."""
    tensors = {
        "model/conv1.weight": random_values("<f4", (elements // 3, 3)),
        "model/conv1.bias": random_values("<f4", (7,)),
        "model/bn.weight": random_values("<f4", (7,)),
        "model/bn.running_mean": random_values("<f4", (7,)),
        "model/bn.num_batches_tracked": np.array(40, "<i8"),
        "model/conv10.weight": random_values("<f4", (4,)),
        "optimizer/momentum_buffer/conv1.weight": random_values("<f4", (elements // 3, 3), 1),
        "progress/step": np.array(12, "<i8"),
    }
    names = sorted(tensors)
    with h5py.File(path, "w") as file:
        for name in names:
            file[name] = tensors[name]
        file["checksum/path"] = np.array([name.encode() for name in names])
        file["checksum/crc32c"] = np.array([crc32c(tensors[name].tobytes()) for name in names], "<u4")
        file.attrs["schema"] = "1"
    return path


def offset_of(path: Path, name: str) -> int:
    """Where the bytes of a contiguous dataset begin, as h5py says."""
    with h5py.File(path) as file:
        return file[name].id.get_offset()


def changed_bytes(before: bytes, after: bytes) -> dict[int, int]:
    """Place and XOR of each byte that differs."""
    assert len(before) == len(after)
    a, b = np.frombuffer(before, "u1"), np.frombuffer(after, "u1")
    return {int(place): int(a[place] ^ b[place]) for place in np.nonzero(a != b)[0]}


def names_in(folder: Path) -> list[str]:
    """All names in a folder, hidden ones included."""
    return sorted(entry.name for entry in folder.iterdir())
