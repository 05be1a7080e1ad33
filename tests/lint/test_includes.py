"""Includes point one way, a third-party API has one room, and folders stay small."""

from __future__ import annotations

from pathlib import Path

import pytest
from house import ROOT
from include_graph import includes

# A room may include itself and these (CONTRIBUTING.md has the same table).
ROOMS: dict[str, set[str]] = {
    "core": set(),
    "comm": {"core"},
    "wire": {"core"},
    "record": {"core"},
    "spec": {"record", "comm", "core"},
    "h5map": {"core"},
    "archive": {"core"},
    "filters": {"core"},
    "h5": {"filters", "core"},
    "ckpt": {"filters", "h5map", "archive", "record", "core"},
    "sink": {"ckpt", "archive", "h5", "core"},
    "inject": {"ckpt", "record", "core"},
    "mpi": {"comm", "core"},
    "h5parallel": {"h5", "mpi", "ckpt", "core"},
    "dataset": {"spec", "core"},
    "nn": {"dataset", "spec", "core"},
    "train": {"nn", "dataset", "comm", "mpi", "sink", "ckpt", "spec", "record", "wire", "core"},
    "integrity": {"inject", "ckpt", "archive", "h5map", "record", "core"},
    "design": {"inject", "ckpt", "spec", "record", "core"},
    "analyze": {"design", "spec", "record", "core"},
    "campaign": {"analyze", "design", "inject", "ckpt", "spec", "record", "wire", "core"},
    "study": {"campaign", "analyze", "design", "ckpt", "spec", "record", "wire", "core"},
}
# The sub-folders of a room, each of which may include those before it; "." are the files of the room itself.
ORDER: dict[str, list[str]] = {
    "core": [".", "text", "number", "process", "deflate"],
    "comm": [".", "graph", "model", "plan"],
    "record": ["json", "fault", "."],
    "dataset": ["image", "."],
    "h5map": ["structure", "message", "chunk", "filter", "."],
    "archive": [".", "pickle"],
    "ckpt": ["format", "container", "set", "dialect", "."],
    "sink": [".", "format"],
    "inject": [".", "upset", "draw", "write", "manifest"],
    "integrity": ["seal", "."],
    "design": ["kind", "."],
    "nn": ["layer", "vision", "text", "."],
    "train": ["fault", "step", "parallel", "state", "guard", "golden", "recover", "describe", "run", "serve"],
    "analyze": ["rates", "verdict", "views", "guards", ".", "process", "across"],
    "campaign": ["journal", "plan", "launch", "worker", "progress", "folder", "shard", "driver", "commands"],
    "study": ["row", "reader", "part", "replay", "kill", "state", "cost", "policy", "."],
}
MOST_FILES = 25  # in one folder
# Foreign header (the first part of its path, or its name) to the folders of src/ that may include it.
FOREIGN = {
    "hdf5.h": {"h5", "h5parallel"},
    "hdf5_hl.h": {"h5"},
    "mpi.h": {"mpi"},
    "mpi-ext.h": {"mpi"},
    "torch": {"dataset", "nn", "train"},
    "ATen": {"dataset", "nn", "train"},
    "c10": {"dataset", "nn", "train"},
    "valijson": {"record"},
    "xxhash.h": {"core"},
    "libdeflate.h": {"h5map", "archive"},
    "isa-l": {"integrity"},
    "zlib.h": {"archive", "dataset"},
    "jpeglib.h": {"dataset"},
    "png.h": {"dataset"},
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


def sub_folder(name: str) -> tuple[str, str]:
    """The room of an include or a path below src/, and its sub-folder, "." for files of the room itself."""
    parts = name.split("/")
    return parts[0], parts[1] if len(parts) > 2 else "."


def order_problems(root: Path) -> list[str]:
    """One line for each include in a room of root/src that leads from a sub-folder to a later one."""
    out = []
    for path in sorted((root / "src").rglob("*.*")):
        room, here = sub_folder(path.relative_to(root / "src").as_posix())
        order = ORDER.get(room, ["."])
        if here not in order:
            out.append(f"src/{room}/{here}: not in ORDER")
            continue
        for include in includes(path):
            target, there = sub_folder(include.name)
            if target == room and (there not in order or order.index(there) > order.index(here)):
                out.append(f"{path.relative_to(root)}:{include.line}: {here} may not include {include.name}")
    return sorted(set(out))


def shape_problems(root: Path) -> list[str]:
    """One line for each folder under root/src that is too full, source without a header, and name used twice."""
    out = []
    homes: dict[str, set[str]] = {}
    counts: dict[Path, int] = {}
    for path in sorted((root / "src").rglob("*.*")):
        name = path.relative_to(root).as_posix()
        counts[path.parent] = counts.get(path.parent, 0) + 1
        homes.setdefault(path.stem, set()).add(name.rpartition(".")[0])
        if path.suffix == ".cpp" and not path.with_suffix(".h").exists():
            out.append(f"{name}: has no header of its name")
    for folder, count in counts.items():
        if count > MOST_FILES:
            out.append(f"{folder.relative_to(root)}: {count} files, at most {MOST_FILES}")
    out += [f"the name is used twice: {', '.join(sorted(places))}" for places in homes.values() if len(places) > 1]
    return out


def circles(root: Path) -> list[str]:
    """Circles among the nouns of root/src, a header and its source being one."""
    uses: dict[str, set[str]] = {}
    for path in sorted((root / "src").rglob("*.*")):
        own = path.relative_to(root / "src").as_posix().rpartition(".")[0]
        found = {include.name.rpartition(".")[0] for include in includes(path) if not include.angled}
        uses.setdefault(own, set()).update(found - {own})
    while True:
        used_by_some = {noun for used in uses.values() for noun in used}
        ends = {noun for noun, used in uses.items() if not used & uses.keys() or noun not in used_by_some}
        if not ends:
            return [f"in a circle: {noun}" for noun in sorted(uses)]
        uses = {noun: used for noun, used in uses.items() if noun not in ends}


def test_sub_folders_have_an_order() -> None:
    assert order_problems(ROOT) == []


def test_folders_are_small_and_names_are_unique() -> None:
    assert shape_problems(ROOT) == []


def test_no_circle() -> None:
    assert circles(ROOT) == []


def test_what_breaks_the_shape_is_found(tmp_path: Path) -> None:
    files = {
        "train/run/a.h": '#include "train/serve/b.h"',
        "train/serve/b.h": '#include "train/run/a.h"',
        "train/odd/c.cpp": "",
        "core/a.h": "",
        **{f"core/file_{i}.h": "" for i in range(25)},
    }
    for name, text in files.items():
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert order_problems(tmp_path) == [
        "src/train/odd: not in ORDER",
        "src/train/run/a.h:1: run may not include train/serve/b.h",
    ]
    assert shape_problems(tmp_path) == [
        "src/train/odd/c.cpp: has no header of its name",
        "src/core: 26 files, at most 25",
        "the name is used twice: src/core/a, src/train/run/a",
    ]
    assert circles(tmp_path) == [
        "in a circle: train/run/a",
        "in a circle: train/serve/b",
    ]


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
        (
            "src/analyze/a.cpp",
            '#include "inject/draw/fault_plan.h"',
            "analyze/ may not include inject/draw/fault_plan.h",
        ),
        ("src/campaign/a.cpp", '#include "train/state/session.h"', "campaign/ may not include train/state/session.h"),
        ("src/nn/a.cpp", '  #  include "mpi/communicator.h"', "nn/ may not include mpi/communicator.h"),
        ("src/record/a.h", "#include <core/../h5/handle.h>\n#include <h5/handle.h>", "may not include h5/handle.h"),
        ("src/ckpt/a.cpp", "#include <hdf5.h>", "<hdf5.h> belongs to h5"),
        ("tools/bitrift/a.cpp", "#include <hdf5.h>", "<hdf5.h> belongs to h5"),
        ("src/train/a.cpp", "#include <mpi.h>", "<mpi.h> belongs to mpi"),
        ("src/train/a.cpp", "#include <mpi-ext.h>", "<mpi-ext.h> belongs to mpi"),
        ("src/inject/a.h", "#include <torch/torch.h>", "<torch/torch.h> belongs to dataset, nn, train"),
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
    good.write_text('#include "ckpt/a.h"\n#include "h5map/h5_file.h"\n#include <vector>\n// #include <hdf5.h>\n')
    assert problems(tmp_path) == []
