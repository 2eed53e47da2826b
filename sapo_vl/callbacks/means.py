"""Means over all ranks, logged under names that are the same on every rank."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import lightning as L
import torch
import torch.distributed as dist
from torch import Tensor

Mean = tuple[Tensor | float, Tensor | float]  # (sum, count) on this rank


def masked_mean(value: Tensor, mask: Tensor) -> Mean:
    """Sum and count of ``value`` where ``mask`` holds."""
    return torch.where(mask, value.double(), 0.0).sum(), mask.sum()


def quantile(value: Tensor, q: float) -> Tensor:
    """The ``q`` quantile of a flat tensor that is not empty, one of its elements."""
    # torch.quantile refuses more than 2**24 elements.
    rank = min(len(value), int(q * len(value)) + 1)
    return value.kthvalue(rank).values


def log_means(
    trainer: L.Trainer,
    module: L.LightningModule,
    means: Mapping[str, Mean],
    prog_bar: Collection[str] = (),
) -> None:
    """Log each mean over all ranks, with one reduction for all; a mean over nothing is left out."""
    local = torch.tensor([[float(s), float(n)] for s, n in means.values()], dtype=torch.float64)
    total = trainer.strategy.reduce(local.to(module.device), reduce_op="sum").tolist()
    for name, (summed, count) in zip(means, total, strict=True):
        if count:
            module.log(name, summed / count, prog_bar=name in prog_bar)


def log_max(trainer: L.Trainer, module: L.LightningModule, values: Mapping[str, float]) -> None:
    """Log the largest value over all ranks of each."""
    local = torch.tensor(list(values.values()), dtype=torch.float64, device=module.device)
    largest = trainer.strategy.reduce(local, reduce_op="max").tolist()
    for name, value in zip(values, largest, strict=True):
        module.log(name, value)


def gathered(names: Sequence[str]) -> list[Sequence[str]]:
    """Return the names of every rank, in the order of the ranks; every rank must call it."""
    if not (dist.is_available() and dist.is_initialized()):
        return [names]
    found: list[Sequence[str]] = [()] * dist.get_world_size()
    dist.all_gather_object(found, list(names))
    return found
