"""Counter-based dropout in Python: the formula of src/nn/layer/pass.h on numpy's integers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from philox import dropout_kept


@dataclasses.dataclass
class Context:
    """What the masks of a forward pass are functions of; set it before each pass in training."""

    seed: int = 0
    step: int = 0  # optimizer steps completed before this pass
    samples: Sequence[int] = ()  # index in the data set of each row


class Dropout(torch.nn.Module):
    def __init__(self, p: float, name: str, context: Context) -> None:
        super().__init__()
        self.p, self.name, self.context = p, name, context

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training or self.p == 0:
            return x
        at = self.context
        assert len(at.samples) == len(x), "one sample number for each row"
        kept = dropout_kept(at.seed, self.name, at.step, at.samples, x[0].numel(), self.p)
        mask = torch.from_numpy(kept).to(x.dtype).mul_(1 / (1 - self.p))
        return x * mask.view(x.shape)
