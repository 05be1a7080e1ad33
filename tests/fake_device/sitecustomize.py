"""Makes torch.cuda work on the fake device: with this folder in PYTHONPATH and its library in BITRIFT_FAKE_DEVICE.

PyTorch without CUDA lacks the functions that torch.cuda is made of. They are set here when a script imports torch.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType


def use_fake_device(torch: ModuleType) -> None:
    """Gives torch.cuda its functions."""
    fake, cuda = torch.ops.fake_device, torch.cuda

    def index(device: object = None) -> int:
        return fake.current() if device is None else cuda._utils._get_device_index(device, optional=True)

    torch._C._cuda_getDeviceCount = fake.count
    torch._C._cuda_getDevice = fake.current
    torch._C._cuda_setDevice = fake.use
    torch._C._cuda_getCurrentRawStream = lambda _device: 0
    cuda._initialized = True
    cuda.synchronize = lambda device=None: fake.synchronize(index(device))
    cuda.get_device_name = lambda _device=None: "fake device"
    cuda.default_generators = tuple(fake.generator(one) for one in range(fake.count()))
    atexit.register(fake.write_record)


class AfterTorch(importlib.abc.MetaPathFinder):
    """Lets use_fake_device() follow the import of torch."""

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        loader = spec.loader
        assert loader is not None
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            ctypes.CDLL(os.environ["BITRIFT_FAKE_DEVICE"])  # first: LibTorch looks once whether there is a device
            run(module)
            use_fake_device(module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if "BITRIFT_FAKE_DEVICE" in os.environ:
    sys.meta_path.insert(0, AfterTorch())
