"""Checkpoints in several files: listed as one, altered, undone, compared, verified; each read back by its library."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bitrift
import numpy as np
import pytest
import safetensors.torch
import torch
from set_files import KINDS, read_shards, save_distributed, save_folder, save_ranks, save_shards

# Keras converts its variables in a way that NumPy warns of.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")
PROGRAM = Path(os.environ.get("BITRIFT_BIN_DIR", ".")) / "bitrift"


def call(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)


def done(*words: object) -> str:
    ended = call(*words)
    assert ended.returncode == 0, (words, ended.stderr)
    return ended.stdout


def refused(*words: object) -> str:
    ended = call(*words)
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1, (ended.returncode, ended.stderr)
    return ended.stderr


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("set") / "ckpt"
    KINDS[request.param].save(folder)
    return request.param, folder


def changed_bits(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> dict[str, int]:
    assert before.keys() == after.keys()
    counts = {}
    for name, old in before.items():
        old_bytes, new_bytes = (np.frombuffer(one.tobytes(), np.uint8) for one in (old, after[name]))
        if count := int(np.unpackbits(old_bytes ^ new_bytes).sum()):
            counts[name] = count
    return counts


def test_lists_what_the_library_reads(kind: tuple[str, Path]) -> None:
    name, folder = kind
    listed = {one.path: one for one in bitrift.list_tensors(folder)}
    read = KINDS[name].read(folder)
    assert listed.keys() == read.keys()
    for path, one in listed.items():
        parts = 2 if ":" in path else 1  # real and imaginary
        assert one.stored_bytes == parts * read[path].nbytes, path
    told = json.loads(done("ls", folder, "--json"))
    assert {one["path"] for one in told["tensors"]} == read.keys()
    roles = {one["role"] for one in told["tensors"]}
    assert "weight" in roles and (name in ("Keras shards", "PyTorch shards", "pipeline") or "exp_avg" in roles)
    index = KINDS[name].index
    if index.endswith(".json") and name != "pipeline":
        assert done("ls", folder / index).splitlines()[1:] == done("ls", f"{folder}/").splitlines()[1:]


def test_faults_are_what_the_library_reads_back(kind: tuple[str, Path], tmp_path: Path) -> None:
    name, folder = kind
    before = KINDS[name].read(folder)
    out, manifest = tmp_path / "out", tmp_path / "faults.json"
    original = contents(folder)
    told = json.loads(done("inject", folder, "-o", out, "--count", 40, "--seed", 5, "--manifest", manifest, "--json"))
    expected: dict[str, int] = {}
    for fault in told["faults"]:
        expected[fault["tensor"]] = expected.get(fault["tensor"], 0) + len(fault["bits"])
    assert changed_bits(before, KINDS[name].read(out)) == expected
    altered = {path for path, data in contents(out).items() if data != original[path]}
    assert altered == {fault["file"] for fault in told["faults"]} and contents(folder) == original
    diff = json.loads(call("diff", folder, out, "--json").stdout)
    assert {one["path"]: one["bits"] for one in diff["differences"]} == expected
    done("inject", folder, "-o", tmp_path / "again", "--replay", manifest)
    assert contents(tmp_path / "again") == contents(out)
    assert call("verify", out).returncode == 0


def test_draws_cover_all_files(kind: tuple[str, Path]) -> None:
    """By their bits: 2,000 draws without a choice hit every file about as often as its share says."""
    _, folder = kind
    told = json.loads(done("inject", folder, "--dry-run", "--count", 2000, "--seed", 9, "--json"))
    hits: dict[str, int] = {}
    for fault in told["faults"]:
        hits[fault["file"]] = hits.get(fault["file"], 0) + len(fault["bits"])
    total = sum(hits.values())
    bits: dict[str, int] = {}
    for one in bitrift.list_tensors(folder):
        assert one.refusal == "", one
    drawn = {fault["tensor"] for fault in told["faults"]}
    sizes = {one.path: 8 * one.stored_bytes // (2 if ":" in one.path else 1) for one in bitrift.list_tensors(folder)}
    assert drawn >= {path for path, size in sizes.items() if size >= 40 * sum(sizes.values()) / 2000}
    files = {one["path"]: one["file"] for one in json.loads(done("ls", folder, "--json"))["tensors"]}
    for path, size in sizes.items():
        if ", " not in files[path]:
            bits[files[path]] = bits.get(files[path], 0) + size
    for file, size in bits.items():
        share = size / sum(sizes.values())
        assert hits.get(file, 0) / total >= share - 5 * (share / total) ** 0.5, file


def test_in_place_and_back(kind: tuple[str, Path], tmp_path: Path) -> None:
    name, folder = kind
    place = tmp_path / "here"
    shutil.copytree(folder, place)
    original = contents(place)
    before = KINDS[name].read(place)
    done("inject", place, "--in-place", "--count", 9, "--seed", 2)
    assert changed_bits(before, KINDS[name].read(place)) and contents(place) != original
    assert (tmp_path / "here.undo").is_file() and "undo it first" in refused("inject", place, "--in-place")
    done("undo", f"{place}/")
    assert contents(place) == original and not (tmp_path / "here.undo").exists()
    done("inject", place, "--in-place", "--count", 9, "--seed", 2)
    shard = place / KINDS[name].shard
    shard.write_bytes(shard.read_bytes() + b"x")
    assert "changed since" in refused("undo", place)


@pytest.mark.parametrize("plane", ["storage", "metadata"])
def test_other_planes(kind: tuple[str, Path], plane: str, tmp_path: Path) -> None:
    _, folder = kind
    original, out = contents(folder), tmp_path / "out"
    told = json.loads(done("inject", folder, "-o", out, "--plane", plane, "--count", 25, "--seed", 4, "--json"))
    bits: dict[str, int] = {}
    for fault in told["faults"]:
        bits[fault["file"]] = bits.get(fault["file"], 0) + len(fault["bits"])
    after = contents(out)
    found = {}
    for path, data in original.items():
        if data != after[path]:
            old, new = np.frombuffer(data, np.uint8), np.frombuffer(after[path], np.uint8)
            found[path] = int(np.unpackbits(old ^ new).sum())
    assert found == bits and sum(bits.values()) == 25


def test_what_is_missing_or_damaged_is_named(kind: tuple[str, Path], tmp_path: Path) -> None:
    name, folder = kind
    one = KINDS[name]
    if one.index:
        missing = tmp_path / "missing"
        shutil.copytree(folder, missing)
        (missing / one.shard).unlink()
        for command in ("ls", "verify"):
            told = refused(command, missing)
            assert f"{one.shard}: is missing" in told and one.index in told
    held = [tensor for tensor in bitrift.list_tensors(folder) if tensor.file == one.shard and tensor.offset]
    bad = tmp_path / "bad"
    shutil.copytree(folder, bad)
    data = bytearray((bad / one.shard).read_bytes())
    data[held[0].offset + 7] ^= 8
    (bad / one.shard).write_bytes(data)
    ended = call("verify", bad)
    if one.shard.endswith((".distcp", ".bin", ".pt")):  # they have sums
        assert ended.returncode == 1 and f"{one.shard}: member" in ended.stdout and held[0].path in ended.stdout
    else:
        assert ended.returncode == 0, ended.stdout
    cut = tmp_path / "cut"
    shutil.copytree(folder, cut)
    data = (cut / one.shard).read_bytes()
    (cut / one.shard).write_bytes(data[: len(data) // 2])
    assert one.shard in refused("ls", cut)


@pytest.mark.parametrize(
    ("weight_map", "told"),
    [
        ('{"a": "../model.safetensors"}', "not a name in its folder"),
        ('{"a": "/etc/passwd"}', "not a name in its folder"),
        ('{"a": "model-00001-of-00003.safetensors\\u0000.x"}', "not a name in its folder"),
        ('{"a": 3}', "not a name in its folder"),
        ('{"a": ["model-00001-of-00003.safetensors", null]}', "not a name in its folder"),
        ("{}", "names no file"),
        ('{"nowhere": "model-00001-of-00003.safetensors"}', "does not hold tensor nowhere"),
        ("[1]", "no object weight_map"),
        ('"text', "no object weight_map"),
    ],
)
def test_indexes_that_lie(weight_map: str, told: str, tmp_path: Path) -> None:
    folder = tmp_path / "ckpt"
    save_shards(folder)
    (folder / "model.safetensors.index.json").write_text('{"weight_map": ' + weight_map + "}")
    assert told in refused("ls", folder)


def test_which_of_several(tmp_path: Path) -> None:
    folder = tmp_path / "ckpt"
    save_shards(folder)
    for name in ("a.weights.json", "b.safetensors.index.json"):
        shutil.copy(folder / "model.safetensors.index.json", folder / name)
    assert "4 files" not in done("ls", folder)  # the names that transformers uses come first
    (folder / "model.safetensors.index.json").unlink()
    assert "name the index of one: a.weights.json, b.safetensors.index.json" in refused("ls", folder)
    done("ls", folder / "b.safetensors.index.json")


def test_outputs(tmp_path: Path) -> None:
    folder = tmp_path / "ckpt"
    save_shards(folder)
    (folder / "sub").mkdir()
    (folder / "sub" / "note.txt").write_text("kept")
    (folder / "link").symlink_to(folder / "config.json")
    assert "inside of the folder" in refused("inject", folder, "-o", folder / "out")
    assert "is the input file" in refused("inject", folder, "-o", f"{folder}/../ckpt")
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").touch()
    assert "exists already" in refused("inject", folder, "-o", full)
    done("inject", folder / "model.safetensors.index.json", "-o", tmp_path / "new/", "--seed", 1)
    assert (tmp_path / "new" / "sub" / "note.txt").read_text() == "kept"
    assert contents(tmp_path / "new").keys() == contents(folder).keys()
    assert {path.name for path in tmp_path.iterdir()} == {"ckpt", "full", "new"}
    (folder / "loop").symlink_to(folder)
    assert "symbolic link to a folder" in refused("inject", folder, "-o", tmp_path / "other", "--seed", 1)
    assert not (tmp_path / "other").exists() and not list(tmp_path.glob(".other*"))
    assert "several files" in refused("repair", folder, "-o", tmp_path / "fixed")


def test_parts_of_a_pipeline(tmp_path: Path) -> None:
    """Only the folders that it names belong to it, and none that is elsewhere."""
    folder = tmp_path / "pipeline"
    save_folder(folder)
    save_folder(tmp_path / "outside")
    save_folder(folder / "2_Dense")

    def files() -> set[str]:
        return {one["file"] for one in json.loads(done("ls", folder, "--json"))["tensors"]}

    alone = {"model.safetensors", "optimizer.pt"}
    assert files() == alone
    names = [
        "",
        ".",
        "2_Dense",
        "./2_Dense",
        "2_Dense",
        "3_Normalize",
        "../outside",
        str(tmp_path / "outside"),
        "nul\0",
    ]
    (folder / "modules.json").write_text(json.dumps([{"path": name} for name in names] + [3, {"path": 3}]))
    assert files() == alone | {"2_Dense/model.safetensors"}
    for text in ('{"2_Dense": ["a", "b"], "_version": "1", "../outside": ["a", "b"], "": []}', "[", "3"):
        (folder / "modules.json").unlink(missing_ok=True)
        (folder / "model_index.json").write_text(text)
        assert files() == alone | ({"2_Dense/model.safetensors"} if "Dense" in text else set())
    # Checkpoints of a run are not parts of one another.
    (folder / "model_index.json").unlink()
    save_folder(folder / "checkpoint-5")
    assert files() == alone
    for name in ("model.safetensors", "optimizer.pt"):
        (folder / name).unlink()
    assert "name a folder in it, such as 2_Dense, checkpoint-5" in refused("ls", folder)


def test_ranks_of_deepspeed(tmp_path: Path) -> None:
    """Their roles and layers do not depend on the rank; the folder of the step is a checkpoint, too."""
    folder = tmp_path / "ckpt"
    save_ranks(folder)
    told = json.loads(done("ls", folder, "--json"))["tensors"]
    inner = json.loads(done("ls", folder / "global_step3", "--json"))["tensors"]
    place = ("path", "role", "layer")
    assert [[one.get(key) for key in place] for one in told] == [[one.get(key) for key in place] for one in inner]
    found = {one["path"]: (one["role"], one.get("layer")) for one in told}
    model = "mp_rank_00_model_states/module"
    assert found[f"{model}/0.weight"] == ("weight", "0") and found[f"{model}/1.weight"] == ("norm", "1")
    slot = "optimizer_state_dict/base_optimizer_state/state/0/exp_avg"
    for rank in range(2):
        assert found[f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states/{slot}"][0] == "exp_avg"

    # A second rank of tensor parallelism has other parts of the same layers.
    step = folder / "global_step3"
    shutil.copy(step / "mp_rank_00_model_states.pt", step / "mp_rank_01_model_states.pt")
    assert "3 layers" in done("ls", folder)
    # ZeRO 3 saves the parameters in the optimizer's files, and here their names without elements.
    empty = {name: torch.empty(0, dtype=torch.bfloat16) for name in ("0.weight", "0.bias")}
    torch.save({"module": empty}, step / "zero_pp_rank_0_mp_rank_00_model_states.pt")
    told = json.loads(done("ls", folder, "--json"))["tensors"]
    listed = {one["path"]: one for one in told}
    for name in empty:
        one = listed[f"zero_pp_rank_0_mp_rank_00_model_states/module/{name}"]
        assert one["role"] == name[2:] and one["refusal"] == "it has no elements"

    # Beside a model of transformers, whose Trainer loads these files.
    both = tmp_path / "checkpoint-3"
    save_folder(both)
    (both / "optimizer.pt").unlink()
    shutil.copytree(folder, both, dirs_exist_ok=True)
    paths = {one["path"] for one in json.loads(done("ls", both, "--json"))["tensors"]}
    assert paths >= listed.keys() and "0.weight" in paths
    for text in ("global_step4", "../ckpt/global_step3", " \n", "x" * 5000, "global_step3\0"):
        (folder / "latest").write_text(text)
        assert "name a folder in it, such as global_step3" in refused("ls", folder)


def test_files_of_the_ranks_of_a_script(tmp_path: Path) -> None:
    folder, hurt = tmp_path / "ckpt", tmp_path / "hurt"
    folder.mkdir()
    for rank in range(2):
        model = torch.nn.Linear(4, 3)
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        torch.save({"net": model.state_dict(), "opt": optimizer.state_dict()}, folder / f"stage-{rank}.pt")
    (folder / "notes.txt").write_text("two stages")
    told = {one["path"]: one for one in json.loads(done("ls", folder, "--json"))["tensors"]}
    assert told["stage-0/net/weight"]["role"] == told["stage-1/net/weight"]["role"] == "weight"
    assert told["stage-1/opt/state/1/exp_avg_sq"]["role"] == "exp_avg_sq"
    # Two stages of a pipeline have other layers.
    assert len({told[f"stage-{rank}/net/weight"]["layer"] for rank in range(2)}) == 2
    done("inject", folder, "-o", hurt, "--tensor", "stage-1/net/weight", "--bits", "30", "--count", 1, "--seed", 3)
    kept, altered = (torch.load(one / "stage-1.pt")["net"]["weight"] for one in (folder, hurt))
    assert int((kept != altered).sum()) == 1
    assert (hurt / "stage-0.pt").read_bytes() == (folder / "stage-0.pt").read_bytes()
    assert (hurt / "notes.txt").is_file() and "stage-1/net/weight" in call("diff", folder, hurt).stdout
    (folder / "stage-0.safetensors").write_bytes(safetensors.torch.save({"more": torch.ones(2)}))
    paths = {one["path"] for one in json.loads(done("ls", folder, "--json"))["tensors"]}
    assert {"stage-0.safetensors/more", "stage-0.pt/net/weight"} <= paths
    # A single one is no set.
    for name in ("stage-0.pt", "stage-0.safetensors"):
        (folder / name).unlink()
    assert "name a file in it, such as stage-1.pt" in refused("ls", folder)


def test_links_are_not_altered_in_place(tmp_path: Path) -> None:
    """A folder of the Hub's cache holds symbolic links to blobs, which other folders share."""
    blobs, folder = tmp_path / "blobs", tmp_path / "snapshot"
    save_shards(blobs, optimizer=False)
    folder.mkdir()
    for path in blobs.iterdir():
        (folder / path.name).symlink_to(path)
    original = contents(blobs)
    done("inject", folder, "-o", tmp_path / "copy", "--seed", 1)
    assert not any(path.is_symlink() for path in (tmp_path / "copy").iterdir())
    assert "symbolic link" in refused("inject", folder, "--in-place", "--seed", 1)
    assert contents(blobs) == original and not (tmp_path / "snapshot.undo").exists()
    assert changed_bits(read_shards(blobs), read_shards(tmp_path / "copy"))


