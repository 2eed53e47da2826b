"""CISPO, clipped importance sampling of the policy gradient (MiniMax-M1, arXiv 2506.13585)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor
from typing_extensions import override

from sapo_vl.objectives.clipping import cap_gate
from sapo_vl.objectives.gate import Gate
from sapo_vl.objectives.gated import GatedObjective


@dataclass(frozen=True)
class CISPO(GatedObjective):
    """Every token keeps its gradient, weighted by its ratio up to a cap (eq. 4 there).

    A token's gradient is -A min(r, most). The lower bound is left out, as in the paper's runs; its
    mean is over all tokens: set ``aggregation`` to ``TokenMean``.

    Args:
        most: the largest effective weight, 1 + epsilon_high there.

    Raises:
        ValueError: ``most`` is not a finite number of at least 1.
    """

    most: float = 5.0

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.most >= 1 and math.isfinite(self.most)):
            raise ValueError(f"CISPO: most is {self.most}; it must be a finite number from 1")

    @override
    def _gate(self, log_ratio_BT: Tensor, advantage_B1: Tensor) -> Gate:
        return cap_gate(log_ratio_BT, self.most)
