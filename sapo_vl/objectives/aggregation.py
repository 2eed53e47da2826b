"""From one value per token to one scalar, the same however an update is cut into micro-batches.

An update's loss is a sum over its micro-batches and ranks. Each adds its own tokens' sum over one
common denominator: ``units`` says what a part contributes to it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override


class Aggregation(ABC):
    """Each response's sum over its tokens over a divisor, summed, over the update's units."""

    @abstractmethod
    def units(self, mask_BT: Tensor) -> Tensor:
        """What these responses add to the update's denominator, a float32 scalar."""

    @abstractmethod
    def divisor(self, mask_BT: Tensor) -> Tensor | float:
        """What each response's sum is divided by, above 0: one number, or int64 [B]."""

    def __call__(
        self, token_BT: Tensor, mask_BT: Tensor, denominator: float | Tensor | None = None
    ) -> Tensor:
        """Aggregate the tokens' values over ``denominator``.

        Shapes: ``token_BT`` [B, T] float, ``mask_BT`` [B, T] bool (or 0/1); out a scalar of
        ``token_BT``'s dtype. ``denominator``: the units of the whole update (all micro-batches, the
        mean over ranks), so that the parts add up to it; None: those of this batch.

        Raises:
            ValueError: ``denominator`` is a number not above 0, or a tensor of more than one
                element.
        """
        mask_BT = mask_BT.bool()
        sum_B = token_BT.masked_fill(~mask_BT, 0.0).sum(dim=1)
        total = (sum_B / self.divisor(mask_BT)).sum()
        return total / _checked(self.units(mask_BT) if denominator is None else denominator, total)


@dataclass(frozen=True)
class SequenceMean(Aggregation):
    """Mean over each response's tokens, then over responses: SAPO, GRPO (paper eq. 5).

    A response without tokens adds 0 and counts.
    """

    @override
    def units(self, mask_BT: Tensor) -> Tensor:
        return _count(mask_BT.shape[0], mask_BT)

    @override
    def divisor(self, mask_BT: Tensor) -> Tensor:
        return mask_BT.bool().sum(dim=1).clamp(min=1)


@dataclass(frozen=True)
class TokenMean(Aggregation):
    """Mean over all tokens of the update: DAPO. A long response counts more than a short one."""

    @override
    def units(self, mask_BT: Tensor) -> Tensor:
        return mask_BT.bool().sum().float().clamp(min=1)

    @override
    def divisor(self, mask_BT: Tensor) -> float:
        return 1.0


@dataclass(frozen=True)
class ConstantMean(Aggregation):
    """Sum over a response's tokens over a constant length, then the mean over responses: Dr. GRPO.

    Args:
        length: the constant, in tokens; ``sampling.max_new_tokens`` is the usual one.

    Raises:
        ValueError: ``length`` is not a finite number above 0.
    """

    length: float

    def __post_init__(self) -> None:
        if not (self.length > 0 and math.isfinite(self.length)):
            raise ValueError(
                f"ConstantMean: length is {self.length}; it must be a number of tokens above 0"
            )

    @override
    def units(self, mask_BT: Tensor) -> Tensor:
        return _count(mask_BT.shape[0], mask_BT)

    @override
    def divisor(self, mask_BT: Tensor) -> float:
        return self.length


def _count(number: int, like: Tensor) -> Tensor:
    return torch.tensor(max(number, 1), dtype=torch.float32, device=like.device)


def _checked(denominator: float | Tensor, total: Tensor) -> float | Tensor:
    if isinstance(denominator, Tensor):
        if denominator.numel() != 1:
            raise ValueError(
                f"denominator has shape {tuple(denominator.shape)}; it must be one number"
            )
        # Its value is not looked at: that would make a GPU wait. Its dtype must not widen the loss.
        return denominator.reshape(()).to(dtype=total.dtype, device=total.device)
    if not denominator > 0:
        raise ValueError(f"denominator is {denominator}; it must be the update's units, above 0")
    return denominator
