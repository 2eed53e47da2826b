"""Put rollouts together prompt by prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from sapo_vl.types import Rollout


def take(rollout: Rollout, prompts: Sequence[int]) -> Rollout:
    """The groups of these prompts, in this order."""
    g = rollout.group_size
    rows = [p * g + k for p in prompts for k in range(g)]
    index = torch.tensor(rows, dtype=torch.long, device=rollout.mask_BT.device)
    return replace(
        rollout,
        response_ids_BT=rollout.response_ids_BT[index],
        mask_BT=rollout.mask_BT[index],
        logp_BT=rollout.logp_BT[index],
        entropy_BT=rollout.entropy_BT[index],
        finished_B=rollout.finished_B[index],
        texts=tuple(rollout.texts[row] for row in rows),
    )


def join(first: Rollout, second: Rollout) -> Rollout:
    """The groups of both, first those of ``first``; padded to the longer one's T.

    Raises:
        ValueError: their group sizes differ.
    """
    if first.group_size != second.group_size:
        raise ValueError(f"group sizes differ: {first.group_size} and {second.group_size}")
    t = max(first.mask_BT.shape[1], second.mask_BT.shape[1])

    def stack(name: str) -> Tensor:
        parts = [getattr(rollout, name) for rollout in (first, second)]
        return torch.cat([pad(part, (0, t - part.shape[1])) for part in parts])

    return Rollout(
        group_size=first.group_size,
        response_ids_BT=stack("response_ids_BT"),  # 0 behind a response, where nothing is read
        mask_BT=stack("mask_BT"),
        logp_BT=stack("logp_BT"),
        entropy_BT=stack("entropy_BT"),
        finished_B=torch.cat([first.finished_B, second.finished_B]),
        texts=first.texts + second.texts,
    )
