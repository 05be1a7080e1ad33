"""Seals, with the numbers that the target takes from the end: which game, bytes of the file, what they hold."""

from __future__ import annotations

import json
from collections.abc import Iterator

BLOCK = 4096


def made_up(size: int, data_rows: int, parity_rows: int, files: list[tuple[str, int]]) -> bytes:
    head: dict[str, object] = {"schema": "bitrift/seal/1", "bytes": size, "block_bytes": BLOCK}
    head |= {"data_rows": data_rows, "parity_rows": parity_rows}
    if files:
        head["files"] = [{"name": name, "bytes": count} for name, count in files]
    text = json.dumps(head, separators=(",", ":")).encode()
    front = b"brseal\r\n" + len(text).to_bytes(8, "little") + bytes(8) + text
    stripes = -(-size // (BLOCK * data_rows))
    return front + bytes(BLOCK - len(front)) + bytes(BLOCK * (1 + parity_rows * stripes))


def seals() -> Iterator[bytes]:
    for size, rows, parity, files in (
        (20_000, 200, 2, []),
        (5000, 1, 1, []),
        (20_000, 3, 2, [("a", 5000), ("b/c", 15_000)]),
    ):
        yield made_up(size, rows, parity, files) + b"\x00" + size.to_bytes(2, "little") + b"\x00"
    for last in (b"\x07\x33\x22\x11", bytes(range(40, 0, -1)), bytes(range(100))):
        yield last * 8 + b"\x01"


WORDS = [b"bitrift/seal/1", b'"data_rows":', b'"parity_rows":', b'"block_bytes":4096', b'"files":', b"brseal\r\n"]
