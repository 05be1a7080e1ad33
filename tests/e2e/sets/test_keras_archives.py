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
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keras") / "model.keras"
    keras_model().save(path)
    return path


@pytest.fixture(scope="module", params=["stored", "deflated"])
def base(request: pytest.FixtureRequest, stored: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As Keras writes it, and packed again by another program."""
    if request.param == "stored":
        return stored
    path = tmp_path_factory.mktemp("deflated") / "model.keras"
    packed(stored, path, zipfile.ZIP_DEFLATED)
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
def test_planes_and_undo(stored: Path, plane: str, tmp_path: Path) -> None:
    place = tmp_path / "here.keras"
    shutil.copy(stored, place)
    done("inject", place, "--in-place", "--plane", plane, "--count", 30, "--seed", 3)
    old, new = (np.frombuffer(path.read_bytes(), np.uint8) for path in (stored, place))
    bits = int(np.unpackbits(old ^ new).sum())
    assert bits == 30 if plane != "value" else bits > 30  # the CRC-32 of the member follows, twice
    assert call("verify", place).returncode == (0 if plane == "value" else 1)
    done("undo", place)
    assert place.read_bytes() == stored.read_bytes()


def test_planes_of_a_deflated_file(stored: Path, tmp_path: Path) -> None:
    path = tmp_path / "here.keras"
    packed(stored, path, zipfile.ZIP_DEFLATED)
    original = path.read_bytes()
    done("inject", path, "--in-place", "--count", 300, "--seed", 3)  # of many tensors in one stored member
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    assert call("diff", path, stored).stdout.count("element ") > 5
    done("undo", path)
    assert path.read_bytes() == original
    says = refused("inject", path, "--in-place", "--plane", "storage")
    assert "in a file that is deflated as a whole" in says and "unpack that file" in says
    with zipfile.ZipFile(path) as archive:
        weights = archive.getinfo("model.weights.h5")
    done("inject", path, "--in-place", "--plane", "metadata", "--count", 30, "--seed", 3)
    altered = path.read_bytes()
    differ = [i for i, (old, new) in enumerate(zip(original, altered, strict=True)) if old != new]
    first = weights.header_offset + 30 + len(weights.filename)
    assert len(differ) >= 25 and not any(first <= i < first + weights.compress_size for i in differ)


def test_a_flipped_bit_is_found(base: Path, tmp_path: Path) -> None:
    data = bytearray(base.read_bytes())
    one = next(tensor for tensor in bitrift.list_tensors(base) if tensor.role == "weight")
    with zipfile.ZipFile(base) as archive:
        weights = archive.getinfo("model.weights.h5")
    in_packed = weights.header_offset + 30 + len(weights.filename) + weights.compress_size // 2
    is_stored = weights.compress_type == zipfile.ZIP_STORED
    assert (one.offset is not None) == is_stored
    data[one.offset + 9 if is_stored else in_packed] ^= 0x20
    bad = tmp_path / "bad.keras"
    bad.write_bytes(data)
    told = call("verify", bad)
    assert told.returncode == 1 and "member model.weights.h5" in told.stdout
    assert (one.path if is_stored else "the tensors cannot be listed") in told.stdout
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


def test_what_a_deflated_file_compresses_or_sums_itself_is_refused(stored: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.keras"
    packed(stored, path, zipfile.ZIP_DEFLATED, chunks=(8, 16), compression="gzip")
    told = refused("inject", path, "--in-place", "--tensor", "layers/dense/vars/0", "--count", 2)
    assert "compressed in a compressed file; unpack it" in told
    done("inject", path, "--in-place", "--count", 2)  # the others
    kernel = next(one for one in bitrift.diff(path, stored) if one.path == "layers/dense/vars/0")
    assert kernel.elements == 8 * 16  # it is read: its values here are 0


def test_an_attribute_under_a_checksum_of_a_deflated_file_is_refused(tmp_path: Path) -> None:
    held = io.BytesIO()
    with h5py.File(held, "w", libver="latest") as file:
        file["layers/dense/vars/0"] = np.ones(3, "f4")
        file["layers"].attrs["scale"] = np.float32(2)
    path = tmp_path / "m.keras"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.weights.h5", held.getvalue())
    told = refused("inject", path, "--in-place", "--tensor", "layers@scale", "--count", 1)
    assert "a checksum covers it in a compressed file" in told
    done("inject", path, "--in-place", "--tensor", "layers/**", "--count", 1)


def test_chunks_change_in_place_or_not_at_all(stored: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.keras"
    packed(stored, path, zipfile.ZIP_STORED, chunks=(8, 16), compression="gzip")
    original = path.read_bytes()
    words = ("--tensor", "layers/dense/vars/0", "--seed", 1)
    assert "no space for it" in refused("inject", path, "--in-place", *words, "--count", 200)
    assert path.read_bytes() == original and not path.with_suffix(".keras.undo").exists()
    packed(stored, path, zipfile.ZIP_STORED, chunks=(8, 16), shuffle=True)
    done("inject", path, "-o", tmp_path / "out.keras", *words, "--count", 5)
    with zipfile.ZipFile(tmp_path / "out.keras") as archive:
        assert archive.testzip() is None
        with h5py.File(io.BytesIO(archive.read("model.weights.h5"))) as file:
            assert np.count_nonzero(file["layers/dense/vars/0"][()]) == 5
