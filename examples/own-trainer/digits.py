"""The shipped digits as tensors: images float32 [n, 1, 8, 8] in 0..1, labels int64 [n]."""

import gzip
import os
from pathlib import Path

import numpy as np
import torch

DATA = Path(os.environ.get("BITRIFT_DATA_DIR", Path(__file__).resolve().parents[2] / "data"))


def bytes_of(name: str, header: int) -> np.ndarray:
    """The content of an IDX file after its header."""
    return np.frombuffer(gzip.decompress((DATA / "digits" / name).read_bytes()), np.uint8, offset=header).copy()


def read(split: str) -> torch.utils.data.TensorDataset:
    """split: train (1437 digits) or t10k (360)."""
    images = torch.from_numpy(bytes_of(f"{split}-images-idx3-ubyte.gz", 16)).view(-1, 1, 8, 8)
    labels = torch.from_numpy(bytes_of(f"{split}-labels-idx1-ubyte.gz", 8))
    return torch.utils.data.TensorDataset(images.float() / 255, labels.long())
