"""Includes point one way, and a foreign API has one room."""

from __future__ import annotations

from pathlib import Path

import pytest
from house import ROOT
from include_graph import includes

# A room may include itself and these (CONTRIBUTING.md has the same table).
ROOMS: dict[str, set[str]] = {
    "core": set(),
    "record": {"core"},
    "h5": {"core"},
    "h5map": {"core"},
    "ckpt": {"h5", "h5map", "core", "record"},
    "inject": {"ckpt", "h5map", "record", "core"},
    "mpi": {"core"},
    "nn": {"core"},
    "train": {"nn", "mpi", "ckpt", "record", "core"},
    "analyze": {"record", "core"},
    "campaign": {"analyze", "inject", "ckpt", "record", "core"},
}
# Foreign header (the first part of its path, or its name) to the folders of src/ that may include it.
FOREIGN = {
    "hdf5.h": {"h5"},
    "hdf5_hl.h": {"h5"},
    "mpi.h": {"mpi"},
    "mpi-ext.h": {"mpi"},
    "torch": {"nn", "train"},
    "ATen": {"nn", "train"},
    "c10": {"nn", "train"},
    "valijson": {"record"},
    "xxhash.h": {"core"},
    "libdeflate.h": {"h5map"},
    "jpeglib.h": {"nn"},
    "png.h": {"nn"},
    "boost": {"analyze"},
}


def problems(root: Path) -> list[str]:
    """One line for each include under root/src, root/tools or root/python that breaks a rule."""
    out = []
    files = [path for folder in ("src", "tools", "python") for path in sorted((root / folder).rglob("*.*"))]
    for path in files:
        if path.suffix not in {".h", ".cpp"}:
            continue
        parts = path.relative_to(root).parts
        room = parts[1] if parts[0] == "src" else None
        if room is not None and room not in ROOMS:
            out.append(f"{path.relative_to(root)}: '{room}' is not a room")
            continue
        own = path.with_suffix(".h")
        if room is not None and path.suffix == ".cpp" and own.exists():
            first = next(iter(includes(path)), None)
            wanted = own.relative_to(root / "src").as_posix()
            if first is None or first.name != wanted:
                out.append(f"{path.relative_to(root)}: includes {wanted} first, to show that it stands alone")
        for include in includes(path):
            place = f"{path.relative_to(root)}:{include.line}"
            target = include.name.split("/")[0]
            if room is not None and target in ROOMS and target != room and target not in ROOMS[room]:
                out.append(f"{place}: {room}/ may not include {include.name}")
            if target in FOREIGN and room not in FOREIGN[target]:
                out.append(f"{place}: <{include.name}> belongs to {', '.join(sorted(FOREIGN[target]))}")
            if include.name.startswith(".."):
                out.append(f'{place}: includes are rooted at src/, not "{include.name}"')
    return out


def test_every_include_obeys() -> None:
    assert problems(ROOT) == []


def test_rooms_are_the_folders_of_src() -> None:
    assert {path.name for path in (ROOT / "src").iterdir() if path.is_dir()} == set(ROOMS)


def test_the_table_has_no_cycle() -> None:
    done: set[str] = set()
    while len(done) < len(ROOMS):
        ready = {room for room, used in ROOMS.items() if room not in done and used <= done}
        assert ready, f"cycle among {set(ROOMS) - done}"
        done |= ready


@pytest.mark.parametrize(
    ("path", "line", "complaint"),
    [
        ("src/core/a.h", '#include "record/json.h"', "core/ may not include record/json.h"),
        ("src/analyze/a.cpp", '#include "inject/plan.h"', "analyze/ may not include inject/plan.h"),
        ("src/campaign/a.cpp", '#include "train/session.h"', "campaign/ may not include train/session.h"),
        ("src/nn/a.cpp", '  #  include "mpi/communicator.h"', "nn/ may not include mpi/communicator.h"),
        ("src/record/a.h", "#include <core/../h5/handle.h>\n#include <h5/handle.h>", "may not include h5/handle.h"),
        ("src/ckpt/a.cpp", "#include <hdf5.h>", "<hdf5.h> belongs to h5"),
        ("tools/bitrift/a.cpp", "#include <hdf5.h>", "<hdf5.h> belongs to h5"),
        ("src/train/a.cpp", "#include <mpi.h>", "<mpi.h> belongs to mpi"),
        ("src/train/a.cpp", "#include <mpi-ext.h>", "<mpi-ext.h> belongs to mpi"),
        ("src/inject/a.h", "#include <torch/torch.h>", "<torch/torch.h> belongs to nn, train"),
        ("src/extra/a.h", "", "'extra' is not a room"),
        ("src/core/a.cpp", '#include "../core/error.h"', "includes are rooted at src/"),
    ],
)
def test_a_bad_include_is_found(tmp_path: Path, path: str, line: str, complaint: str) -> None:
    bad = tmp_path / path
    bad.parent.mkdir(parents=True)
    bad.write_text(f"// A file.\n#pragma once\n{line}\n")
    found = problems(tmp_path)
    assert any(complaint in one for one in found), found


def test_a_good_tree_is_left_alone(tmp_path: Path) -> None:
    good = tmp_path / "src" / "ckpt" / "a.cpp"
    good.parent.mkdir(parents=True)
    good.write_text('#include "ckpt/a.h"\n#include "h5/handle.h"\n#include <vector>\n// #include <hdf5.h>\n')
    assert problems(tmp_path) == []
