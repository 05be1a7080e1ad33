"""Small files of safetensors, NumPy and PyTorch, and their parts, for corpus.py."""

from __future__ import annotations

import collections
import io
import json
import pickle
import struct
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch.distributed.checkpoint.state_dict_saver import save

WORDS = [b"PK\3\4", b"PK\1\2", b"PK\5\6", b"PK\6\6", b"PK\6\7", b"PK\7\x08", b"\x93NUMPY\1\0", b"__metadata__"]
WORDS += [b"ctorch\nFloatStorage\n", b"ctorch._utils\n_rebuild_tensor_v2\n", b"ccollections\nOrderedDict\n"]
WORDS += [b"ctorch._tensor\n_rebuild_from_type_v2\n", b"_parameters", b"X\3\0\0\0neg", b'"__metadata__":null', b'"F4"']
WORDS += [b"torch.float8_e5m2", b"'fortran_order': True", b'"data_offsets":[0,4]', b'"dtype":"BF16"', b"<f8", b">c16"]
SET_WORDS = [b"state_dict_metadata", b"storage_data", b"planner_data", b"offsets", b"sizes", b"chunks", b"torch.Size"]
SET_WORDS += [b"TensorStorageMetadata", b"BytesStorageMetadata", b"transform_descriptors", b'"weight_map":{', b"../"]


def arrays() -> dict[str, np.ndarray[Any, Any]]:
    return {
        "w": np.arange(12, dtype="<f4").reshape(3, 4),
        "f": np.asfortranarray(np.arange(6, dtype=">i8").reshape(2, 3)),
        "c": np.ones(2, "<c8"),
        "t": np.array(["ab", "c"]),
        "b": np.array(True),
        "e": np.zeros((0, 3), "<f2"),
    }


def npz_files() -> Iterator[tuple[str, bytes]]:
    save: Any
    for save in (np.savez, np.savez_compressed):
        held = io.BytesIO()
        save(held, **arrays())
        yield save.__name__, held.getvalue()
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("note", "no array")
        for name, method in (("z.npy", zipfile.ZIP_DEFLATED), ("u.npy", zipfile.ZIP_BZIP2)):
            array = io.BytesIO()
            np.save(array, np.zeros(400, "<f4"))
            archive.writestr(name, array.getvalue(), method)
    yield "mixed", held.getvalue()


def torch_files() -> Iterator[tuple[str, bytes]]:
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    contents: dict[str, object] = {
        "state": model.state_dict(),
        "checkpoint": {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "epoch": 3,
            "loss": [0.5, None],
        },
        "views": {"a": base[0], "b": base.transpose(0, 2), "c": base, "e": torch.ones(1).expand(5)},
        "types": [
            torch.ones(2, dtype=kind) for kind in (torch.bfloat16, torch.float8_e4m3fn, torch.complex64, torch.uint16)
        ],
        "alone": torch.nn.Parameter(torch.ones(3)),
        "module": torch.nn.Sequential(model, torch.nn.BatchNorm1d(2)),
        "others": [collections.deque([torch.ones(2), 1]), {1}, 1j, np.float32(2), torch.eye(2).to_sparse()],
        "lazy": {"n": torch.imag(torch.ones(2, dtype=torch.complex64).conj()), "c": torch.ones(2) * 1j},
    }
    for name, content in contents.items():
        for protocol in (1, 2, 5):
            held = io.BytesIO()
            torch.save(content, held, pickle_protocol=protocol)
            yield f"{name}_{protocol}", held.getvalue()
        if name == "module":  # the old format holds the source text of its classes
            continue
        held = io.BytesIO()
        torch.save(content, held, _use_new_zipfile_serialization=False)
        yield f"{name}_old", held.getvalue()


def safetensors_files() -> Iterator[tuple[str, bytes]]:
    header = {
        "__metadata__": {"format": "pt"},
        "fc.weight": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
        "fc.bias": {"dtype": "BF16", "shape": [2], "data_offsets": [16, 20]},
        "z": {"dtype": "C64", "shape": [1], "data_offsets": [20, 28]},
        "e": {"dtype": "I64", "shape": [0, 7], "data_offsets": [28, 28]},
    }
    text = json.dumps(header).encode()
    yield "small", struct.pack("<Q", len(text)) + text + bytes(range(28))


