"""The counter-based random numbers of docs/data-order.md in numpy, and the dropout masks drawn from them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


# The reference of docs/data-order.md, but b may be an array too.
def philox_u64(key: int, a: np.ndarray, b: int | np.ndarray) -> np.ndarray:
    mask = np.uint64(0xFFFFFFFF)
    a, b = np.broadcast_arrays(a, np.asarray(b, np.uint64))
    c = [a & mask, a >> np.uint64(32), b & mask, b >> np.uint64(32)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [
            (p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            p1 & mask,
            (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            p0 & mask,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c[0] | c[1] << np.uint64(32)


def derive_key(seed: int, purpose: str) -> int:
    name = 0xCBF29CE484222325
    for byte in purpose.encode():
        name = ((name ^ byte) * 0x100000001B3) % 2**64
    return int(philox_u64(seed, np.array([name], np.uint64), 0)[0])


def epoch_order(seed: int, epoch: int, samples: int) -> np.ndarray:
    key = derive_key(seed, "order")
    return np.argsort(philox_u64(key, np.arange(samples, dtype=np.uint64), epoch), kind="stable")


def dropout_kept(seed: int, name: str, step: int, samples: Sequence[int], width: int, p: float) -> np.ndarray:
    """Which of `width` elements of each sample's row stay: bool [samples, width].

    Element e of sample s has half e mod 2 (0: the low one) of
    random_u64(random_u64(derive_key(seed, "dropout/" + name), step, 0), s, e / 2); it stays when that half is at least
    p 2^32.
    """
    key = int(philox_u64(derive_key(seed, f"dropout/{name}"), np.array([step], np.uint64), 0)[0])
    rows = np.asarray(samples, np.uint64)[:, None]
    bits = philox_u64(key, rows, np.arange((width + 1) // 2, dtype=np.uint64)[None, :])
    halves = np.stack([bits & np.uint64(0xFFFFFFFF), bits >> np.uint64(32)], axis=2)
    return halves.reshape(len(rows), -1)[:, :width] >= np.uint64(math.floor(p * 2**32 + 0.5))
