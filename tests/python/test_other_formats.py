"""Safetensors, npz and PyTorch files through the Python package, read back by their own readers."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import bitrift
import numpy as np
import pytest
import torch

VALUES = {"fc.weight": np.arange(12, dtype="<f4").reshape(3, 4) + 1, "fc.bias": np.ones(3, "<f4")}


def write(path: Path) -> Path:
    if path.suffix == ".npz":
        save: Any = np.savez_compressed
        save(path, **VALUES)
    elif path.suffix == ".pt":
        torch.save({"model": {name: torch.from_numpy(array) for name, array in VALUES.items()}}, path)
    else:
        header, values = {}, b""
        for name, array in VALUES.items():
            offsets = [len(values), len(values) + array.nbytes]
            header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": offsets}
            values += array.tobytes()
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + values)
    return path


def weight(path: Path) -> np.ndarray[Any, Any]:
    if path.suffix == ".npz":
        return np.load(path)["fc.weight"]
    if path.suffix == ".pt":
        return torch.load(path, weights_only=True)["model"]["fc.weight"].numpy()
    data = path.read_bytes()
    first = 8 + struct.unpack_from("<Q", data)[0]
    return np.frombuffer(data[first : first + 48], "<f4").reshape(3, 4)


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".safetensors"])
def test_faults_are_injected_compared_replayed_and_undone(tmp_path: Path, suffix: str) -> None:
    file = write(tmp_path / f"in{suffix}")
    name = "model/fc.weight" if suffix == ".pt" else "fc.weight"
    original, out, again = file.read_bytes(), tmp_path / f"out{suffix}", tmp_path / f"again{suffix}"
    tensors = {tensor.path: tensor for tensor in bitrift.list_tensors(file)}
    assert tensors[name].role == "weight" and tensors[name].dtype == "float32" and tensors[name].alias_of == ""
    manifest = bitrift.inject(file, out, tensors=[name], element=5, bits=30)
    expected = VALUES["fc.weight"].copy()
    expected.reshape(-1).view("<u4")[5] ^= 1 << 30
    assert np.array_equal(weight(out), expected)
    (difference,) = bitrift.diff(file, out)
    assert (difference.path, difference.elements, difference.bits, difference.first_element) == (name, 1, 1, 5)
    bitrift.replay(file, again, manifest=manifest)
    assert again.read_bytes() == out.read_bytes()
    bitrift.inject(file, in_place=True, tensors=[name], what="zero", fraction=0.5, seed=1)
    assert np.count_nonzero(weight(file) == 0) == 6
    bitrift.undo(file)
    assert file.read_bytes() == original


def test_tied_weights_are_aliases(tmp_path: Path) -> None:
    shared = torch.ones(4)
    torch.save({"b": shared, "a": shared}, tmp_path / "t.pt")
    assert [tensor.alias_of for tensor in bitrift.list_tensors(tmp_path / "t.pt")] == ["", "a"]


def test_what_is_wrong_is_an_error_of_its_kind(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(1)}, tmp_path / "m.pt", pickle_protocol=0)
    with pytest.raises(bitrift.Unsupported, match="is a pickle of protocol 0"):
        bitrift.list_tensors(tmp_path / "m.pt")
    whole = write(tmp_path / "w.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:-30])
    with pytest.raises(bitrift.BadFile, match="truncated or damaged"):
        bitrift.list_tensors(tmp_path / "cut.npz")
