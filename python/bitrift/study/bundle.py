"""Checkpoints of TensorFlow 2: a folder with the files of a bundle, `tf.train.Checkpoint(...).write`."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bitrift.study import contents
from bitrift.study.contents import Contents, Extent, State

PREFIX = "checkpoint"  # of the names of a bundle's files
_MAGIC = 0xDB4775248B80FB57  # ends a table of LevelDB (doc/table_format.md)


@functools.cache
def tensorflow() -> Any:
    """The module, with one thread and without the memory of GPUs."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.constant(0).numpy()  # starts its threads
    return tf


def bundle_of(state: State) -> Any:
    """A tf.train.Checkpoint with one variable for each tensor."""
    tf = tensorflow()
    return tf.train.Checkpoint(state={name: tf.Variable(value, dtype=value.dtype) for name, value in state.items()})


def write_bundle(state: State, path: Path) -> list[Extent]:
    """Makes the folder, and returns where the values are in it."""
    path.mkdir(parents=True, exist_ok=True)
    bundle_of(state).write(str(path / PREFIX))
    return list(_extents(state, path))


def read_bundle(path: Path, state: State) -> Contents:
    """Reads into variables of the state's types and shapes, as the program that loads would bring them."""
    bundle = bundle_of({name: np.zeros_like(value) for name, value in state.items()})
    bundle.read(str(path / PREFIX)).assert_consumed()
    return {name: contents.of_anything(variable.numpy()) for name, variable in bundle.state.items()}


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in LEB128, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def _block(data: bytes, handle: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a block that is not compressed (LevelDB's table/block_builder.cc)."""
    first, at = _varint(handle, 0)
    size, _ = _varint(handle, at)
    block, key, at = data[first : first + size], b"", 0
    end = size - 4 - 4 * int.from_bytes(block[-4:], "little")  # where the places of restarts begin
    while at < end:
        shared, at = _varint(block, at)
        own, at = _varint(block, at)
        length, at = _varint(block, at)
        key = key[:shared] + block[at : at + own]
        yield key, block[at + own : at + own + length]
        at += own + length


def _place(entry: bytes) -> tuple[int, int]:
    """First byte and size of a tensor: the fields offset = 4 and size = 5 of BundleEntryProto (tensor_bundle.proto)."""
    found, at = {4: 0, 5: 0}, 0
    while at < len(entry):
        tag, at = _varint(entry, at)
        if tag & 7 == 0:
            found[tag >> 3], at = _varint(entry, at)
        elif tag & 7 == 2:  # bytes
            size, at = _varint(entry, at)
            at += size
        else:  # fixed32
            at += 4
    return found[4], found[5]


def _extents(state: State, path: Path) -> Iterator[Extent]:
    """Where the values are in a sound bundle of one shard."""
    index = (path / f"{PREFIX}.index").read_bytes()
    if int.from_bytes(index[-8:], "little") != _MAGIC:
        raise ValueError(f"{PREFIX}.index is not a LevelDB table")
    footer = index[-48:]  # the places of two blocks: of more about the table, and of the index of its blocks
    _, at = _varint(footer, 0)
    _, at = _varint(footer, at)
    entries = {key: entry for _, handle in _block(index, footer[at:]) for key, entry in _block(index, handle)}
    for name in state:
        escaped = name.replace(".", "..").replace("/", ".S")  # as trackable_utils.escape_local_name
        first, size = _place(entries[f"state/{escaped}/.ATTRIBUTES/VARIABLE_VALUE".encode()])
        yield Extent(f"{PREFIX}.data-00000-of-00001", first, first + size, name)
