"""Words that mutations of JSON may use."""

from __future__ import annotations

import json
from collections.abc import Iterator

JSON_WORDS = [b'"', b"[", b"]", b"{", b"}", b":", b",", b"null", b"true", b"1e308", b"-1", b"18446744073709551615"]


def words_of(value: object) -> Iterator[bytes]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield json.dumps(key).encode()
            yield from words_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from words_of(inner)
    elif isinstance(value, str):
        yield json.dumps(value).encode()
