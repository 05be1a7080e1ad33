"""The package beside others in one process, and what it shows."""

from __future__ import annotations

import inspect
import itertools
import os
import subprocess
import sys
from pathlib import Path

import bitrift
import pytest
from synthetic import write_checkpoint

USE = """
import sys
path = sys.argv[1]
for name in sys.argv[2:]:
    __import__(name)
import bitrift, h5py, torch
with h5py.File(path, "r") as file:
    weight = torch.from_numpy(file["model/conv1.weight"][()])
tensor = next(t for t in bitrift.list_tensors(path) if t.path == "model/conv1.weight")
assert tuple(weight.shape) == tensor.shape
try:
    bitrift.list_tensors("/nonexistent/file.h5")
except bitrift.Error as error:
    assert error.code == "not_found"
bitrift.inject(path, path + ".altered", roles=["weight"], bits="sign")
with h5py.File(path + ".altered", "r") as file:
    altered = torch.from_numpy(file["model/conv1.weight"][()])
assert int((altered != weight).sum()) == 1
assert torch.nn.functional.relu(altered).sum() >= 0
"""


# Each pair in either order; the rest is thorough.
ORDERS = list(itertools.permutations(["bitrift", "h5py", "torch"]))
COVERING = (ORDERS[0], ORDERS[0][::-1])


@pytest.mark.parametrize(
    "order",
    [pytest.param(one, marks=[pytest.mark.thorough] * (one not in COVERING)) for one in ORDERS],
    ids="-".join,
)
def test_lives_with_h5py_and_torch_in_any_import_order(order: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "c.h5"
    write_checkpoint(path)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", USE, str(path), *order], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_trains_nothing_and_starts_without_numpy() -> None:
    code = "import sys, bitrift; print([m for m in ('torch', 'numpy', 'h5py', 'mpi4py') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_module_links_neither_libtorch_nor_mpi_nor_hdf5() -> None:
    core = Path(bitrift._core.__file__)
    linked = subprocess.run(["ldd", core], capture_output=True, text=True, check=True).stdout
    assert "libspdlog" in linked
    assert not [name for name in ("torch", "libmpi", "hdf5") if name in linked]


PLUGIN = """
import os, sys, h5py, hdf5plugin, numpy as np, bitrift
os.environ["HDF5_PLUGIN_PATH"] = hdf5plugin.PLUGIN_PATH  # too late for h5py, to which hdf5plugin gives its own
data = np.arange(600, dtype="<u2")
with h5py.File(sys.argv[1], "w") as file:
    file.create_dataset("w", data=data, chunks=(100,), **hdf5plugin.Blosc())
for i in range(3):
    bitrift.inject(sys.argv[1], sys.argv[2], count=5, seed=i)
    with h5py.File(sys.argv[2]) as file:
        assert sum(int(one).bit_count() for one in file["w"][()] ^ data) == 5
"""


def test_filters_run_beside_the_hdf5_of_h5py(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLUGIN, tmp_path / "f.h5", tmp_path / "o.h5"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


FORKED = """
import os, sys, h5py, numpy as np, bitrift
folder = sys.argv[1]
def work(number):
    data = np.arange(number, number + 600, dtype="<i4")
    path, out = f"{folder}/{number}.h5", f"{folder}/{number}.out.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("w", data=data, chunks=(100,), scaleoffset=0)
    for i in range(20):
        bitrift.inject(path, out, bits="0-7", count=3, seed=i)
        with h5py.File(out) as file:
            assert sum(int(one).bit_count() for one in file["w"][()] ^ data) == 3
work(1)
children = []
for number in (2, 3):
    child = os.fork()
    if child == 0:
        work(number)
        os._exit(0)
    children.append(child)
work(4)
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
"""


def test_processes_that_were_forked_share_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED, tmp_path], capture_output=True, text=True, check=False, timeout=100
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_everything_public_is_typed_and_documented() -> None:
    folder = Path(os.fspath(bitrift.__file__)).parent
    assert (folder / "py.typed").exists() and (folder / "_core.pyi").exists()
    for name in bitrift.__all__:
        thing = getattr(bitrift, name)
        if callable(thing):
            assert inspect.getdoc(thing), name


def test_an_error_is_a_runtime_error_with_a_code() -> None:
    assert issubclass(bitrift.Error, RuntimeError)
    with pytest.raises(bitrift.Error, match="confidence") as raised:
        bitrift.wilson(1, 2, 3)
    assert raised.value.code == "bad_input"
    assert "code" in (bitrift.Error.__doc__ or "")
