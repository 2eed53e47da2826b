"""One loaded model for all ranks: rank 0 reads it, each of the others gets its share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import distribute_tensor

from sapo_vl.policy import Policy
from sapo_vl.strategies.together import together


@contextmanager
def loaded_once(strategy: Any) -> Iterator[None]:
    """Build a model with its weights on rank 0, with shapes alone (on the meta device) elsewhere.

    Raises:
        RuntimeError: rank 0 could not load it; raised on the other ranks.
    """
    with together(strategy), torch.device("meta") if strategy.global_rank else nullcontext():
        yield


@torch.no_grad()
def fill(policy: Policy, loaded: dict[str, Tensor], device: torch.device) -> None:
    """Give every rank its share of rank 0's weights, one tensor at a time, and rank 0's buffers.

    Args:
        policy: split already; of meta tensors on every rank but the first.
        loaded: rank 0's weights by name, whole, as they were before the split; emptied.
        device: where shares and buffers shall be.
    """
    first = dist.get_rank() == 0
    if not first:
        policy.to_empty(device=device)
    for name, parameter in policy.named_parameters():
        share: Any = parameter
        empty = torch.empty(share.shape, dtype=share.dtype, device=device)
        whole = loaded.pop(name).to(device) if first else empty
        share.copy_(distribute_tensor(whole, share.device_mesh, share.placements))
    for buffer in policy.buffers():
        content = buffer.contiguous()
        dist.broadcast(content.view(-1).view(torch.uint8), src=0)  # any dtype
        buffer.copy_(content)
