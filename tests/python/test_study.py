"""bitrift.study: what native writers wrote, native readers return, and nothing in a file is executed."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import signal
import socket
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from bitrift.study import contents, formats, reader


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "base.h5"
    values = np.random.default_rng(3)
    with h5py.File(path, "w") as file:
        file["model/w"] = values.standard_normal((40, 30), np.float32)
        file["model/b"] = values.standard_normal(7)
        file["progress/step"] = np.int64(12)
        file["rng/seed"] = np.uint64(2**64 - 3)
        file["half"] = np.arange(9, dtype=np.float16)
        file["checksum/crc32c"] = np.arange(4, dtype=np.uint32)
    return path


def digests(state: contents.State) -> contents.Contents:
    return {name: contents.of_array(value) for name, value in state.items()}


# TensorFlow's tests are in tests/e2e/train/test_checkpoint_study_tensorflow.py.
FORMATS = [name for name in formats.FORMATS if name != "tensorflow"]


def place(folder: Path, form: str) -> Path:
    """Some writers add an extension, or refuse another one."""
    return folder / ("file" + {"npz": ".npz", "npz-deflated": ".npz", "keras": ".keras"}.get(form, ""))


@pytest.mark.parametrize("name", FORMATS)
def test_a_reader_returns_what_the_writer_got(base: Path, tmp_path: Path, name: str) -> None:
    state = formats.read_state(base)
    assert set(state) == {"model/w", "model/b", "progress/step", "rng/seed", "half"}
    path = place(tmp_path, name)
    formats.FORMATS[name].write(state, path)
    assert formats.FORMATS[name].read(path, state) == digests(state)


@pytest.mark.parametrize("name", ["dcp", "keras"])
def test_the_extents_are_the_values(base: Path, tmp_path: Path, name: str) -> None:
    state, path = formats.read_state(base), place(tmp_path, name)
    extents = formats.FORMATS[name].write(state, path)
    assert extents is not None
    found = {one.tensor: (path / one.file).read_bytes()[one.first : one.end] for one in extents}
    assert found == {name: value.tobytes() for name, value in state.items()}


def test_digests_know_values_types_and_shapes_but_not_byte_orders() -> None:
    array = np.arange(6, dtype=np.float32)
    assert contents.of_array(array) == contents.of_array(array.astype(">f4"))
    assert contents.of_array(array) == contents.of_tensor(torch.arange(6, dtype=torch.float32))
    others: list[Any] = [array.reshape(2, 3), array.view(np.int32), array[::-1], array.astype(np.float64), array[:5]]
    others += [np.asarray(array, order="F").reshape(3, 2)]
    assert len({contents.of_array(one) for one in [array, *others]}) == len(others) + 1
    assert contents.of_array(np.zeros(1)) != contents.of_array(-np.zeros(1))
    assert contents.of_tensor(torch.ones(3, dtype=torch.bfloat16)) != contents.of_tensor(torch.ones(3))
    assert contents.of_anything("text") != contents.of_anything(array)
    assert contents.of_mapping([array]).keys() == {""}
    flat, nested = {"a/b": array, "c": array}, {"a": {"b": array}, "c": array, "spec": "a text"}
    assert contents.of_mapping(flat) == contents.of_mapping(nested) != contents.of_mapping({"c": array})
    for odd in (np.zeros(3, "S0"), np.zeros(2, "f4,i8"), np.zeros(1, "M8[s]"), torch.eye(2).to_sparse(), None):
        assert contents.of_anything(odd) != contents.of_anything(array)  # and no exception


class Evil:
    """Pickled, it is a call."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def test_no_pickle_is_executed(base: Path, tmp_path: Path) -> None:
    state = formats.read_state(base)
    mark = tmp_path / "executed"
    evil = Evil(mark)
    torch.save({"a": evil}, tmp_path / "a.pt")
    np.savez(tmp_path / "a.npz", a=np.asarray([evil], dtype=object))
    formats.FORMATS["dcp"].write(state, tmp_path / "dcp")
    (tmp_path / "dcp" / ".metadata").write_bytes(pickle.dumps(evil))
    for name, file in (("pytorch", "a.pt"), ("npz", "a.npz"), ("dcp", "dcp")):
        with pytest.raises((pickle.UnpicklingError, ValueError, AssertionError), match=r"mkdir|allow_pickle"):
            formats.FORMATS[name].read(tmp_path / file, state)
    assert not mark.exists()


