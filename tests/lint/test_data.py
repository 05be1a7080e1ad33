"""The shipped data are what their documents say, read by nothing but gzip and struct."""

from __future__ import annotations

import gzip
import hashlib
import struct
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "data"
DIGITS = DATA / "digits"
SHAPES = {
    "train-images-idx3-ubyte.gz": (1437, 8, 8),
    "train-labels-idx1-ubyte.gz": (1437,),
    "t10k-images-idx3-ubyte.gz": (360, 8, 8),
    "t10k-labels-idx1-ubyte.gz": (360,),
}
PIXEL_LEVELS = {(v * 255 + 8) // 16 for v in range(17)}


def parse_idx(content: bytes) -> tuple[tuple[int, ...], bytes]:
    """Shape and data of an IDX file of uint8; AssertionError on any other."""
    zeros, kind, rank = struct.unpack_from(">HBB", content)
    assert (zeros, kind) == (0, 0x08), "not an IDX file of uint8"
    shape = struct.unpack_from(f">{rank}I", content, 4)
    return shape, content[4 + 4 * rank :]


def load(name: str) -> tuple[tuple[int, ...], bytes]:
    return parse_idx(gzip.decompress((DIGITS / name).read_bytes()))


@pytest.mark.parametrize(
    ("folder", "files"), [("digits", set(SHAPES)), ("jargon", {"jargon.txt.gz"}), ("lenet", {"lenet.h5"})]
)
def test_checksums_cover_every_file_and_match(folder: str, files: set[str]) -> None:
    listed = {}
    for line in (DATA / folder / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        listed[name] = digest
    shipped = {path.name for path in (DATA / folder).iterdir() if path.suffix in {".gz", ".h5"}}
    assert set(listed) == shipped == files
    for name, digest in listed.items():
        assert hashlib.sha256((DATA / folder / name).read_bytes()).hexdigest() == digest, name


@pytest.mark.parametrize("name", SHAPES)
def test_header_and_length_agree(name: str) -> None:
    shape, body = load(name)
    assert shape == SHAPES[name]
    count = 1
    for size in shape:
        count *= size
    assert len(body) == count


@pytest.mark.parametrize("name", [*(f"digits/{name}" for name in SHAPES), "jargon/jargon.txt.gz"])
def test_gzip_header_carries_neither_time_nor_name(name: str) -> None:
    header = (DATA / name).read_bytes()[:10]
    assert header[:3] == b"\x1f\x8b\x08"
    assert header[3] == 0, "flags: a name or a comment"
    assert header[4:8] == bytes(4), "modification time"


@pytest.mark.parametrize("prefix", ["train", "t10k"])
def test_pixels_take_the_seventeen_levels_and_labels_all_ten_classes(prefix: str) -> None:
    _, pixels = load(f"{prefix}-images-idx3-ubyte.gz")
    assert set(pixels) == PIXEL_LEVELS
    _, labels = load(f"{prefix}-labels-idx1-ubyte.gz")
    assert set(labels) == set(range(10))


def test_first_samples_are_those_of_the_source() -> None:
    """Sample 0 of the source, a zero, is the first test image; sample 1, a one, the first training image."""
    first_row = [0, 0, 5, 13, 9, 1, 0, 0]
    _, test_pixels = load("t10k-images-idx3-ubyte.gz")
    assert list(test_pixels[:8]) == [(v * 255 + 8) // 16 for v in first_row]
    assert load("t10k-labels-idx1-ubyte.gz")[1][0] == 0
    assert list(load("train-labels-idx1-ubyte.gz")[1][:4]) == [1, 2, 3, 4]


def test_the_text_is_what_its_readme_says() -> None:
    text = gzip.decompress((DATA / "jargon" / "jargon.txt.gz").read_bytes())
    readme = (DATA / "jargon" / "README.md").read_text()
    assert hashlib.sha256(text).hexdigest() in readme
    assert f"{len(text):,} bytes" in readme
    assert f"{text.count(10):,} lines" in readme
    assert f"{len(set(text))} different characters" in readme
    assert text.isascii() and text.startswith(b"The Jargon File (version 4.4.7, 29 Dec 2003)\n")
    assert b"This document (the Jargon File) is in the public domain" in text
