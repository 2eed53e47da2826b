"""From log-probs to a gated surrogate: the log-ratio, a gate's answer, and the gradient it gives.

Every gate turns a ratio r into a surrogate value f(r) and a weight w = f'(r), so that the gradient
of f(r) with respect to the policy's log-prob is the effective weight w * r (paper eq. 7). Values
are centred, f(r) - f(1): the gradient is the same, the loss is exactly 0 while every ratio is 1,
and small drifts keep their digits. The gates: ``soft_gates.py`` and ``clipping.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# exp(20) = 4.9e8 saturates any gate and is far from float32's overflow at exp(88.7), where autograd
# gives 0 * inf = nan; exp(-20) = 2e-9 is a ratio of 0 for any purpose.
MAX_LOG_RATIO = 20.0


class Gate(NamedTuple):
    """A gate's answer for every token (or every response, [B, 1]), without gradient."""

    value_BT: Tensor  # f(r) - f(1)
    weight_BT: Tensor  # w = f'(r), in [0, 1]


def masked_log_ratio(logp_BT: Tensor, old_logp_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Log-ratio of policy to old policy: 0 where masked, clamped to +-20.

    Shapes: all [B, T]. Computed in float32 at least (float64 stays float64). The gradient flows to
    ``logp_BT`` alone; it is 0 beyond the clamp.
    """
    dtype = torch.promote_types(
        torch.promote_types(logp_BT.dtype, old_logp_BT.dtype), torch.float32
    )
    difference_BT = logp_BT.to(dtype) - old_logp_BT.detach().to(dtype)
    # Replaced, not multiplied by 0: nan * 0 is nan, in the value and in the gradient.
    zero = torch.zeros((), dtype=dtype, device=difference_BT.device)
    return torch.where(mask_BT.bool(), difference_BT, zero).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def sequence_log_ratio(log_ratio_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Mean of each response's log-ratios, [B, 1]: log s of GSPO (eq. 7 there), with gradient."""
    length_B1 = mask_BT.bool().sum(dim=1, keepdim=True).clamp(min=1)
    return log_ratio_BT.sum(dim=1, keepdim=True) / length_B1


def gated_surrogate(gate: Gate, log_ratio_BT: Tensor) -> Tensor:
    """Surrogate with the gate's value and the gradient w * r (paper eq. 7).

    Shapes: all [B, T], one floating dtype. The gradient is given in closed form because autograd
    through tanh or expm1 rounds it to multiples of 1e-7 in float32, more than the gate's tail.
    """
    with torch.no_grad():
        slope_BT = gate.weight_BT * torch.exp(log_ratio_BT)
    return gate.value_BT + slope_BT * (log_ratio_BT - log_ratio_BT.detach())


def gate_stats(gate: Gate, log_ratio_BT: Tensor, mask_BT: Tensor) -> dict[str, Tensor]:
    """The statistics every objective returns: ``log_ratio_BT`` and ``gate_BT``.

    Shapes: all [B, T], the gate's also [B, 1]; out detached float32 [B, T], 0 where masked.
    """
    weight_BT = gate.weight_BT.float().expand_as(log_ratio_BT)
    return {
        "log_ratio_BT": log_ratio_BT.detach().float(),
        "gate_BT": weight_BT.masked_fill(~mask_BT.bool(), 0.0),
    }