def test_getattr_is_taken_for_members_of_enums_alone() -> None:
    """Python 3.11.0 to 3.11.3 pickle a member of an Enum as a call of getattr."""
    module = "torch.distributed.checkpoint.metadata"

    def loaded(owner: str, name: str) -> object:
        code = f"cbuiltins\ngetattr\n(c{owner}\nV{name}\ntR.".encode()
        return formats._MetadataUnpickler(io.BytesIO(code)).load()

    assert str(loaded(f"{module}\n_MEM_FORMAT_ENCODING", "TORCH_CHANNELS_LAST")).endswith("TORCH_CHANNELS_LAST")
    for owner in ("torch\nSize", "pathlib\nPath"):
        with pytest.raises(pickle.UnpicklingError, match="is not a part of this format"):
            loaded(owner, "__class__")


def test_texts_in_npz_files_are_not_opened_and_devices_in_torch_files_are_not_used(base: Path, tmp_path: Path) -> None:
    """Flips there are `same`, as docs/checkpoint-cost.md says."""
    state = formats.read_state(base)
    np.savez(tmp_path / "a.npz", **state, **{"@spec": np.asarray("some text")})  # type: ignore[arg-type]
    torch.save({name: torch.from_numpy(value) for name, value in state.items()}, tmp_path / "a.pt")
    for name, file, place in (("npz", "a.npz", "some".encode("utf-32-le")), ("pytorch", "a.pt", b"cpu")):
        raw = bytearray((tmp_path / file).read_bytes())
        assert raw.count(place) == 1
        raw[raw.index(place)] ^= 1
        (tmp_path / file).write_bytes(raw)
        assert formats.FORMATS[name].read(tmp_path / file, state) == digests(state)
    with np.load(tmp_path / "a.npz") as arrays, pytest.raises(zipfile.BadZipFile, match="Bad CRC-32"):
        arrays["@spec"]
    with pytest.raises(RuntimeError, match="don't know how to restore data location"):
        torch.load(tmp_path / "a.pt", weights_only=True)


def test_messages_do_not_name_folders_or_addresses(tmp_path: Path) -> None:
    error = ValueError(f"{tmp_path}/x.pt: <object at 0x7f12ab> is \x00bad\nsecond line")
    assert reader.message_of(error, tmp_path / "x.pt") == "ValueError: x.pt: <object at ...> is ?bad"
    assert reader.message_of(ValueError(), tmp_path) == "ValueError: "
    assert len(reader.message_of(ValueError("x" * 999), tmp_path)) == reader.MOST_CHARACTERS


class Served:
    """A reader in a process of its own."""

    def __init__(self, base: Path, *options: str, env: dict[str, str] | None = None) -> None:
        name = f"bitrift-test-{os.getpid()}-{id(self)}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind("\0" + name)
            listener.listen(1)
            listener.settimeout(60)
            command = [sys.executable, "-m", "bitrift.study.reader", "--connect", name, "--base", str(base), *options]
            self.process = subprocess.Popen(command, env=os.environ | (env or {}))
            self.channel, _ = listener.accept()
        self.channel.settimeout(60)
        self.lines = self.channel.makefile("rw")
        self.hello = json.loads(self.lines.readline())["hello"]

    def ask(self, do: str, form: str, path: Path, **more: Any) -> dict[str, Any]:
        self.lines.write(json.dumps({"do": do, "format": form, "path": str(path)} | more) + "\n")
        self.lines.flush()
        answer: dict[str, Any] = json.loads(self.lines.readline())
        return answer

    def end(self) -> int:
        self.lines.close()
        self.channel.close()
        return self.process.wait(timeout=20)


def test_the_reader_serves_until_the_other_end_hangs_up(base: Path, tmp_path: Path) -> None:
    served = Served(base, "--formats", "hdf5", "npz")
    state = formats.read_state(base)
    assert {name: one["digest"] for name, one in served.hello["tensors"].items()} == digests(state)
    assert served.hello["tensors"]["model/w"]["bytes"] == 4800 and served.hello["formats"]["hdf5"] is True
    path = tmp_path / "a.npz"
    assert served.ask("write", "npz", path) == {"extents": None}
    assert served.ask("read", "npz", path) == {"tensors": digests(state), "stale": False}
    assert "refused" in served.ask("write", "npz", tmp_path / "no" / "a.npz")
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    assert served.ask("read", "npz", path)["refused"].startswith("BadZipFile: Bad CRC-32")
    assert served.ask("read", "hdf5", path)["refused"].startswith("OSError: Unable to synchronously open file")
    assert served.end() == 0


