from __future__ import annotations

import torch
from torch import nn

from sapo_vl.evaluation.identity import weights_probe


def split(first: float) -> nn.Module:
    """A layer as ZeRO-3 leaves it on rank 0: empty weights, with a shard beside each."""
    layer = nn.Linear(4, 8, bias=False)
    weight = nn.Parameter(torch.empty(0))
    weight.ds_shape, weight.ds_tensor = torch.Size((8, 4)), torch.full((16,), first)  # type: ignore[attr-defined]
    layer.weight = weight
    return layer


def test_split_weights_of_another_checkpoint_have_another_probe() -> None:
    assert weights_probe(split(1.0)) == weights_probe(split(1.0))
    assert weights_probe(split(1.0)) != weights_probe(split(2.0))
