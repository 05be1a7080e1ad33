"""Batches of the library against the same ones made in Python: NumPy, PyTorch and Pillow."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import data_reference as reference
import numpy as np
import pytest
import torch
from PIL import Image

PROGRAM = os.environ.get("BITRIFT_BATCH_DUMP", "batch_dump")
DATA = Path(__file__).resolve().parents[3] / "data"
ROWS = [5, 0, 1436, 77, 78, 79, 80, 81, 600, 601, 602, 603]


def dump(tmp_path: Path, **keys: Any) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
    """Inputs, targets and facts of one batch."""
    out = tmp_path / "batch"
    words = []
    for key, value in (keys | {"out": out}).items():
        words.append(f"{key}={','.join(map(str, value)) if isinstance(value, list) else value}")
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    content = out.read_bytes()
    targets = np.frombuffer(content[len(content) - 8 * int(np.prod(facts["targets"])) :], np.int64)
    kind = np.int64 if len(facts["inputs"]) == 2 else np.float32
    inputs = np.frombuffer(content[: len(content) - targets.nbytes], kind)
    return (
        torch.from_numpy(inputs.copy()).view(facts["inputs"]),
        torch.from_numpy(targets.copy()).view(facts["targets"]),
        facts,
    )


def digits(name: str) -> np.ndarray:
    content = gzip.decompress((DATA / "digits" / f"{name}.gz").read_bytes())
    return np.frombuffer(content[16:], np.uint8).reshape(-1, 1, 8, 8)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.numpy().tobytes() == b.contiguous().numpy().tobytes()


@pytest.mark.parametrize("seed, epoch", [(1, 0), (2**64 - 1, 7), (12, 2**40)])
@pytest.mark.parametrize("size", [0, 5, 13])
def test_augmented_images_have_the_bits_that_python_makes(tmp_path: Path, size: int, seed: int, epoch: int) -> None:
    mean, std = [0.1, 0.25, 0.3], [0.3, 0.7, 0.11]
    keys = {"name": "digits", "resize": size, "channels": 3, "mean": mean, "std": std, "crop_padding": 3, "flip": 1}
    inputs, _, facts = dump(tmp_path, rows=ROWS, seed=seed, epoch=epoch, **keys)
    assert facts["train"] == 1437
    expected = []
    for sample in ROWS:
        image = torch.from_numpy(digits("train-images-idx3-ubyte")[sample].copy()).to(torch.float32).div(255)
        if size:
            image = reference.resize(image, size, size)
        image = reference.padded_crop(image, 3, reference.crop_place(seed, epoch, sample, 49))
        if reference.flipped(seed, epoch, sample):
            image = image.flip(2)
        expected.append(image.expand(3, -1, -1))
    assert same_bits(inputs, reference.normalised(torch.stack(expected), mean, std))


def test_plain_and_test_images_are_bytes_over_255(tmp_path: Path) -> None:
    inputs, targets, _ = dump(tmp_path, name="digits", rows=ROWS)
    images = torch.from_numpy(digits("train-images-idx3-ubyte")[ROWS].copy())
    assert same_bits(inputs, images.to(torch.float32).div(255))
    labels = gzip.decompress((DATA / "digits/train-labels-idx1-ubyte.gz").read_bytes())[8:]
    assert targets.tolist() == [labels[sample] for sample in ROWS]
    inputs, _, _ = dump(tmp_path, name="digits", test=[3, 9], flip=1, crop_padding=2, mean=[0.5], std=[0.2])
    plain = torch.from_numpy(digits("t10k-images-idx3-ubyte")[3:9].copy()).to(torch.float32).div(255)
    assert same_bits(inputs, reference.normalised(plain, [0.5], [0.2]))


def pictures(folder: Path) -> list[Path]:
    """Images of every kind that is decoded, in sample order."""
    random = np.random.default_rng(3)
    y, x = np.mgrid[0:41, 0:57]
    smooth = np.stack([x * 4, y * 6, (x * y) % 251], -1)
    colour = Image.fromarray(np.clip(smooth + random.integers(0, 9, smooth.shape), 0, 255).astype(np.uint8))
    alpha = colour.copy()
    alpha.putalpha(Image.fromarray((x * 4).astype(np.uint8)))
    made = {
        "a/1.jpg": (colour, {"quality": 90}),
        "a/2.jpg": (colour, {"quality": 75, "progressive": True, "subsampling": 2}),
        "a/3.JPEG": (colour.convert("L"), {"quality": 80}),
        "a/4.jpg": (colour.transpose(Image.Transpose.ROTATE_90), {"quality": 60, "subsampling": 1}),
        "b/1.png": (colour, {}),
        "b/2.png": (colour.convert("L"), {}),
        "b/3.png": (colour.quantize(17), {"transparency": 3}),
        "b/4.png": (alpha, {}),
        "b/5.png": (alpha.convert("LA"), {}),
        "b/6.png": (colour.convert("1"), {}),
        "b/7.png": (colour.quantize(4), {"bits": 2}),
    }
    for split in ("train", "test"):
        for name, (image, options) in made.items():
            path = folder / split / name
            path.parent.mkdir(parents=True, exist_ok=True)
            image.save(path, format="PNG" if path.suffix == ".png" else "JPEG", **options)
    return [folder / "train" / name for name in made]


@pytest.mark.parametrize("augmented", [False, True])
@pytest.mark.parametrize("size", [0, 37, 64])
def test_folders_decode_resize_and_crop_as_pillow_and_pytorch(tmp_path: Path, size: int, augmented: bool) -> None:
    paths = pictures(tmp_path / "set")
    rows = list(range(len(paths)))
    crop, seed, epoch = 32, 9, 4
    keys = {"name": "folder", "path": tmp_path / "set", "resize": size, "crop": crop, "mean": [0.4], "std": [0.3]}
    if augmented:
        keys |= {"random_crop": 1, "flip": 1}
    inputs, targets, facts = dump(tmp_path, rows=rows, seed=seed, epoch=epoch, **keys)
    assert facts["classes"] == 2 and targets.tolist() == [0] * 4 + [1] * 7
    expected = []
    for sample, path in enumerate(paths):
        pixels = torch.from_numpy(np.asarray(Image.open(path).convert("RGB")).copy())
        image = pixels.permute(2, 0, 1).contiguous().to(torch.float32).div(255)
        _, height, width = image.shape
        if size:
            short = min(height, width)
            height, width = size * height // short, size * width // short
            image = reference.resize(image, height, width)
        if augmented:
            columns = width - crop + 1
            places = (height - crop + 1) * columns
            top, left = divmod(reference.crop_place(seed, epoch, sample, places), columns)
        else:
            top, left = round((height - crop) / 2), round((width - crop) / 2)
        image = image[:, top : top + crop, left : left + crop]
        expected.append(image.flip(2) if augmented and reference.flipped(seed, epoch, sample) else image)
    assert same_bits(inputs, reference.normalised(torch.stack(expected), [0.4], [0.3]))
    if not augmented:
        assert same_bits(dump(tmp_path, test=[0, 11], **keys)[0], inputs)


def jargon() -> np.ndarray:
    return np.frombuffer(gzip.decompress((DATA / "jargon/jargon.txt.gz").read_bytes()), np.uint8).astype(np.int64)


def test_masked_text_is_masked_as_python_masks_it(tmp_path: Path) -> None:
    text = jargon()
    train = len(text) - round(0.1 * len(text))
    keys = {"name": "jargon", "context": 50, "mask_fraction": 0.15}
    rows = [0, 9, 24000]
    inputs, targets, facts = dump(tmp_path, rows=rows, seed=3, epoch=2, **keys)
    assert facts["train"] == train // 50 and facts["classes"] == 257 and facts["asked"] == 8
    for i, sample in enumerate(rows):
        own = text[sample * 50 : sample * 50 + 50]
        expected = reference.masked_sample(own, sample, 8, 256, 3, 2)
        assert (inputs[i].tolist(), targets[i].tolist()) == expected
    inputs, targets, _ = dump(tmp_path, test=[40, 42], **keys)
    for i, sample in enumerate([40, 41]):
        own = text[train + sample * 50 : train + sample * 50 + 50]
        expected = reference.masked_sample(own, sample, 8, 256, 0, 0)
        assert (inputs[i].tolist(), targets[i].tolist()) == expected


def test_next_tokens_by_a_vocabulary(tmp_path: Path) -> None:
    tokens = ["the ", "th", "e", " ", "\n", "ing", *sorted({chr(byte) for byte in jargon()} - {"e", " ", "\n"})]
    escaped = [token.replace("\\", "\\\\").replace("\n", "\\n") for token in tokens]
    (tmp_path / "tokens").write_text("\n".join(escaped) + "\n")
    content = gzip.decompress((DATA / "jargon/jargon.txt.gz").read_bytes()).decode()[:20000]
    (tmp_path / "text").write_text(content)
    ids, at = [], 0
    while at < len(content):
        best = max((token for token in tokens if content.startswith(token, at)), key=len)
        ids.append(tokens.index(best))
        at += len(best)
    keys = {"name": "text", "path": tmp_path / "text", "vocabulary": tmp_path / "tokens", "context": 64}
    inputs, targets, facts = dump(tmp_path, rows=[0, 3, 100], test_fraction=0.25, **keys)
    train = len(ids) - round(0.25 * len(ids))
    assert facts["train"] == (train - 1) // 64 and facts["classes"] == len(tokens)
    for i, sample in enumerate([0, 3, 100]):
        assert inputs[i].tolist() == ids[sample * 64 : sample * 64 + 64]
        assert targets[i].tolist() == ids[sample * 64 + 1 : sample * 64 + 65]
