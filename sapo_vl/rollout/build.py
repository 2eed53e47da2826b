"""Put drawn tokens together into a Rollout, for every engine alike."""

from __future__ import annotations

import torch
from torch import Tensor

from sapo_vl.policy import Policy
from sapo_vl.types import Rollout


def to_rollout(
    policy: Policy,
    group_size: int,
    ids_BT: Tensor,
    mask_BT: Tensor,
    logp_BT: Tensor,
    entropy_BT: Tensor,
) -> Rollout:
    """What has been drawn, cut to the longest response and decoded.

    Rows are groups, prompt after prompt (B = P * group_size); what lies outside ``mask_BT`` is not
    read. ``logp_BT`` is the engine's own.
    """
    t = max(1, int(mask_BT.sum(1).max()))
    ids_BT, mask_BT = ids_BT[:, :t], mask_BT[:, :t]
    eos = torch.tensor(policy.eos_ids, device=ids_BT.device)
    texts = [
        policy.tokenizer.decode(ids[keep], skip_special_tokens=True)
        for ids, keep in zip(ids_BT.cpu(), mask_BT.cpu(), strict=True)
    ]
    return Rollout(
        group_size=group_size,
        response_ids_BT=ids_BT,
        mask_BT=mask_BT,
        logp_BT=logp_BT[:, :t],
        entropy_BT=entropy_BT[:, :t],
        finished_B=(torch.isin(ids_BT, eos) & mask_BT).any(1),
        texts=tuple(texts),
    )
