"""Native writers and readers: the libraries that define the formats, called as their documentation says.

No reader executes what a file says: pickles of arrays are refused, torch.load reads weights only, and the metadata of
torch.distributed.checkpoint is unpickled with the classes that a sound file names and no others.
"""

from __future__ import annotations

import importlib.util
import io
import pickle
import warnings
import zipfile
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from bitrift.study import contents
from bitrift.study.bundle import read_bundle, tensorflow, write_bundle
from bitrift.study.contents import Contents, Extent, State
from bitrift.study.keras_model import keras, read_keras, write_keras


def is_state(name: str) -> bool:
    """Whether a tensor of a checkpoint belongs to the training's state: checksums and attributes do not."""
    return not name.startswith(("checksum/", "@"))


def read_state(path: Path) -> State:
    """The state in an HDF5 checkpoint of bitrift."""
    state: State = {}

    def visit(group: h5py.Group, prefix: str) -> None:
        for name in group:
            item = group[name]  # unlike items(), this refuses what cannot be opened
            if isinstance(item, h5py.Group):
                visit(item, f"{prefix}{name}/")
            elif isinstance(item, h5py.Dataset) and is_state(prefix + name):
                state[prefix + name] = np.asarray(item[()])

    with h5py.File(path, "r") as file:
        visit(file, "")
    return state


def _tensors(state: State) -> dict[str, Any]:
    import torch

    return {name: torch.from_numpy(value.copy()) for name, value in state.items()}


def _write_hdf5(state: State, path: Path, **filters: Any) -> None:
    with h5py.File(path, "w") as file:
        for name, value in state.items():
            file.create_dataset(name, data=value, **(filters if value.shape else {}))


def _write_hdf5_gzip(state: State, path: Path) -> None:
    _write_hdf5(state, path, compression="gzip", compression_opts=4, shuffle=True)


def _read_hdf5(path: Path, _: State) -> Contents:
    return {name: contents.of_anything(value) for name, value in read_state(path).items()}


def _write_pytorch(state: State, path: Path) -> None:
    import torch

    torch.save(_tensors(state), path)


def _read_pytorch(path: Path, _: State) -> Contents:
    import torch

    return contents.of_mapping(torch.load(path, map_location="cpu", weights_only=True))


def _write_npz(state: State, path: Path) -> None:
    np.savez(path, **state)  # type: ignore[arg-type]


def _write_npz_deflated(state: State, path: Path) -> None:
    np.savez_compressed(path, **state)  # type: ignore[arg-type]


def _read_npz(path: Path, _: State) -> Contents:
    with np.load(path, allow_pickle=False) as archive:
        return {name: contents.of_anything(archive[name]) for name in archive.files if is_state(name)}


def _write_safetensors(state: State, path: Path) -> None:
    import safetensors.torch

    safetensors.torch.save_file(_tensors(state), path)


def _read_safetensors(path: Path, _: State) -> Contents:
    import safetensors.torch

    return contents.of_mapping(safetensors.torch.load_file(path))


def _write_dcp(state: State, path: Path) -> list[Extent]:
    from torch.distributed.checkpoint.filesystem import FileSystemWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is one process only
        save(_tensors(state), storage_writer=FileSystemWriter(path, thread_count=1), no_dist=True)
    found = []
    for index, place in _load_metadata(path / ".metadata").storage_data.items():
        piece = (path / place.relative_path).read_bytes()[place.offset : place.offset + place.length]
        with zipfile.ZipFile(io.BytesIO(piece)) as archive:
            for member in archive.infolist():
                if "/data/" not in member.filename:
                    continue
                first = place.offset + contents.start_of_member(piece, member)
                found.append(Extent(place.relative_path, first, first + member.file_size, index.fqn))
    return found


# What the pickle of a sound .metadata names.
_METADATA_MODULES = {"torch.distributed.checkpoint.metadata", "torch.distributed.checkpoint.filesystem"}
_METADATA_NAMES = {
    ("torch", "Size"),
    ("torch.serialization", "_get_layout"),
    ("pathlib", "PosixPath"),
    ("pathlib", "Path"),
}


def _enum_member(owner: Any, name: str) -> Any:
    """What Python 3.11.0 to 3.11.3 write as getattr(owner, name)."""
    if not (isinstance(owner, type) and issubclass(owner, Enum)):
        raise pickle.UnpicklingError(f"getattr of {owner!r} is not a part of this format")
    return owner[name]


class _MetadataUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        import torch

        if (module, name) == ("builtins", "getattr"):
            return _enum_member
        plain = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if (module in _METADATA_MODULES and "." not in name) or (module, name) in _METADATA_NAMES or plain:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is not a class of this format")


def _load_metadata(path: Path) -> Any:
    with path.open("rb") as file:
        return _MetadataUnpickler(file).load()


def _read_dcp(path: Path, state: State) -> Contents:
    import torch
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.metadata import StorageMeta
    from torch.distributed.checkpoint.state_dict_loader import load

    class Reader(FileSystemReader):
        def read_metadata(self, *_: Any, **__: Any) -> Any:
            """As the base class does, with the restricted unpickler."""
            metadata = _load_metadata(path / ".metadata")
            if getattr(metadata, "storage_meta", None) is None:
                metadata.storage_meta = StorageMeta()
            metadata.storage_meta.load_id = self.load_id
            return metadata

    # The program that loads brings tensors of the right types and shapes.
    target = {name: torch.full_like(value, 0) for name, value in _tensors(state).items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            load(target, storage_reader=Reader(path), no_dist=True)
        except CheckpointException as error:
            raise next((one for one, _ in error.failures.values()), error) from None
    return contents.of_mapping(target)


class Format(NamedTuple):
    """How a format is written and read, and by which packages. forks: also in a process that was forked."""

    packages: tuple[str, ...]
    write: Callable[[State, Path], list[Extent] | None]
    read: Callable[[Path, State], Contents]
    forks: bool = True


FORMATS = {
    "hdf5": Format(("h5py",), _write_hdf5, _read_hdf5),
    "hdf5-gzip": Format(("h5py",), _write_hdf5_gzip, _read_hdf5),
    "pytorch": Format(("torch",), _write_pytorch, _read_pytorch),
    "npz": Format(("numpy",), _write_npz, _read_npz),
    "npz-deflated": Format(("numpy",), _write_npz_deflated, _read_npz),
    "safetensors": Format(("safetensors", "torch"), _write_safetensors, _read_safetensors),
    "dcp": Format(("torch",), _write_dcp, _read_dcp),
    "tensorflow": Format(("tensorflow",), write_bundle, read_bundle, forks=False),
    "keras": Format(("keras",), write_keras, read_keras, forks=False),
}


def is_installed(*packages: str) -> bool:
    """Looks for packages without importing them."""
    return all(importlib.util.find_spec(package) is not None for package in packages)


def warm_up(forms: Sequence[str]) -> None:
    """Imports what the formats need before memory is bounded."""
    installed = [form for form in forms if is_installed(*FORMATS[form].packages)]
    if any("torch" in FORMATS[form].packages for form in installed):
        import torch

        torch.set_num_threads(1)
    if "dcp" in installed:
        import torch.distributed.checkpoint
    if "tensorflow" in installed:
        tensorflow()
    if "keras" in installed:
        keras()
    if "safetensors" in installed:
        import safetensors.torch  # noqa: F401
