"""Archives of Keras (.keras): altered, repaired and undone in the HDF5 file inside, and loaded by Keras."""

from __future__ import annotations

import io
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import bitrift
import h5py
import numpy as np
import pytest
from set_files import keras_model
from test_file_sets import call, done, refused

os.environ["KERAS_BACKEND"] = "torch"
import keras

# Keras converts its variables in a way that NumPy warns of.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keras") / "model.keras"
    keras_model().save(path)
    return path


def loaded(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """What Keras has of a file: the variables of its layers and of its optimizer."""
    model = keras.models.load_model(path)
    variables = [*model.variables, *model.optimizer.variables]
    return {one.path: np.asarray(one.value.detach()) for one in variables}


def test_keras_loads_what_was_altered(base: Path, tmp_path: Path) -> None:
    before = loaded(base)
    listed = {one.path: one for one in bitrift.list_tensors(base)}
    assert len(listed) == len(before) and all(one.refusal == "" for one in listed.values())
    out = tmp_path / "out.keras"
    done("inject", base, "-o", out, "--tensor", "layers/dense_1/vars/0", "--element", 5, "--bits", 30)
    done("inject", out, "--in-place", "--tensor", "optimizer/vars/2", "--element", 7, "--what", "set", "--value", "1.5")
    with zipfile.ZipFile(out) as archive, zipfile.ZipFile(base) as original:
        assert archive.testzip() is None
        assert archive.read("config.json") == original.read("config.json")
    after = loaded(out)
    changed = {path: np.flatnonzero(after[path] != before[path]).tolist() for path in before}
    assert {path: where for path, where in changed.items() if where} == {
        "second/kernel": [5],
        "adam/first_kernel_momentum": [7],
    }
    assert after["adam/first_kernel_momentum"].flat[7] == 1.5
    old, new = (one["second/kernel"].view("u4").flat[5] for one in (before, after))
    assert int(old) ^ int(new) == 1 << 30


@pytest.mark.parametrize("plane", ["value", "storage", "metadata"])
def test_planes_and_undo(base: Path, plane: str, tmp_path: Path) -> None:
    place = tmp_path / "here.keras"
    shutil.copy(base, place)
    done("inject", place, "--in-place", "--plane", plane, "--count", 30, "--seed", 3)
    old, new = (np.frombuffer(path.read_bytes(), np.uint8) for path in (base, place))
    bits = int(np.unpackbits(old ^ new).sum())
    assert bits == 30 if plane != "value" else bits > 30  # the CRC-32 of the member follows, twice
    assert call("verify", place).returncode == (0 if plane == "value" else 1)
    done("undo", place)
    assert place.read_bytes() == base.read_bytes()


def test_a_flipped_bit_is_found(base: Path, tmp_path: Path) -> None:
    data = bytearray(base.read_bytes())
    one = next(tensor for tensor in bitrift.list_tensors(base) if tensor.role == "weight")
    assert one.offset is not None
    data[one.offset + 9] ^= 0x20
    bad = tmp_path / "bad.keras"
    bad.write_bytes(data)
    told = call("verify", bad)
    assert told.returncode == 1 and "member model.weights.h5" in told.stdout and one.path in told.stdout
    done("repair", bad, "-o", tmp_path / "fixed.keras")
    assert (tmp_path / "fixed.keras").read_bytes() == base.read_bytes()


def packed(base: Path, path: Path, method: int, **filters: Any) -> None:
    """The same archive, its HDF5 file written again with these filters."""
    with zipfile.ZipFile(base) as source, zipfile.ZipFile(path, "w", method) as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith(".h5") and filters:
                held = io.BytesIO()
                with h5py.File(io.BytesIO(content)) as old, h5py.File(held, "w") as new:
                    for group in old:
                        old.copy(group, new)
                    kernel = new["layers/dense/vars/0"][()]
                    del new["layers/dense/vars/0"]
                    new.create_dataset("layers/dense/vars/0", data=np.zeros_like(kernel), **filters)
                content = held.getvalue()
            target.writestr(name, content)


def test_a_compressed_member_is_refused(base: Path, tmp_path: Path) -> None:
    packed(base, tmp_path / "m.keras", zipfile.ZIP_DEFLATED)
    assert "unpack it from the archive" in refused("ls", tmp_path / "m.keras")


def test_chunks_change_in_place_or_not_at_all(base: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.keras"
    packed(base, path, zipfile.ZIP_STORED, chunks=(8, 16), compression="gzip")
    original = path.read_bytes()
    words = ("--tensor", "layers/dense/vars/0", "--seed", 1)
    assert "no space for it" in refused("inject", path, "--in-place", *words, "--count", 200)
    assert path.read_bytes() == original and not path.with_suffix(".keras.undo").exists()
    packed(base, path, zipfile.ZIP_STORED, chunks=(8, 16), shuffle=True)
    done("inject", path, "-o", tmp_path / "out.keras", *words, "--count", 5)
    with zipfile.ZipFile(tmp_path / "out.keras") as archive:
        assert archive.testzip() is None
        with h5py.File(io.BytesIO(archive.read("model.weights.h5"))) as file:
            assert np.count_nonzero(file["layers/dense/vars/0"][()]) == 5
