"""From log-probs to a gated surrogate: the log-ratio, the gates, and the gradient they give.

Every gate turns a ratio r into a surrogate value f(r) and a weight w = f'(r), so that the gradient
of f(r) with respect to the policy's log-prob is the effective weight w * r (paper eq. 7). Values
are centred, f(r) - f(1): the gradient is the same, the loss is exactly 0 while every ratio is 1,
and small drifts keep their digits.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# exp(20) = 4.9e8 saturates any gate and is far from float32's overflow at exp(88.7), where autograd
# gives 0 * inf = nan; exp(-20) = 2e-9 is a ratio of 0 for any purpose.
MAX_LOG_RATIO = 20.0


class Gate(NamedTuple):
    """A gate's answer for every token, without gradient."""

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


@torch.no_grad()
def sigmoid_gate(log_ratio_BT: Tensor, tau_B1: Tensor) -> Gate:
    """SAPO's gate, f(r) = (4/tau) sigmoid(tau (r-1)), centred (paper eq. 6 and 8).

    Shapes: ``log_ratio_BT`` [B, T] within +-20, ``tau_B1`` [B, 1] above 0, of one floating dtype.
    """
    half_BT = tau_B1 * torch.expm1(log_ratio_BT) / 2
    # sech^2 = 4e / (1+e)^2 with e = exp(-2|u|): 1 - tanh^2 would lose all digits in the tail.
    decay_BT = torch.exp(-2 * half_BT.abs())
    return Gate(2 / tau_B1 * torch.tanh(half_BT), 4 * decay_BT / (1 + decay_BT).square())


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

    Shapes: all [B, T]; out detached float32, 0 where masked.
    """
    return {
        "log_ratio_BT": log_ratio_BT.detach().float(),
        "gate_BT": gate.weight_BT.float().masked_fill(~mask_BT.bool(), 0.0),
    }
