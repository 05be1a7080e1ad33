"""The draws and transforms of docs/data.md in plain Python: Philox by integers, images by NumPy and PyTorch."""

from __future__ import annotations

import numpy as np
import torch

MASK32 = 0xFFFFFFFF


def random_u64(key: int, a: int, b: int) -> int:
    """Philox4x32-10 as docs/data-order.md has it."""
    c = [a & MASK32, a >> 32, b & MASK32, b >> 32]
    k0, k1 = key & MASK32, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k0, p1 & MASK32, p0 >> 32 ^ c[3] ^ k1, p0 & MASK32]
        k0, k1 = (k0 + 0x9E3779B9) & MASK32, (k1 + 0xBB67AE85) & MASK32
    return c[0] | c[1] << 32


def random_below(key: int, a: int, bound: int) -> int:
    attempt = 0
    while (value := random_u64(key, a, attempt << 32)) < 2**64 % bound:
        attempt += 1
    return value % bound


def epoch_key(seed: int, purpose: str, epoch: int) -> int:
    name = 0xCBF29CE484222325
    for byte in purpose.encode():
        name = ((name ^ byte) * 0x100000001B3) % 2**64
    return random_u64(random_u64(seed, name, 0), epoch, 0)


def crop_place(seed: int, epoch: int, sample: int, places: int) -> int:
    return random_below(epoch_key(seed, "augment/crop", epoch), sample, places)


def flipped(seed: int, epoch: int, sample: int) -> bool:
    return random_below(epoch_key(seed, "augment/flip", epoch), sample, 2) == 1


def masked_sample(
    tokens: np.ndarray, sample: int, asked: int, mask_id: int, seed: int, epoch: int
) -> tuple[list[int], list[int]]:
    """Inputs and targets of one masked sample; `tokens` are its own."""
    place, rule, token = (epoch_key(seed, f"mask/{name}", epoch) for name in ("place", "rule", "token"))
    element = [sample * len(tokens) + position for position in range(len(tokens))]
    order = sorted(range(len(tokens)), key=lambda position: (random_u64(place, element[position], 0), position))
    inputs, targets = tokens.tolist(), [-100] * len(tokens)
    for position in order[:asked]:
        targets[position] = inputs[position]
        which = (random_u64(rule, element[position], 0) >> 11) * 2.0**-53
        if which < 0.8:
            inputs[position] = mask_id
        elif which < 0.9:
            inputs[position] = random_below(token, element[position], mask_id)
    return inputs, targets


def resize(image: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """One float32 image [channels, height, width]."""
    return torch.nn.functional.interpolate(image[None], size=(height, width), mode="bilinear", antialias=True)[0]


def padded_crop(image: torch.Tensor, padding: int, place: int) -> torch.Tensor:
    _, height, width = image.shape
    top, left = divmod(place, 2 * padding + 1)
    return torch.nn.functional.pad(image, [padding] * 4)[:, top : top + height, left : left + width]


def normalised(images: torch.Tensor, mean: list[float], std: list[float]) -> torch.Tensor:
    """As torchvision.transforms.Normalize: float32 constants, subtraction, division."""
    return (images - torch.tensor(mean).view(1, -1, 1, 1)) / torch.tensor(std).view(1, -1, 1, 1)
