"""Hard gates: a weight of 1 up to an edge, and nothing, or no more, beyond it."""

from __future__ import annotations

import torch
from torch import Tensor

from sapo_vl.objectives.gate import Gate


@torch.no_grad()
def clip_gate(
    log_ratio_BT: Tensor, advantage_B1: Tensor, clip_low: float, clip_high: float
) -> Gate:
    """GRPO's hard cut: min(r, 1 + clip_high) if A > 0, else max(r, 1 - clip_low), less 1.

    Shapes: ``log_ratio_BT`` [B, T] within +-20, ``advantage_B1`` [B, 1], of one floating dtype. The
    weight is 1 inside and on the edge, 0 beyond it (paper, the unified view).
    """
    drift_BT = torch.expm1(log_ratio_BT)  # r - 1
    raised_B1 = advantage_B1 > 0
    value_BT = torch.where(raised_B1, drift_BT.clamp(max=clip_high), drift_BT.clamp(min=-clip_low))
    inside_BT = torch.where(raised_B1, drift_BT <= clip_high, drift_BT >= -clip_low)
    return Gate(value_BT, inside_BT.to(drift_BT.dtype))


@torch.no_grad()
def cap_gate(log_ratio_BT: Tensor, most: float) -> Gate:
    """CISPO's cap: the effective weight w r is min(r, most), so w = min(1, most / r).

    Shapes: ``log_ratio_BT`` [B, T] within +-20. The value is r - 1 up to the cap and grows with
    most log(r / most) beyond it.
    """
    ratio_BT = torch.exp(log_ratio_BT)
    beyond_BT = (log_ratio_BT - torch.log(ratio_BT.clamp(max=most))).clamp(min=0)
    value_BT = torch.expm1(log_ratio_BT).clamp(max=most - 1) + most * beyond_BT
    return Gate(value_BT, (most / ratio_BT).clamp(max=1))


def check_clips(objective: str, clip_low: float, clip_high: float) -> None:
    """Refuse widths that are no widths.

    Raises:
        ValueError: one is negative or nan; the message names objective and argument.
    """
    for name, clip in (("clip_low", clip_low), ("clip_high", clip_high)):
        if not clip >= 0:
            raise ValueError(f"{objective}: {name} is {clip}; it must be 0 or more")
