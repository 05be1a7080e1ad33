"""Tensors that are made of others, such as the shards of a DTensor, or codes and scales (torchao): their memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from bitrift.runner import ranks


def is_composed(tensor: torch.Tensor) -> bool:
    """Whether this rank keeps it in tensors of other types or shapes, so that it has no elements of its own."""
    return is_traceable_wrapper_subclass(ranks.local_shard(tensor))


def plain(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The tensors that hold the memory of a tensor on this rank, in an order that its type gives: itself, its shard, or
    what it is composed of.
    """
    local: Any = ranks.local_shard(tensor)
    if not is_traceable_wrapper_subclass(local):
        return [local]
    names, _ = local.__tensor_flatten__()
    return [one for name in names for one in plain(getattr(local, name))]


def flat(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """These, each as a vector on the CPU."""
    for part in plain(tensor):
        yield part.detach().reshape(-1).contiguous().cpu()


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same type with memory of its own; that of a sharded tensor is a copy of this rank's shard."""
    local: Any = ranks.local_shard(tensor.detach())
    if not is_traceable_wrapper_subclass(local):
        copied: torch.Tensor = local.clone()
        return copied
    names, context = local.__tensor_flatten__()
    parts = {name: copy_of(getattr(local, name)) for name in names}
    made: torch.Tensor = type(local).__tensor_unflatten__(parts, context, local.shape, local.stride())
    return made


def fill(tensor: torch.Tensor, content: torch.Tensor) -> None:
    """Writes a copy_of() it, or of a tensor like it, into a tensor's memory. A tensor that has another shape by now
    gets the old one back: the observers of a quantization have no range before the first load.
    """
    with torch.no_grad():
        for here, before in zip(plain(tensor), plain(content), strict=True):
            if here.shape == before.shape:
                here.copy_(before)
            else:
                here.data = before.to(here.device, copy=True)