def test_pieces_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """Whatever the metadata says, a tensor is what its pieces are."""
    save_distributed(tmp_path / "sound")
    sound = pickle.loads((tmp_path / "sound" / ".metadata").read_bytes())

    def told(change: Callable[[Any], None]) -> str:
        kept = copy.deepcopy(sound)
        change(kept)
        shutil.rmtree(tmp_path / "ckpt", ignore_errors=True)
        shutil.copytree(tmp_path / "sound", tmp_path / "ckpt")
        (tmp_path / "ckpt" / ".metadata").write_bytes(pickle.dumps(kept))
        return refused("ls", tmp_path / "ckpt")

    def entry(kept: Any) -> Any:
        return kept.state_dict_metadata["model.0.weight"]

    def places(kept: Any) -> list[Any]:
        return [index for index in kept.storage_data if index.fqn == "model.0.weight"]

    def move(kept: Any, **changes: object) -> None:
        for name, value in changes.items():
            setattr(kept.storage_data[places(kept)[1]], name, value)

    assert "do not fill it" in told(lambda kept: entry(kept).chunks.pop())
    assert "outside of it" in told(lambda kept: setattr(entry(kept), "size", torch.Size([9, 6])))
    assert "where one of its pieces is" in told(lambda kept: kept.storage_data.pop(places(kept)[1]))
    assert "leads out of the folder" in told(lambda kept: move(kept, relative_path="../x"))
    assert "is missing" in told(lambda kept: move(kept, relative_path="x"))
    assert "lies outside of the file" in told(lambda kept: move(kept, offset=1 << 40))
    assert "not a size" in told(lambda kept: move(kept, offset=-1))
    first = sound.storage_data[places(sound)[0]]
    same = {"relative_path": first.relative_path, "offset": first.offset}
    assert "overlap" in told(lambda kept: move(kept, **same, length=first.length))
    assert "extension" in told(lambda kept: move(kept, transform_descriptors=["zstd"]))
    other = next(index for index in sound.storage_data if index.fqn == "model.3.bias")
    moved = vars(sound.storage_data[other])
    assert "another shape" in told(lambda kept: [kept.storage_data.pop(other), move(kept, **moved)] and
                                   kept.state_dict_metadata.pop("model.3.bias"))  # fmt: skip


def test_a_pickle_that_would_act_does_not(tmp_path: Path) -> None:
    class Act:
        def __reduce__(self) -> tuple:
            return (Path.touch, (tmp_path / "acted",))

    (tmp_path / "ckpt").mkdir()
    (tmp_path / "ckpt" / ".metadata").write_bytes(pickle.dumps({"state_dict_metadata": Act()}))
    assert "is not the metadata" in refused("ls", tmp_path / "ckpt")
    assert not (tmp_path / "acted").exists()
