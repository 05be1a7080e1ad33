"""bitrift.seal(), and saves of PyTorch that are sealed as soon as they are written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import bitrift  # noqa: E402
import bitrift.torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402


def state() -> dict[str, Any]:
    torch.manual_seed(2)
    return {"fc.weight": torch.randn(300, 200), "fc.bias": torch.randn(300)}


def hurt(path: Path, at: int, count: int = 100) -> None:
    content = bytearray(path.read_bytes())
    for i in range(at, at + count):
        content[i] ^= 0xFF
    path.write_bytes(content)


def test_seal_verify_and_repair(tmp_path: Path) -> None:
    path, out = tmp_path / "m.pt", tmp_path / "out.pt"
    torch.save(state(), path)
    before = path.read_bytes()
    made = bitrift.seal(path, percent=3)
    assert (made.bytes, made.files, made.parity_rows) == (len(before), 1, 6)
    assert Path(made.seal).stat().st_size == made.seal_bytes
    found = bitrift.verify(path)
    assert found.sound and found.seal is not None and found.seal.sound and found.seal.blocks == made.blocks
    hurt(path, 100_000, 9000)
    found = bitrift.verify(path)
    assert found.seal is not None and found.seal.repairable and found.seal.damaged_blocks == 3
    assert [one["bytes"] for one in found.seal.damaged] == [3 * 4096]
    manifest = bitrift.repair(path, out)
    assert out.read_bytes() == before
    assert manifest is not None and manifest["model"]["plane"] == "metadata" and len(manifest["faults"]) == 9000
    path.write_bytes(before[:-10])
    assert bitrift.repair(path, out) is None and out.read_bytes() == before


def test_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    torch.save(state(), path)
    with pytest.raises(bitrift.BadInput, match="out of range"):
        bitrift.seal(path, percent=0.1)
    hurt(path, 100_000)
    with pytest.raises(bitrift.Conflict, match="damaged already"):
        bitrift.seal(path)
    bitrift.seal(path, check=False)
    with pytest.raises(bitrift.BadInput, match="exists already"):
        bitrift.seal(path, check=False)
    bitrift.seal(path, check=False, replace=True)
    Path(f"{path}.seal").write_bytes(b"nothing")
    found = bitrift.verify(path)
    assert found.seal is not None and not found.seal.sound and "cannot be used" in found.seal.unusable


def test_checkpoints_of_bitrift_are_sealed_on_request(tmp_path: Path) -> None:
    path, model = tmp_path / "m.h5", torch.nn.Linear(30, 20)
    bitrift.torch.save(path, model, seal=True, epoch=1)
    assert bitrift.verify(path).seal
    before = path.read_bytes()
    hurt(path, len(before) // 2, 5)
    bitrift.repair(path, tmp_path / "out.h5")
    assert (tmp_path / "out.h5").read_bytes() == before
    bitrift.torch.save(path, model, seal=2.5, epoch=2)  # over the old one
    found = bitrift.verify(path)
    assert found.sound and found.seal is not None and found.seal.parity_rows == 5
    assert bitrift.torch.load_into(path, model) == {"epoch": 2}


def test_torch_save_is_sealed_while_it_is_asked_for(tmp_path: Path) -> None:
    plain = torch.save
    with bitrift.torch.seal_saves():
        torch.save(state(), tmp_path / "a.pt")
        torch.save(obj=state(), f=str(tmp_path / "b.pt"))
        torch.save(state(), tmp_path / "a.pt")
        with (tmp_path / "open.pt").open("wb") as file:
            torch.save(state(), file)
    assert torch.save is plain
    torch.save(state(), tmp_path / "c.pt")
    seals = {one.name for one in tmp_path.iterdir() if one.suffix == ".seal"}
    assert seals == {"a.pt.seal", "b.pt.seal"}
    assert all(bitrift.verify(tmp_path / name).sound for name in ("a.pt", "b.pt"))


def test_a_save_that_fails_leaves_no_seal_of_the_file_before(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    with bitrift.torch.seal_saves():
        torch.save(state(), path)
        with pytest.raises(Exception, match="pickle"):
            torch.save({"f": lambda: None}, path)
    assert not Path(f"{path}.seal").exists()


RANKS = """
import sys
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed._tensor import DeviceMesh, Shard, distribute_tensor
import bitrift.torch
bitrift.torch.seal_saves(percent=5)
dist.init_process_group("gloo", init_method="file://" + sys.argv[1] + "/meet", rank=int(sys.argv[2]), world_size=2)
torch.manual_seed(7)
mesh = DeviceMesh("cpu", [0, 1])
state = {"w": distribute_tensor(torch.randn(400, 100), mesh, [Shard(0)])}
dcp.save(state, checkpoint_id=sys.argv[1] + "/now")
writer = dcp.FileSystemWriter(sys.argv[1] + "/later")
dcp.async_save(state, storage_writer=writer).result()
dist.barrier()
dist.destroy_process_group()
"""


def test_distributed_checkpoints_are_sealed_by_rank_0(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error::UserWarning:bitrift", "-c", RANKS, str(tmp_path)]
    ranks = [subprocess.Popen([*command, str(rank)]) for rank in range(2)]
    assert [rank.wait(120) for rank in ranks] == [0, 0]
    for name in ("now", "later"):
        folder = tmp_path / name
        before = {one.name: one.read_bytes() for one in folder.iterdir()}
        assert len(before) == 3
        found = bitrift.verify(folder)
        assert found.sound and found.seal is not None and found.seal.parity_rows == 10
        shard = folder / "__1_0.distcp"
        hurt(shard, shard.stat().st_size // 2, 3000)
        bitrift.repair(folder, tmp_path / f"{name} fixed")
        assert {one.name: one.read_bytes() for one in (tmp_path / f"{name} fixed").iterdir()} == before


def test_a_process_alone_seals_its_folder(tmp_path: Path) -> None:
    with bitrift.torch.seal_saves(), pytest.warns(UserWarning, match="single process"):
        dcp.save(state(), checkpoint_id=tmp_path / "one")  # type: ignore[attr-defined]
    assert bitrift.verify(tmp_path / "one").seal
