"""Parts that the scripts beside this file train with."""

import os

import torch
from torch import nn

MISTAKE = os.environ.get("MISTAKE", "")
"""What the script does wrong when it saves or loads."""


class OwnDropout(nn.Module):
    """Dropout that draws from a generator of its own."""

    def __init__(self, share: float, generator: torch.Generator) -> None:
        super().__init__()
        self.share, self.generator = share, generator

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return x
        kept = torch.rand(x.shape, generator=self.generator) >= self.share
        return x * kept / (1 - self.share)


def samples(seed: int, count: int = 96) -> torch.utils.data.TensorDataset:
    """Points in six dimensions, and whether their sum is positive."""
    x = torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))
    return torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long())


def features(generator: torch.Generator) -> nn.Sequential:
    """A body with BatchNorm and dropout."""
    return nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), OwnDropout(0.2, generator))


def groups(module: nn.Module) -> list[dict]:
    """Weights decay, and biases do not."""
    parameters = list(module.parameters())
    return [
        {"params": [one for one in parameters if one.dim() > 1], "weight_decay": 0.05},
        {"params": [one for one in parameters if one.dim() < 2], "weight_decay": 0.0},
    ]
