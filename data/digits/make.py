#!/usr/bin/env python3
"""Writes the digits data set as four gzipped IDX files (the MNIST format) beside this script, and SHA256SUMS.

Needs scikit-learn, which carries the samples; nothing at build or run time does. Made with scikit-learn 1.9.1.

    python make.py [FOLDER]

Pixels are 4x4-block counts, 0..16; they become uint8 by (v * 255 + 8) // 16, that is v / 16 in 0..255, rounded to
nearest. The samples whose index is a multiple of five are the test set (360), all others the training set (1437);
both keep the order of the source.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

from sklearn.datasets import load_digits

SIDE = 8
IDX_UINT8 = 0x08


def idx(dimensions: Iterable[int], body: bytes) -> bytes:
    """An IDX file of uint8: two zero bytes, type, number of dimensions, big-endian sizes, then the data row-major."""
    sizes = list(dimensions)
    return struct.pack(f">BBBB{len(sizes)}I", 0, 0, IDX_UINT8, len(sizes), *sizes) + body


def compress(data: bytes) -> bytes:
    """gzip without a time and a file name, so that equal data give equal bytes."""
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=9, mtime=0) as stream:
        stream.write(data)
    return out.getvalue()


def files() -> dict[str, bytes]:
    """File name to gzipped content."""
    source = load_digits()
    images = (source.images.astype(int) * 255 + 8) // 16
    out = {}
    for prefix, is_test in (("train", False), ("t10k", True)):
        rows = [i for i in range(len(images)) if (i % 5 == 0) == is_test]
        pixels = bytes(int(v) for i in rows for v in images[i].reshape(-1))
        labels = bytes(int(source.target[i]) for i in rows)
        out[f"{prefix}-images-idx3-ubyte.gz"] = compress(idx((len(rows), SIDE, SIDE), pixels))
        out[f"{prefix}-labels-idx1-ubyte.gz"] = compress(idx((len(rows),), labels))
    return out


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    made = files()
    for name, content in made.items():
        (folder / name).write_bytes(content)
    sums = "".join(f"{hashlib.sha256(made[name]).hexdigest()}  {name}\n" for name in sorted(made))
    (folder / "SHA256SUMS").write_text(sums)
    print(sums, end="")


if __name__ == "__main__":
    main()
