"""`bitrift seal`: lost blocks of any file or folder are found and restored, or nothing is written."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import xxhash
from inject_support import refused, run, run_json
from safetensors.torch import save_file
from summed_files import WRITERS, write_torch

BLOCK = 4096


def write_tensors(path: Path, count: int = 6, side: int = 250) -> None:
    torch.manual_seed(3)
    save_file({f"layer{i}.weight": torch.randn(side, side) for i in range(count)}, path)


def write_folder(path: Path) -> None:
    path.mkdir()
    torch.manual_seed(4)
    shards = {f"model-0000{n}-of-00002.safetensors": {f"l{n}.weight": torch.randn(300, 200)} for n in (1, 2)}
    for name, tensors in shards.items():
        save_file(tensors, path / name)
    index = {"metadata": {}, "weight_map": {key: name for name, tensors in shards.items() for key in tensors}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    (path / "config.json").write_text(json.dumps({"layers": 2}))


def contents(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    return {str(one.relative_to(path)): one.read_bytes() for one in files}


def hurt(path: Path, *places: tuple[int, bytes]) -> None:
    with path.open("r+b") as file:
        for at, content in places:
            file.seek(at)
            file.write(content)


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    path = tmp_path / "m.safetensors"
    write_tensors(path)
    run("seal", path)
    return path


def test_a_seal_is_what_its_page_says(sealed: Path) -> None:
    """Read without bitrift: xxhash for the digests, and GF(2^8) by its definition for the parity."""
    content, seal = sealed.read_bytes(), sealed.with_name(sealed.name + ".seal").read_bytes()
    assert seal[:8] == b"brseal\r\n" == seal[-24:-16]
    size, digest = (int.from_bytes(seal[at : at + 8], "little") for at in (8, 16))
    text = seal[24 : 24 + size]
    assert xxhash.xxh3_64_intdigest(text, seed=0) == digest
    head = json.loads(text)
    assert head == {"schema": "bitrift/seal/1", "bytes": len(content), "block_bytes": BLOCK} | {
        "data_rows": 200,
        "parity_rows": 2,
    }
    blocks = -(-len(content) // BLOCK)
    stripes = -(-blocks // 200)
    entries = blocks + 2 * stripes
    pages = -(-entries // 511)
    table = seal[BLOCK : BLOCK * (1 + pages)]
    parity = seal[BLOCK * (1 + pages) :][: 2 * stripes * BLOCK]
    assert len(seal) == BLOCK * (2 + 2 * pages + 2 * stripes)
    assert seal[BLOCK * (1 + pages + 2 * stripes) :][: len(table)] == table  # the second copy
    for page in range(pages):
        one = table[page * BLOCK : (page + 1) * BLOCK]
        assert xxhash.xxh3_64_intdigest(one[:-8], seed=page) == int.from_bytes(one[-8:], "little")
    digests = b"".join(table[page * BLOCK : (page + 1) * BLOCK - 8] for page in range(pages))
    padded = content + bytes(blocks * BLOCK - len(content))
    whole = padded + parity
    for number in range(entries):
        found = int.from_bytes(digests[8 * number : 8 * number + 8], "little")
        assert found == xxhash.xxh3_64_intdigest(whole[number * BLOCK : (number + 1) * BLOCK], seed=number), number

    def times(a: int, b: int) -> int:
        product = 0
        while b:
            product ^= a if b & 1 else 0
            a = (a << 1) ^ (0x11D if a & 0x80 else 0)
            b >>= 1
        return product

    rows = np.zeros((2, stripes * BLOCK), dtype=np.uint8)
    for row in range(-(-blocks // stripes)):
        piece = np.zeros(stripes * BLOCK, dtype=np.uint8)
        data = np.frombuffer(padded[row * stripes * BLOCK : (row + 1) * stripes * BLOCK], dtype=np.uint8)
        piece[: len(data)] = data
        for number in range(2):
            difference = (255 - number) ^ row
            inverse = next(one for one in range(256) if times(difference, one) == 1)
            rows[number] ^= np.array([times(inverse, one) for one in range(256)], dtype=np.uint8)[piece]
    assert rows.tobytes() == parity


def write_array(path: Path) -> None:
    path.write_bytes(np.random.default_rng(1).bytes(300_001))


KINDS: dict[str, Callable[[Path], None]] = WRITERS | {
    "safetensors": write_tensors,
    "folder": write_folder,
    "no checkpoint": write_array,
}
DAMAGE: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "flip": lambda old, draw: bytes([old[0] ^ 1 << draw.randrange(8)]),
    "burst": lambda old, draw: draw.randbytes(min(len(old), 1000)),
    "zeros": lambda old, draw: bytes(min(len(old), BLOCK)),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("kind", KINDS)
def test_damage_anywhere_is_found_and_put_right(tmp_path: Path, kind: str, damage: str) -> None:
    path, out = tmp_path / "c", tmp_path / "out"
    KINDS[kind](path)
    run("seal", path)
    before, draw = contents(path), random.Random(f"{kind} {damage}")
    done = run("verify", path)
    assert "as they were sealed\n" in done.stdout and "nothing" not in done.stdout
    for _ in range(4):
        target = draw.choice([path] if path.is_file() else sorted(path.iterdir()))
        old = target.read_bytes()
        at = draw.randrange(len(old))
        new = DAMAGE[damage](old[at:], draw)
        if old[at : at + len(new)] == new:
            continue
        hurt(target, (at, new))
        found = run_json("verify", path, code=1)
        assert not found["sound"] and found["seal"]["repairable"]
        done = run("repair", path, "-o", out)
        assert contents(out) == before, (at, done.stdout)
        assert "as it was sealed" in done.stdout
        manifest = tmp_path / "out.manifest.json"
        if manifest.exists():
            replayed = tmp_path / "again"
            if not found.get("damage") and found["tensors"]:  # else inject cannot read it
                run("inject", path, "-o", replayed, "--replay", manifest)
                assert contents(replayed) == before
            shutil.rmtree(replayed) if replayed.is_dir() else replayed.unlink(missing_ok=True)
            manifest.unlink()
        else:
            assert "there is no manifest" in done.stdout
        shutil.rmtree(out) if out.is_dir() else out.unlink()
        target.write_bytes(old)


def test_tensors_in_damaged_blocks_are_named(sealed: Path) -> None:
    offset = sealed.read_bytes().index(b"}}") + 2 + 250 * 250 * 4 * 2 + 500_00
    hurt(sealed, (offset, b"\xff\x00\xff"))
    found = run_json("verify", sealed, code=1)
    damaged = [tensor["path"] for tensor in found["tensors"] if tensor["state"] == "damaged"]
    assert damaged == ["layer2.weight"] and found["seal"]["damaged_blocks"] == 1
    (place,) = found["seal"]["damaged"]
    assert place["first"] <= offset < place["first"] + place["bytes"] == place["first"] + BLOCK
    repaired = run_json("repair", sealed, "-o", sealed.with_name("out"))
    assert {fault["tensor"] for fault in repaired["faults"]} == {"layer2.weight"}


def test_as_much_as_the_parity_covers_is_restored_and_no_more(tmp_path: Path) -> None:
    path, out = tmp_path / "m.safetensors", tmp_path / "out"
    write_tensors(path, 20, 300)
    made = run_json("seal", path, "--percent", 2)
    assert made["parity_rows"] == 4 and made["seal_bytes"] < 0.04 * made["bytes"]
    before = path.read_bytes()
    longest = made["parity_rows"] * made["stripes"] * BLOCK
    hurt(path, (BLOCK * 5, bytes(longest)))
    run("repair", path, "-o", out)
    assert out.read_bytes() == before
    path.write_bytes(before)
    hurt(path, (BLOCK * 5, bytes(longest + 1)))
    found = run_json("verify", path, code=1)
    assert found["seal"]["lost_blocks"] == made["parity_rows"] + 1 and not found["seal"]["repairable"]
    out.unlink()
    done = run("repair", path, "-o", out, code=1)
    assert "1 of" not in done.stdout and "more damage than its 4 blocks of parity can put right" in done.stdout
    assert not out.exists()


def test_flips_here_and_there_need_no_parity(sealed: Path) -> None:
    """Two stripes hold all blocks of the file, so parity alone restores four of them."""
    before, draw = sealed.read_bytes(), random.Random(9)
    blocks = draw.sample(range(len(before) // BLOCK), 40)
    flips = {block * BLOCK + draw.randrange(BLOCK): 1 << draw.randrange(8) for block in blocks}
    hurt(sealed, *((at, bytes([before[at] ^ mask])) for at, mask in flips.items()))
    found = run_json("verify", sealed, code=1)["seal"]
    assert (found["damaged_blocks"], found["flipped_blocks"], found["lost_blocks"]) == (40, 40, 0)
    at = next(block for block in range(300) if block not in blocks) * BLOCK
    hurt(sealed, (at, bytes(5 * BLOCK)))  # and five more blocks that are no flips
    found = run_json("verify", sealed, code=1)["seal"]
    assert found["lost_blocks"] > 2 and not found["repairable"]
    sealed.write_bytes(before)
    hurt(sealed, *((at, bytes([before[at] ^ mask])) for at, mask in flips.items()))
    hurt(sealed, (at + 10, bytes(1000)))
    done = run("repair", sealed, "-o", sealed.with_name("out"))
    assert "of them by one flipped bit" in done.stdout
    assert sealed.with_name("out").read_bytes() == before


@pytest.mark.parametrize("change", ["cut", "longer", "empty", "gone"])
def test_files_of_another_size_get_theirs_back(tmp_path: Path, change: str) -> None:
    path, out = tmp_path / "c", tmp_path / "out"
    write_folder(path)
    run("seal", path, "--percent", 70)
    before = contents(path)
    victim = path / "model-00002-of-00002.safetensors"
    if change == "gone":
        victim.unlink()
    else:
        keep = {"cut": -5000, "longer": None, "empty": 0}[change]
        victim.write_bytes(victim.read_bytes()[:keep] + (b"more" if change == "longer" else b""))
    found = run_json("verify", path, code=1)
    (resized,) = found["seal"]["resized"]
    assert resized["file"] == victim.name
    assert resized["bytes"] == (None if change == "gone" else victim.stat().st_size)
    done = run("repair", path, "-o", out)
    assert contents(out) == before and "the size of a file differs" in done.stdout
    assert not (tmp_path / "out.manifest.json").exists()


def test_a_file_cut_short_gets_its_end_back(sealed: Path) -> None:
    before = sealed.read_bytes()
    sealed.write_bytes(before[:-9000])
    run("verify", sealed, code=1)
    run("repair", sealed, "-o", sealed.with_name("out"))
    assert sealed.with_name("out").read_bytes() == before


def test_damage_of_the_seal_itself_is_no_damage_of_the_file(sealed: Path) -> None:
    seal = sealed.with_name(sealed.name + ".seal")
    whole, before, draw = seal.read_bytes(), sealed.read_bytes(), random.Random(8)
    for at in [
        0,
        9,
        30,
        BLOCK + 3,
        len(whole) - 1,
        len(whole) - BLOCK - 9,
        *(draw.randrange(len(whole)) for _ in range(20)),
    ]:
        if whole[at] == 0 and at < BLOCK:
            continue  # padding
        hurt(seal, (at, bytes([whole[at] ^ 0x41])))
        done = run("verify", sealed)
        assert "as they were sealed" in done.stdout
        hurt(sealed, (70_000, b"\x01\x02"))
        run("repair", sealed, "-o", sealed.with_name("out"))
        assert sealed.with_name("out").read_bytes() == before, at
        sealed.write_bytes(before)
        seal.write_bytes(whole)
    assert run_json("verify", sealed)["seal"]["seal_damaged"] is False
    hurt(seal, (BLOCK + 3, b"\xaa\xaa"))
    assert run_json("verify", sealed)["seal"]["seal_damaged"] is True
    for end in (0, 10, 100, BLOCK, BLOCK + 50):
        seal.write_bytes(whole[:end])
        assert "is damaged and cannot be used" in run("verify", sealed, code=1).stdout
        done = run("repair", sealed, "-o", sealed.with_name("none"), code=1)
        assert "cannot be used" in done.stdout and "cannot be repaired; nothing was written" in done.stdout
    seal.write_bytes(whole[: len(whole) // 2])
    run("verify", sealed)


def test_blocks_in_each_others_place_are_damage(sealed: Path) -> None:
    before = sealed.read_bytes()
    one, two = before[BLOCK : 2 * BLOCK], before[2 * BLOCK : 3 * BLOCK]
    hurt(sealed, (BLOCK, two), (2 * BLOCK, one))
    assert run_json("verify", sealed, code=1)["seal"]["damaged_blocks"] == 2
    run("repair", sealed, "-o", sealed.with_name("out"))
    assert sealed.with_name("out").read_bytes() == before


def test_a_file_written_anew_is_not_taken_for_a_damaged_one(sealed: Path) -> None:
    write_tensors(sealed, 7)
    done = run("repair", sealed, "-o", sealed.with_name("out"), code=1)
    assert "if the checkpoint was overwritten after it was sealed, seal it again" in done.stdout
    refused("seal", sealed, says="--force replaces it")
    run("seal", sealed, "--force")
    run("verify", sealed)


def test_the_same_file_gets_the_same_seal(sealed: Path) -> None:
    seal = sealed.with_name(sealed.name + ".seal")
    first = seal.read_bytes()
    run("seal", sealed, "--force")
    assert seal.read_bytes() == first


def test_what_is_damaged_already_is_not_sealed(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    write_torch(path)
    hurt(path, (path.stat().st_size // 2, b"\xff\x00\xff\x00"))
    refused("seal", path, says="is damaged already")
    assert not (tmp_path / "m.pt.seal").exists()
    run("seal", path, "--unchecked")
    done = run("verify", path, code=1)
    assert "damaged: 1 of" in done.stdout and "as they were sealed" in done.stdout


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_tensors(path, 1, 20)
    refused("seal", tmp_path / "none", says="none")
    for percent in ("0.3", "101", "-1", "nan"):
        refused("seal", path, "--percent", percent, says="0.4")
    (tmp_path / "empty").touch()
    refused("seal", tmp_path / "empty", says="has no bytes to seal")
    (tmp_path / "folder").mkdir()
    refused("seal", tmp_path / "folder", says="has no bytes to seal")
    run("seal", path)
    seal = tmp_path / "m.safetensors.seal"
    head = seal.read_bytes()
    newer = head.replace(b"bitrift/seal/1", b"bitrift/seal/9")
    text = newer[24 : 24 + int.from_bytes(newer[8:16], "little")]
    digest = xxhash.xxh3_64_intdigest(text, seed=0).to_bytes(8, "little")
    seal.write_bytes(newer[:16] + digest + newer[24:])
    refused("verify", path, says="use the version of bitrift that wrote it")


def test_folders_that_are_hard_to_read(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for i in range(1200):  # more than a process may have open at once
        (folder / f"{i:04}.bin").write_bytes(bytes([i % 251]) * (i % 90))
    run("seal", folder, "--percent", 10)
    (folder / "0700.bin").unlink()
    hurt(folder / "0333.bin", (5, b"xx"))
    assert run_json("verify", folder, code=1)["seal"]["damaged_blocks"] <= 3
    run("repair", folder, "-o", tmp_path / "out")
    assert (tmp_path / "out" / "0333.bin").read_bytes() == bytes([333 % 251]) * (333 % 90)
    assert (tmp_path / "out" / "0700.bin").read_bytes() == bytes([700 % 251]) * (700 % 90)
    odd = tmp_path / "odd"
    odd.mkdir()
    (odd / "nowhere").symlink_to(tmp_path / "none")
    refused("seal", odd, says="No such file")
    (odd / "nowhere").unlink()
    os.mkfifo(odd / "pipe")
    refused("seal", odd, says="pipe")
    (odd / "pipe").unlink()
    (odd / "a").write_bytes(b"a")
    Path(os.fsdecode(bytes(odd) + b"/\xff")).write_bytes(b"b")
    refused("seal", odd, says="is not UTF-8")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to fill a disk of its own")
def test_a_full_disk_leaves_no_seal(tmp_path: Path) -> None:
    import subprocess

    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1700k", "none", disk], capture_output=True).returncode:
        pytest.skip("mount(2) is not allowed here")
    try:
        write_tensors(disk / "m.safetensors")
        refused("seal", disk / "m.safetensors", "--percent", "50", says="No space left")
        assert [one.name for one in disk.iterdir()] == ["m.safetensors"]
    finally:
        subprocess.run(["umount", disk], check=True)
