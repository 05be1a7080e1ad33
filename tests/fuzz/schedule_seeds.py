"""The allreduce schedules that fuzzing starts from."""

from __future__ import annotations

import json
from collections.abc import Iterator

WORDS = [b'"add"', b'"copy"', b'"sends"', b'"topology"', b'"chunks"', b'"dead"', b'"both"', b'[0,1,0,"add",[]]']


def schedules() -> Iterator[dict[str, object]]:
    """Allreduce schedules (docs/mesh.md): a line, a ring with a dead chip, two chunks, and one that is wrong."""
    line: list[list[object]] = [[0, 1, 0, "add", []], [2, 1, 0, "add", [0]], [1, 0, 0, "copy", [1]]]
    line.append([1, 2, 0, "copy", [1]])
    mesh = {"rows": 1, "columns": 3, "wrap": "neither", "dead": [], "dead_links": []}
    head: dict[str, object] = {"schema": 1, "scheme": "other", "chunks": 1}
    yield head | {"topology": mesh, "sends": line}
    yield head | {"topology": mesh, "sends": line[:3]}
    ring = {"rows": 2, "columns": 2, "wrap": "both", "dead": [3], "dead_links": []}
    sends: list[list[object]] = [[1, 0, 0, "add", []], [2, 0, 0, "add", [0]], [0, 1, 0, "copy", [1]]]
    sends.append([0, 2, 0, "copy", [1]])
    yield head | {"scheme": "trees", "topology": ring, "sends": sends}
    pair = {"rows": 2, "columns": 3, "wrap": "rows", "dead": [0, 2, 3, 5], "dead_links": [[0, 1]]}
    both: list[list[object]] = [
        [1, 4, 0, "add", []],
        [4, 1, 1, "add", []],
        [4, 1, 0, "copy", [0]],
        [1, 4, 1, "copy", [1]],
    ]
    yield head | {"scheme": "ring", "chunks": 2, "topology": pair, "sends": both}


def files() -> dict[str, bytes]:
    """The same as JSON."""
    return {f"{i}": json.dumps(schedule).encode() for i, schedule in enumerate(schedules())}
