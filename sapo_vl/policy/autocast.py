"""Autocast that casts each weight once, for passes that use the weights very often."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def weights_cast_once(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Keep the half-precision copies that autocast makes of ``model``'s weights until the end.

    For sampling: without gradient, and with weights that stay as they are. Numbers are the same.
    The copies take half the memory of the float32 weights. Where autocast is off, as under
    DeepSpeed or with half-precision weights, this does nothing.

    Lightning turns autocast's cache off, so that every token would cast all weights again. The
    cache takes nothing in inference mode (left for no_grad inside) and only leaves that require a
    gradient (frozen ones seem to, inside).
    """
    kind = device.type
    if not torch.is_autocast_enabled(kind):
        yield
        return
    frozen = [p for p in model.parameters() if not p.requires_grad and p.dtype == torch.float32]
    torch.clear_autocast_cache()  # what is in it may be older than the weights
    casts = torch.autocast(kind, torch.get_autocast_dtype(kind), cache_enabled=True)
    try:
        for parameter in frozen:
            parameter.requires_grad_(True)
        with torch.inference_mode(False), torch.no_grad(), casts:
            yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)
        # Leaving an inner autocast keeps the cache; a cast made without gradient would cut the
        # graph of a later forward pass.
        torch.clear_autocast_cache()
