"""The ranks of a data-parallel run: torch.distributed's default group, or this process alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


def count() -> int:
    """How many processes train together."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if distributed else 1


def number() -> int:
    """Which of them this process is."""
    return torch.distributed.get_rank() if count() > 1 else 0


def gather(value: Any) -> list[Any]:
    """The values of all ranks, by rank."""
    if count() == 1:
        return [value]
    values: list[Any] = [None] * count()
    torch.distributed.all_gather_object(values, value)
    return values


def mean(value: float) -> float:
    """The mean over all ranks; not finite if one value is not."""
    if count() == 1:
        return value
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    total = torch.tensor(value, dtype=torch.float64, device=device)
    torch.distributed.all_reduce(total)
    return total.item() / count()


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """The model inside DistributedDataParallel, whose tensors have the names of the checkpoint."""
    return model.module if isinstance(model, torch.nn.parallel.DistributedDataParallel) else model


def local_shard(tensor: torch.Tensor) -> torch.Tensor:
    """The shard of a sharded tensor (DTensor) on this rank, in the same memory; other tensors as they are."""
    return tensor.to_local() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def is_sharded(tensor: torch.Tensor) -> bool:
    """Whether each rank holds a shard of it."""
    return hasattr(tensor, "to_local")


def sharded_like(part: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The tensor of which this rank has the shard `part`, sharded like another one of the same shape; `part` itself if
    that one is not sharded.
    """
    if not is_sharded(other):
        return part
    from torch.distributed.tensor import DTensor

    assert isinstance(other, DTensor)
    return DTensor.from_local(
        part, other.device_mesh, other.placements, run_check=False, shape=other.shape, stride=other.stride()
    )


def reshard(modules: Iterable[torch.nn.Module]) -> None:
    """Makes FSDP drop the whole parameters that it keeps after a forward pass without a backward pass.

    The parameters of the modules are then those that the optimizer knows.
    """
    for module in modules:
        if hasattr(module, "reshard") and hasattr(module, "unshard"):
            module.reshard()  # type: ignore[operator]
