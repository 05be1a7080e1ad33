"""`bitrift verify` and `bitrift repair` on files of PyTorch, NumPy and h5py: flipped bits are found and put right."""

from __future__ import annotations

import json
import random
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from inject_support import refused, run, run_json
from summed_files import WRITERS, covered, flip, random_bit, write_hdf5, write_torch


@pytest.fixture(params=WRITERS, scope="module")
def sound(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "file"
    WRITERS[request.param](path)
    return path


def test_a_sound_file_is_sound_and_protected(sound: Path, tmp_path: Path) -> None:
    done = run("verify", sound)
    assert "sums fit\n" in done.stdout and "nothing" not in done.stdout
    found = run_json("verify", sound)
    assert found["sound"] and {tensor["state"] for tensor in found["tensors"]} == {"sound"}
    assert len(found["parts"]) >= len(covered(sound))
    done = run("repair", sound, "-o", tmp_path / "out")
    assert "every sum fits; nothing was written" in done.stdout and not (tmp_path / "out").exists()


def test_every_single_flip_is_found_and_put_right(sound: Path, tmp_path: Path) -> None:
    draw = random.Random(5)
    out, manifest = tmp_path / "fixed", tmp_path / "fixed.manifest.json"
    for _ in range(12):
        offset, bit = random_bit(sound, draw)
        hurt = flip(sound, tmp_path / "hurt", (offset, bit))
        found = run_json("verify", hurt, code=1)
        damaged = [part for part in found["parts"] if part["state"] == "damaged"]
        assert len(damaged) == 1 and not found["sound"]
        done = run("repair", hurt, "-o", out)
        assert out.read_bytes() == sound.read_bytes(), (offset, bit, done.stdout)
        assert "every sum fits" in done.stdout
        run("diff", sound, out)
        if json.loads(manifest.read_text())["model"]["plane"] == "storage":  # else not all of it can be read
            run("inject", hurt, "-o", tmp_path / "again", "--replay", manifest)
            assert (tmp_path / "again").read_bytes() == sound.read_bytes()
        assert hurt.read_bytes() != sound.read_bytes()


def test_a_flip_that_the_injector_left_is_named_by_its_tensor(tmp_path: Path) -> None:
    path, hurt, out = tmp_path / "a.pt", tmp_path / "hurt.pt", tmp_path / "fixed.pt"
    write_torch(path)
    where = ("--tensor", "model/3.weight", "--element", 7, "--bits", 30)
    run("inject", path, "-o", hurt, *where, "--plane", "storage")
    assert torch.load(hurt, weights_only=True)["model"]["3.weight"].abs().max() > 1e30  # which PyTorch takes
    found = run_json("repair", hurt, "-o", out)
    (fault,) = found["faults"]
    assert (fault["tensor"], fault["element"], fault["bits"]) == ("model/3.weight", 7, [30])
    assert abs(float(fault["old_value"])) > 1e30 > abs(float(fault["new_value"]))
    assert out.read_bytes() == path.read_bytes()
    run("inject", path, "-o", tmp_path / "value.pt", *where)  # whose sums follow: nothing is left to see
    assert run_json("verify", tmp_path / "value.pt")["sound"]


def test_flips_in_several_parts_are_all_put_right(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    write_torch(path)
    places = sorted(covered(path), key=lambda place: place[0] - place[1])[:3]
    hurt = flip(path, tmp_path / "hurt", *((first + 5, 3) for first, _ in places))
    found = run_json("repair", hurt, "-o", tmp_path / "fixed")
    assert len(found["parts"]) == 3 and (tmp_path / "fixed").read_bytes() == path.read_bytes()


def test_two_flips_in_a_word_are_put_right_in_a_small_part(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    write_torch(path)
    first, end = max(covered(path), key=lambda place: place[1] - place[0])
    hurt = flip(path, tmp_path / "hurt", (first + 8, 1), (first + 10, 7))
    found = run_json("repair", hurt, "-o", tmp_path / "fixed")
    (part,) = found["parts"]
    assert len(part["bits"]) == 2 and (tmp_path / "fixed").read_bytes() == path.read_bytes()
    chance = 496 * (end - first) / 4 / 2**32  # 496 pairs in each word
    assert part["chance_for_other_damage"] == pytest.approx(chance)


@pytest.mark.parametrize("damage", ["burst", "zeros", "far apart"])
def test_other_damage_is_seen_and_never_taken_for_a_flip(sound: Path, tmp_path: Path, damage: str) -> None:
    draw = random.Random(7)
    first, end = max(covered(sound), key=lambda place: place[1] - place[0])
    content = bytearray(sound.read_bytes())
    if damage == "burst":
        content[first + 40 : first + 60] = draw.randbytes(20)
    elif damage == "zeros":
        content[first + 64 : first + 128] = bytes(64)
    else:
        for at in (first + 30, (first + end) // 2, end - 20):
            content[at] ^= 0x10
    hurt = tmp_path / "hurt"
    hurt.write_bytes(content)
    run("verify", hurt, code=1)
    done = run("repair", hurt, "-o", tmp_path / "fixed", code=1)
    assert "cannot be repaired; nothing was written" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hurt"]


def test_a_damaged_pickle_is_repaired_although_it_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    write_torch(path)
    name = b"data.pkl"
    first = path.read_bytes().index(name) + 40
    hurt = flip(path, tmp_path / "hurt", (path.read_bytes().index(b"OrderedDict", first), 5))
    done = run("verify", hurt, code=1)
    assert "data.pkl  CRC-32" in done.stdout
    run("repair", hurt, "-o", tmp_path / "fixed")
    assert (tmp_path / "fixed").read_bytes() == path.read_bytes()


def test_flips_in_the_headers_of_an_archive_are_put_right(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, w=np.arange(30.0), b=np.ones(3))
    content = path.read_bytes()
    central = content.index(b"PK\1\2")
    for offset in (content.index(b"PK\5\6") + 16, central + 42, central + 16, central):
        hurt = flip(path, tmp_path / "hurt", (offset, 1))
        run("verify", hurt, code=1)
        found = run_json("repair", hurt, "--dry-run")
        assert found["state"] == "explained" and found["parts"][0]["part"] == "directory of the archive"
        run("repair", hurt, "-o", tmp_path / "fixed")
        assert (tmp_path / "fixed").read_bytes() == content, offset
    hurt = flip(path, tmp_path / "hurt", (content.index(b"w.npy"), 1))  # either of two names could be the wrong one
    found = run_json("repair", hurt, "--dry-run", code=1)
    assert found["state"] == "not_repaired" and "2 ways" in found["parts"][0]["failure"]


def test_damaged_structures_of_hdf5_are_seen_and_not_repaired(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file["w"] = np.arange(10.0)
    header = path.read_bytes().index(b"OHDR")
    hurt = flip(path, tmp_path / "hurt", (header + 12, 3))
    assert run_json("verify", hurt, code=1)["damage"]
    done = run("repair", hurt, "-o", tmp_path / "fixed", code=1)
    assert "checksum" in done.stdout and "cannot be repaired; nothing was written" in done.stdout
    bitrift = pytest.importorskip("bitrift")
    with pytest.raises(bitrift.Conflict, match="checksum"):
        bitrift.repair(hurt, tmp_path / "fixed")
    assert not (tmp_path / "fixed").exists()


def test_no_copy_is_written_without_its_manifest(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    write_torch(path)
    hurt = flip(path, tmp_path / "hurt", random_bit(path, random.Random(3)))
    run("repair", hurt, "-o", tmp_path / "fixed", "--manifest", tmp_path / "no" / "m.json", code=2)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.pt", "hurt"]


def test_tensors_that_no_sum_covers_are_named_as_that(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write_hdf5(path, fletcher32=True)
    with h5py.File(path, "a") as file:
        file["plain"] = np.arange(10.0)
        file.create_dataset("lzf", data=np.arange(100.0), compression="lzf")
    found = {tensor["path"]: tensor for tensor in run_json("verify", path)["tensors"]}
    assert found["plain"]["state"] == found["lzf"]["state"] == "unprotected"
    assert found["3.weight"]["sums"] == ["Fletcher-32"]
    from safetensors.torch import save_file

    save_file({"w": torch.ones(4)}, tmp_path / "a.safetensors")
    assert "has no sums, so damage cannot be seen" in run("verify", tmp_path / "a.safetensors").stdout


def test_tensors_without_bytes_need_no_sum(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(4), "empty": torch.ones(0, 3)}, tmp_path / "a.pt")
    done = run("verify", tmp_path / "a.pt")
    assert "no bytes" in done.stdout and "nothing" not in done.stdout
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("later", shape=(10,), dtype="f4", chunks=(5,), fletcher32=True)
    assert {one["state"] for one in run_json("verify", tmp_path / "a.h5")["tensors"]} == {"sound"}


def test_sums_that_were_not_computed_protect_nothing(tmp_path: Path) -> None:
    path, before = tmp_path / "a.pt", torch.utils.serialization.config.save.compute_crc32
    torch.utils.serialization.config.save.compute_crc32 = False
    try:
        torch.save({"w": torch.randn(100)}, path)
    finally:
        torch.utils.serialization.config.save.compute_crc32 = before
    found = run_json("verify", path)
    assert found["sound"] and [tensor["state"] for tensor in found["tensors"]] == ["unprotected"]


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    write_torch(path)
    refused("repair", path, says="give -o FIXED")
    refused("verify", tmp_path / "none", says="none")
    (tmp_path / "folder").mkdir()
    refused("verify", tmp_path / "folder", says="holds no file with the name of a checkpoint")
    (tmp_path / "text").write_text("hello")
    refused("verify", tmp_path / "text", says="HDF5 signature")
    hurt = flip(path, tmp_path / "hurt", random_bit(path, random.Random(1)))
    refused("repair", hurt, "-o", hurt, says="is the input file")
    assert not (tmp_path / "hurt.manifest.json").exists()


def test_python_has_both(tmp_path: Path) -> None:
    bitrift = pytest.importorskip("bitrift")
    path, out = tmp_path / "a.pt", tmp_path / "fixed.pt"
    write_torch(path)
    hurt = flip(path, tmp_path / "hurt.pt", random_bit(path, random.Random(2)))
    assert bitrift.verify(path).sound
    found = bitrift.verify(hurt)
    assert not found.sound and sum(part.state == "damaged" for part in found.parts) == 1
    manifest = bitrift.repair(hurt, out)
    assert out.read_bytes() == path.read_bytes() and len(manifest["faults"]) == 1
    bitrift.replay(hurt, tmp_path / "again.pt", manifest=manifest)
    assert (tmp_path / "again.pt").read_bytes() == path.read_bytes()
    with pytest.raises(bitrift.BadInput, match="every sum fits"):
        bitrift.repair(path, out)
    content = bytearray(path.read_bytes())
    first, _ = max(covered(path), key=lambda place: place[1] - place[0])
    content[first : first + 30] = bytes(30)
    hurt.write_bytes(content)
    with pytest.raises(bitrift.Conflict, match="no single flipped bit"):
        bitrift.repair(hurt, out)
    assert json.loads(json.dumps(manifest["faults"])) == manifest["faults"]
