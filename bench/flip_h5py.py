#!/usr/bin/env python3
"""Flips bit 20 of random float32 values of a file, as a script with h5py does it; what inject.py compares with.

python bench/flip_h5py.py HOW FILE COUNT SEED

HOW: `elements`: draw a dataset, draw an element, read it, flip it, write it back, and so on; `chunks`: draw all places,
then read, alter and write each chunk once; `datasets`: the same with whole datasets, for many flips.
"""

from __future__ import annotations

import sys

import h5py
import numpy as np

MASK = np.uint32(1 << 20)


def elements(model: h5py.Group, count: int, generator: np.random.Generator) -> None:
    names = list(model)
    for _ in range(count):
        data = model[names[generator.integers(len(names))]]
        at = int(generator.integers(data.shape[0]))
        data[at] = (np.float32(data[at]).view(np.uint32) ^ MASK).view(np.float32)


def blocks(model: h5py.Group, count: int, generator: np.random.Generator, whole: bool) -> None:
    names = list(model)
    size = model[names[0]].shape[0]
    places = np.unique(generator.integers(len(names) * size, size=count))
    for index, name in enumerate(names):
        data = model[name]
        mine = (
            places[np.searchsorted(places, index * size) : np.searchsorted(places, (index + 1) * size)] - index * size
        )
        length = size if whole else data.chunks[0]
        for block in np.unique(mine // length):
            begin = int(block) * length
            values = data[begin : begin + length]
            values.view(np.uint32)[mine[mine // length == block] - begin] ^= MASK
            data[begin : begin + length] = values


def main() -> None:
    how, path, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    generator = np.random.default_rng(seed)
    with h5py.File(path, "r+") as file:
        if how == "elements":
            elements(file["model"], count, generator)
        else:
            blocks(file["model"], count, generator, whole=how == "datasets")


if __name__ == "__main__":
    main()
