"""Correct for a rollout engine whose distribution is not the trainer's.

Three policies then meet: the engine's (mu) that sampled, the old one (pi_old) that the trainer
scored before the first update, and the one that trains. An objective's ratio is of the last two.
What is left between the first two, rounding, kernels, 8-bit weights, is an importance weight
pi_old / mu on every token, bounded, since its variance grows with the length of a response.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from sapo_vl.objectives.gate import masked_log_ratio


class Correction(ABC):
    """Token weights from the old policy's log-probs and the rollout engine's."""

    @abstractmethod
    def __call__(self, old_logp_BT: Tensor, rollout_logp_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """Weights [B, T], float32, without gradient; 0 where masked."""


@dataclass(frozen=True)
class TruncatedWeights(Correction):
    """min(pi_old / mu, most): tokens that the engine drew too rarely count more, up to a bound.

    Args:
        most: the largest weight.
        of_sequence: one weight a response, from the product over its tokens, not one a token.

    Raises:
        ValueError: ``most`` is not a finite number of at least 1.
    """

    most: float = 2.0
    of_sequence: bool = False

    def __post_init__(self) -> None:
        _check_most("TruncatedWeights", self.most)

    @override
    def __call__(self, old_logp_BT: Tensor, rollout_logp_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """Weights [B, T], float32, without gradient; 0 where masked."""
        ratio_BT = _ratio(old_logp_BT, rollout_logp_BT, mask_BT, self.of_sequence)
        return ratio_BT.clamp(max=self.most).masked_fill(~mask_BT.bool(), 0.0)


@dataclass(frozen=True)
class MaskedWeights(Correction):
    """pi_old / mu where it lies within [least, most], else 0: what the engine drew is left out.

    Args:
        most: above it a token (or response) is left out; TRL's default mode is this one of
            sequences, with 3.
        least: below it, too.
        of_sequence: one weight a response, from the product over its tokens, not one a token.

    Raises:
        ValueError: ``most`` is not a finite number of at least 1, ``least`` not within [0, 1].
    """

    most: float = 3.0
    least: float = 0.0
    of_sequence: bool = True

    def __post_init__(self) -> None:
        _check_most("MaskedWeights", self.most)
        if not 0 <= self.least <= 1:
            raise ValueError(f"MaskedWeights: least is {self.least}; it must lie in [0, 1]")

    @override
    def __call__(self, old_logp_BT: Tensor, rollout_logp_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """Weights [B, T], float32, without gradient; 0 where masked."""
        ratio_BT = _ratio(old_logp_BT, rollout_logp_BT, mask_BT, self.of_sequence)
        outside_BT = (ratio_BT < self.least) | (ratio_BT > self.most)
        return ratio_BT.masked_fill(outside_BT | ~mask_BT.bool(), 0.0)


def _check_most(name: str, most: float) -> None:
    if not (most >= 1 and math.isfinite(most)):
        raise ValueError(f"{name}: most is {most}; it must be a finite number of at least 1")


@torch.no_grad()
def _ratio(
    old_logp_BT: Tensor, rollout_logp_BT: Tensor, mask_BT: Tensor, of_sequence: bool
) -> Tensor:
    """pi_old / mu of tokens, or of whole responses at each of their tokens; float32."""
    log_ratio_BT = masked_log_ratio(old_logp_BT, rollout_logp_BT, mask_BT).float()
    if of_sequence:
        log_ratio_BT = log_ratio_BT.sum(1, keepdim=True).clamp(-80, 80).expand_as(log_ratio_BT)
    return log_ratio_BT.exp()
