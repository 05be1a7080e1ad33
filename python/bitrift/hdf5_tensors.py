"""Tensors of PyTorch as datasets of HDF5 files, bfloat16 included."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from bitrift.kept_state import ConversionError

SCHEMA = "bitrift/torch/1"


def write_file(
    path: Path,
    states: Mapping[str, torch.Tensor],
    aliases: Mapping[str, str],
    progress: Mapping[str, float],
    documents: Mapping[str, Any],
) -> None:
    """Writes tensors by their paths, numbers, and JSON documents as attributes, under the name of a whole file only.

    aliases: tensors of the model that become hard links to others.
    """
    name = path.with_name(f".{path.name}.tmp-{secrets.token_hex(3)}")
    name.open("xb").close()  # mkstemp would hide the file from everybody else
    try:
        with h5py.File(name, "w") as file:
            file.attrs["schema"] = SCHEMA
            for key, document in documents.items():
                if document:
                    file.attrs[key] = json.dumps(document)
            file.create_group("model", track_order=True)  # the first name of a tensor is the one made first
            for key, value in states.items():
                primary = aliases.get(key.removeprefix("model/"))
                if primary is not None and key.startswith("model/"):
                    file[key] = file[f"model/{primary}"]
                else:
                    _put(file, key, value.detach().cpu())
            for key, number in progress.items():
                file[f"progress/{key}"] = np.float64(number) if isinstance(number, float) else np.int64(number)
        os.replace(name, path)
    except BaseException:
        name.unlink()
        raise


def _bfloat16() -> Any:
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_ebias(127)
    return kind


def _put(file: h5py.File, name: str, value: torch.Tensor) -> None:
    if value.dtype == torch.bfloat16:
        kind = _bfloat16()
        space = h5py.h5s.create_simple(tuple(value.shape)) if value.dim() else h5py.h5s.create(h5py.h5s.SCALAR)
        links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
        links.set_create_intermediate_group(True)
        dataset = h5py.h5d.create(file.id, name.encode(), kind, space, lcpl=links)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, value.contiguous().view(torch.int16).numpy(), kind)
        return
    try:
        file[name] = value.numpy()
    except TypeError:
        raise ConversionError(f"{name}: {value.dtype} has no HDF5 type; convert it first") from None


def read_tensor(dataset: h5py.Dataset) -> torch.Tensor:
    """The content of a dataset."""
    kind = dataset.id.get_type()
    if isinstance(kind, h5py.h5t.TypeFloatID) and kind.get_size() == 2 and kind.get_ebias() == 127:
        raw = np.empty(dataset.shape, np.int16)
        dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, raw, kind)
        return torch.from_numpy(raw).view(torch.bfloat16)
    return torch.from_numpy(np.asarray(dataset[()]))
