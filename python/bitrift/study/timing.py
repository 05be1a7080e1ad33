"""Times saves of one state by the libraries that define the formats, from memory that was written before."""

from __future__ import annotations

import os
import statistics
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bitrift.study.bundle import PREFIX, bundle_of
from bitrift.study.contents import State
from bitrift.study.keras_model import model_of

PIECE = 1 << 18  # larger writes are slower: the kernel then copies from memory that has left the processor's cache
Times = dict[str, float]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _write_raw(content: memoryview, path: Path) -> None:
    """The plainest save: write(2), fsync, rename."""
    temporary = path.with_name(path.name + ".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    for at in range(0, len(content), PIECE):
        os.write(descriptor, content[at : at + PIECE])
    os.fsync(descriptor)
    os.close(descriptor)
    temporary.rename(path)


class Timing:
    """Saves of one state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._content = memoryview(b"".join(np.ascontiguousarray(value).tobytes() for value in state.values()))
        self._buffer = memoryview(bytearray(self._content))  # warm: every page has been written
        self._pool = ThreadPoolExecutor(1)
        self._torch: dict[str, Any] | None = None
        self._bundle: Any = None
        self._model: Any = None

    def time(self, form: str, path: Path, behind: bool, saves: int, between: float) -> Times:
        """Medians of so many saves, each over the one before it and `between` seconds later.

        Seconds for which a save blocks, from then until the disk has it, and of processor time. behind: in the
        background.
        """
        taken: list[Times] = []
        for number in range(saves):
            if number > 0:
                time.sleep(between)
            taken.append(self._time(form, path, behind))
        return {key: statistics.median(one[key] for one in taken) for key in taken[0]}

    def _time(self, form: str, path: Path, behind: bool) -> Times:
        if behind:
            return self._behind({"raw": self._copy, "dcp": self._dcp_async}[form], path)
        work = self._writers()[form]
        processor, start = time.process_time(), time.perf_counter()
        work(path)
        block = time.perf_counter() - start
        return {"block": block, "persist": 0.0, "processor": time.process_time() - processor}

    def _behind(self, work: Callable[[Path], Future[Any]], path: Path) -> Times:
        processor, start = time.process_time(), time.perf_counter()
        future = work(path)
        block = time.perf_counter() - start
        future.result()
        persist = time.perf_counter() - start - block
        return {"block": block, "persist": persist, "processor": time.process_time() - processor}

    def _copy(self, path: Path) -> Future[Any]:
        """One memcpy into warm memory, which is then written raw."""
        self._buffer[:] = self._content
        return self._pool.submit(_write_raw, self._buffer, path)

    def _tensors(self) -> dict[str, Any]:
        import torch

        if self._torch is None:
            self._torch = {name: torch.from_numpy(value.copy()) for name, value in self._state.items()}
        return self._torch

    def _writers(self) -> dict[str, Callable[[Path], None]]:
        def synced(work: Callable[[Path], object]) -> Callable[[Path], None]:
            def save(path: Path) -> None:
                work(path)
                _sync(path)

            return save

        return {
            "raw": lambda path: _write_raw(self._content, path),
            "hdf5": synced(self._hdf5),
            "hdf5-gzip": synced(lambda path: self._hdf5(path, compression="gzip", compression_opts=4, shuffle=True)),
            "pytorch": synced(self._pytorch),
            "npz": synced(lambda path: np.savez(path, **self._state)),  # type: ignore[arg-type]
            "npz-deflated": synced(lambda path: np.savez_compressed(path, **self._state)),  # type: ignore[arg-type]
            "safetensors": synced(self._safetensors),
            "dcp": self._dcp,
            "tensorflow": self._tensorflow,
            "keras": synced(lambda path: self._model.save(path)),
        }

    def prepare(self, form: str) -> None:
        """Imports and converts what time() shall not count."""
        if form in ("pytorch", "safetensors", "dcp"):
            self._tensors()
        if form == "dcp":
            self._process_group()
        if form == "safetensors":
            import safetensors.torch  # noqa: F401
        if form == "tensorflow" and self._bundle is None:
            self._bundle = bundle_of(self._state)
        if form == "keras" and self._model is None:
            self._model = model_of(self._state)

    def _hdf5(self, path: Path, **filters: Any) -> None:
        with h5py.File(path, "w") as file:
            for name, value in self._state.items():
                file.create_dataset(name, data=value, **(filters if value.shape else {}))

    def _pytorch(self, path: Path) -> None:
        import torch

        torch.save(self._tensors(), path)

    def _safetensors(self, path: Path) -> None:
        import safetensors.torch

        safetensors.torch.save_file(self._tensors(), path)

    def _tensorflow(self, path: Path) -> None:
        self._bundle.write(str(path / PREFIX))
        for file in path.iterdir():
            _sync(file)

    @staticmethod
    def _process_group() -> None:
        """Starts a group of this process alone; its store is in memory, so nothing listens."""
        import torch.distributed as dist
        from torch._C._distributed_c10d import HashStore

        if not dist.is_initialized():
            dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)

    def _dcp(self, path: Path) -> None:
        from torch.distributed.checkpoint.filesystem import FileSystemWriter
        from torch.distributed.checkpoint.state_dict_saver import save

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            save(self._tensors(), storage_writer=FileSystemWriter(path, sync_files=True))

    def _dcp_async(self, path: Path) -> Any:
        from torch.distributed.checkpoint.filesystem import FileSystemWriter
        from torch.distributed.checkpoint.state_dict_saver import async_save

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return async_save(self._tensors(), storage_writer=FileSystemWriter(path, sync_files=True))
