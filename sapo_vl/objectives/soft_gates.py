"""Soft gates: how a token's weight falls as its ratio leaves 1, faster with a higher temperature.

All have w = 1 at r = 1 and are symmetric there; with x = tau (r - 1) the weight is 1/2 at

    SigmoidGate   |x| = 1.76                ErfGate       |x| = 1.18
    ArctanGate    |x| = 1                   SoftsignGate  |x| = 0.77
    LogRatioGate  |tau log r| = 1.76

The first four measure r - 1, which cannot fall below -1: at temperatures about 1 a token that was
lowered, however far, keeps most of its weight. LogRatioGate treats r and 1/r alike.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from typing_extensions import override

from sapo_vl.objectives.gate import Gate


class SoftGate(ABC):
    """A smooth weight of the ratio, 1 at r = 1."""

    @abstractmethod
    def __call__(self, log_ratio_BT: Tensor, tau_B1: Tensor) -> Gate:
        """Value and weight of every token, without gradient.

        Shapes: ``log_ratio_BT`` [B, T] within +-20, ``tau_B1`` [B, 1] above 0, one floating dtype.
        """


@dataclass(frozen=True)
class SigmoidGate(SoftGate):
    """SAPO's own: f(r) = (4/tau) sigmoid(x), w = sech^2(x/2) (paper eq. 6 and 8)."""

    @override
    @torch.no_grad()
    def __call__(self, log_ratio_BT: Tensor, tau_B1: Tensor) -> Gate:
        half_BT = tau_B1 * torch.expm1(log_ratio_BT) / 2
        return Gate(2 / tau_B1 * torch.tanh(half_BT), _sech2(half_BT))


@dataclass(frozen=True)
class ErfGate(SoftGate):
    """f(r) = sqrt(pi/2)/tau erf(x/sqrt 2), w = exp(-x^2/2): the lightest tail (2602.19345)."""

    @override
    @torch.no_grad()
    def __call__(self, log_ratio_BT: Tensor, tau_B1: Tensor) -> Gate:
        x_BT = tau_B1 * torch.expm1(log_ratio_BT)
        value_BT = math.sqrt(math.pi / 2) / tau_B1 * torch.erf(x_BT / math.sqrt(2))
        return Gate(value_BT, torch.exp(-x_BT.square() / 2))


@dataclass(frozen=True)
class ArctanGate(SoftGate):
    """f(r) = arctan(x)/tau, w = 1/(1 + x^2): the heaviest tail (2602.19345)."""

    @override
    @torch.no_grad()
    def __call__(self, log_ratio_BT: Tensor, tau_B1: Tensor) -> Gate:
        x_BT = tau_B1 * torch.expm1(log_ratio_BT)
        return Gate(torch.arctan(x_BT) / tau_B1, 1 / (1 + x_BT.square()))


@dataclass(frozen=True)
class SoftsignGate(SoftGate):
    """f(r) = x/(tau sqrt(1 + x^2)), w = (1 + x^2)^(-3/2) (2602.19345)."""

    @override
    @torch.no_grad()
    def __call__(self, log_ratio_BT: Tensor, tau_B1: Tensor) -> Gate:
        x_BT = tau_B1 * torch.expm1(log_ratio_BT)
        inverse_BT = torch.rsqrt(1 + x_BT.square())
        return Gate(x_BT * inverse_BT / tau_B1, inverse_BT.pow(3))


@dataclass(frozen=True)
class LogRatioGate(SoftGate):
    """w = sech^2(tau log(r) / 2) = 4 r^tau / (1 + r^tau)^2: a lowered token fades as a raised one.

    Its f has no elementary form for every tau; the value is integrated numerically, to a relative
    1e-4, and is for the log: the gradient is the closed form.
    """

    @override
    @torch.no_grad()
    def __call__(self, log_ratio_BT: Tensor, tau_B1: Tensor) -> Gate:
        # f(r) - f(1) is the integral of w e^z over z from 0 to log r; beyond this w is e^-40.
        end_BT = log_ratio_BT.clamp(-40 / tau_B1, 40 / tau_B1)
        mean_BT = torch.zeros_like(end_BT)
        for node, share in _quadrature(32):
            mean_BT += share * _sech2(tau_B1 * node * end_BT / 2) * torch.exp(node * end_BT)
        return Gate(mean_BT * end_BT, _sech2(tau_B1 * log_ratio_BT / 2))


def outward_only(gate: Gate, log_ratio_BT: Tensor, advantage_B1: Tensor) -> Gate:
    """Leave tokens that move back towards r = 1 ungated: weight 1, value r - 1.

    A > 0 with r < 1 and A < 0 with r > 1 undo what earlier updates did; a symmetric gate weakens
    that, PPO's clip does not. Shapes: ``log_ratio_BT`` [B, T] or [B, 1], ``advantage_B1`` [B, 1].
    """
    back_BT = log_ratio_BT.detach() * advantage_B1 < 0
    one = torch.ones_like(gate.weight_BT)
    return Gate(
        torch.where(back_BT, torch.expm1(log_ratio_BT.detach()), gate.value_BT),
        torch.where(back_BT, one, gate.weight_BT),
    )


@cache
def _quadrature(points: int) -> list[tuple[float, float]]:
    """Gauss-Legendre nodes and weights on [0, 1], from the Jacobi matrix (Golub and Welsch)."""
    k = torch.arange(1, points, dtype=torch.float64)
    beside = k / (4 * k.square() - 1).sqrt()
    nodes, vectors = torch.linalg.eigh(torch.diag(beside, 1) + torch.diag(beside, -1))
    return list(zip(((1 + nodes) / 2).tolist(), vectors[0].square().tolist(), strict=True))


def _sech2(half: Tensor) -> Tensor:
    # 4e / (1+e)^2 with e = exp(-2|u|): 1 - tanh^2 would lose all digits in the tail.
    decay = torch.exp(-2 * half.abs())
    return 4 * decay / (1 + decay).square()
