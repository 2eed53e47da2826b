"""Group Relative Policy Optimization's clipped surrogate (arXiv 2402.03300), the baseline."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from typing_extensions import override

from sapo_vl.objectives.clipping import check_clips, clip_gate
from sapo_vl.objectives.gate import Gate
from sapo_vl.objectives.gated import GatedObjective


@dataclass(frozen=True)
class GRPO(GatedObjective):
    """A hard, one-sided cut on every token's ratio; no KL term.

    Centred as SAPO is: min(r A, clip(r) A) - A, which differs from the textbook value by the
    constant mean(A), 0 over complete groups. ``stats["gate_BT"]`` is 1 where the surrogate still
    has a slope in r, else 0. DAPO (arXiv 2503.14476) is this with clip_high 0.28 and ``TokenMean``.

    Args:
        clip_low: tokens with A <= 0 stop at ratio 1 - clip_low.
        clip_high: tokens with A > 0 stop at ratio 1 + clip_high.

    Raises:
        ValueError: a clip width is negative or nan.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        check_clips("GRPO", self.clip_low, self.clip_high)

    @override
    def _gate(self, log_ratio_BT: Tensor, advantage_B1: Tensor) -> Gate:
        return clip_gate(log_ratio_BT, advantage_B1, self.clip_low, self.clip_high)