@pytest.mark.parametrize("form", FORMATS)
def test_one_changed_element_is_named_with_its_bits(base: Path, tmp_path: Path, form: str) -> None:
    state = formats.read_state(base)
    served = Served(base, "--formats", form)
    path = place(tmp_path, form)

    def change_in(**others: Any) -> dict[str, Any] | None:
        formats.FORMATS[form].write(state | others, path)
        answer = served.ask("read", form, path, change=True)
        assert answer["tensors"] == digests(state | others)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        return answer.get("change")

    other = state["model/w"].copy()
    assert change_in() is None
    other.view(np.uint32)[3, 5] ^= 0x80000001
    assert change_in(**{"model/w": other}) == {"tensor": "model/w", "element": 95, "mask": "0x80000001"}
    seed = np.array(state["rng/seed"] ^ np.uint64(1 << 63))
    assert change_in(**{"rng/seed": seed}) == {"tensor": "rng/seed", "element": 0, "mask": hex(1 << 63)}
    other.view(np.uint32)[39, 29] ^= 2
    assert change_in(**{"model/w": other}) is None  # two elements
    half = state["half"].copy()
    half[1] = 7
    assert change_in(half=half, **{"progress/step": np.array(13)}) is None  # two tensors
    assert served.end() == 0


def test_a_tensor_that_becomes_another_one_is_a_change(base: Path, tmp_path: Path) -> None:
    with h5py.File(base, "a") as file:
        file["progress/epoch"] = np.int64(12 ^ 4)
    state = formats.read_state(base)
    formats.FORMATS["npz"].write(state | {"progress/step": state["progress/epoch"]}, tmp_path / "a.npz")
    served = Served(base, "--formats", "npz")
    answer = served.ask("read", "npz", tmp_path / "a.npz", change=True)
    assert answer["change"] == {"tensor": "progress/step", "element": 0, "mask": "0x4"}
    assert "change" not in served.ask("read", "npz", tmp_path / "a.npz")
    assert served.end() == 0


def test_a_reader_that_shows_unwritten_memory_gives_one_answer(base: Path, tmp_path: Path) -> None:
    """PyTorch inflates a stored `version` to one digit and parses two bytes; without a pattern, 1.4 % are refused."""
    served = Served(base, "--formats", "pytorch", env={"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"})
    path = tmp_path / "a.pt"
    served.ask("write", "pytorch", path)
    content = bytearray(path.read_bytes())
    place = content.rindex(b"a/version") - 46  # a header of the central directory has 46 bytes before the name
    assert content[place : place + 4] == b"PK\x01\x02" and content[place + 10] == 0  # stored
    content[place + 10] = 8  # deflated
    path.write_bytes(content)
    answers = {json.dumps(served.ask("read", "pytorch", path)) for _ in range(600)}
    assert served.end() == 0
    assert [json.loads(one)["tensors"] for one in answers] == [digests(formats.read_state(base))]


def lying_npz(path: Path) -> None:
    """One array whose header claims 32 GiB."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 33,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("w.npy", header.getvalue())


def lying_hdf5(path: Path) -> None:
    """A chunked data set of 32 GiB of which nothing is stored."""
    with h5py.File(path, "w") as file:
        file.create_dataset("w", (1 << 33,), "f4", chunks=(1024,))


@pytest.mark.parametrize(("form", "make"), [("npz", lying_npz), ("hdf5", lying_hdf5)])
def test_a_file_that_claims_much_memory_is_refused(base: Path, tmp_path: Path, form: str, make: Any) -> None:
    make(tmp_path / "lies")
    served = Served(base, "--formats", form, "--memory", str(1 << 28))
    answer = served.ask("read", form, tmp_path / "lies")
    assert "emory" in answer["refused"], answer
    assert "tensors" in served.ask("read", "hdf5", base)  # and the reader lives
    assert served.end() == 0


def test_a_reader_that_dies_of_a_signal_shows_it(base: Path) -> None:
    served = Served(base)
    served.process.send_signal(signal.SIGSEGV)
    assert served.lines.readline() == ""
    assert served.end() == -signal.SIGSEGV


def test_misreading_is_a_drill(base: Path, tmp_path: Path) -> None:
    served = Served(base, "--formats", "npz", "--drill", "misread")
    served.ask("write", "npz", tmp_path / "a.npz")
    found = served.ask("read", "npz", tmp_path / "a.npz")["tensors"]
    expected = {name: one["digest"] for name, one in served.hello["tensors"].items()}
    assert sum(found[name] != expected[name] for name in expected) == 1
    assert served.end() == 0


def test_a_safetensors_header_with_a_lying_size_is_refused(base: Path, tmp_path: Path) -> None:
    state = formats.read_state(base)
    path = tmp_path / "a.safetensors"
    formats.FORMATS["safetensors"].write(state, path)
    path.write_bytes(struct.pack("<Q", 1 << 40) + path.read_bytes()[8:])
    served = Served(base, "--formats", "safetensors")
    assert "refused" in served.ask("read", "safetensors", path)
    assert served.end() == 0