def keras_archive(method: int) -> bytes:
    held, archive = io.BytesIO(), io.BytesIO()
    with h5py.File(held, "w", libver="latest") as file:
        file["layers/dense/vars/0"] = np.ones((2, 3), "f4")
        file.create_dataset("optimizer/vars/0", data=np.zeros((4, 6), "f4"), chunks=(2, 3), compression="gzip")
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("config.json", "{}")
        zipped.writestr("model.weights.h5", held.getvalue(), method)
    return archive.getvalue()


def torch_archive(method: int) -> bytes:
    """Files of torch.save in a zip archive, as Stable-Baselines3 saves them, or deflated."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("data", "{}")
        for name, content in {
            "policy": {"w": torch.ones(3)},
            "policy.optimizer": {"state": {0: torch.ones(2)}},
        }.items():
            held = io.BytesIO()
            torch.save(content, held)
            zipped.writestr(f"{name}.pth", held.getvalue(), method)
    return archive.getvalue()


def files() -> dict[str, bytes]:
    found = {f"npz_{name}": content for name, content in npz_files()}
    for how, method in (("archive", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        found |= {f"keras_{how}": keras_archive(method), f"torch_{how}": torch_archive(method)}
    found |= {f"torch_{name}": content for name, content in torch_files()}
    return found | {f"safetensors_{name}": content for name, content in safetensors_files()}


def sets() -> dict[str, bytes]:
    """Inputs of the target `set`: index, the one file that it names, the length of the index, the kind."""
    found = {}
    states: dict[str, dict[str, Any]] = {
        "small": {"model": {"fc.weight": torch.ones(2, 3)}, "epoch": 3},
        "types": {"a": torch.arange(6, dtype=torch.bfloat16), "b": {"c": torch.tensor(1.5), "d": torch.zeros(0, 2)}},
    }
    for name, state in states.items():
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            save(state, checkpoint_id=folder)
            index = (Path(folder) / ".metadata").read_bytes()
            found[name] = index + (Path(folder) / "__0_0.distcp").read_bytes() + struct.pack("<HB", len(index), 0)
            cut = in_halves(index)
            found[f"{name}_cut"] = cut + (Path(folder) / "__0_0.distcp").read_bytes() + struct.pack("<HB", len(cut), 0)
    index = json.dumps({"weight_map": {"fc.weight": "m.safetensors", "fc.bias": "m.safetensors"}}).encode()
    ((_, shard),) = safetensors_files()
    return found | {"shards": index + shard + struct.pack("<HB", len(index), 1)}


def in_halves(metadata: bytes) -> bytes:
    """The same metadata, in which a tensor has two pieces more than its file holds."""
    kept = pickle.loads(metadata)
    for index, place in list(kept.storage_data.items()):
        if index.offset is not None and kept.state_dict_metadata[index.fqn].size.numel() > 1:
            entry = kept.state_dict_metadata[index.fqn]
            rows = entry.size[0]
            chunk = type(entry.chunks[0])
            entry.size = torch.Size([2 * rows, *entry.size[1:]])
            entry.chunks = [
                chunk(torch.Size([part * rows, *[0] * (len(entry.size) - 1)]), entry.chunks[0].sizes) for part in (0, 1)
            ]
            kept.storage_data[type(index)(index.fqn, entry.chunks[1].offsets, 1)] = place
    return pickle.dumps(kept)


def parts() -> dict[str, bytes]:
    """Inputs of the target `archive`: the byte after them chooses the parser."""
    found = {}
    for name, content in files().items():
        parser = 2 if name.startswith("safetensors") else 4 if name.endswith("_old") else 3
        found[name] = content + bytes([parser])
        if not content.startswith(b"PK"):
            continue
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.namelist():
                if member.endswith(".pkl"):
                    found[f"{name}_pickle"] = archive.read(member) + b"\0"
                elif member.endswith(".npy"):
                    found[f"{name}_{member}"] = archive.read(member) + b"\1"
    return found
