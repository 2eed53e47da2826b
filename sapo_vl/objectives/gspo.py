"""Group Sequence Policy Optimization (arXiv 2507.18071), the paper's other baseline."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from typing_extensions import override

from sapo_vl.objectives.clipping import check_clips, clip_gate
from sapo_vl.objectives.gate import Gate, sequence_log_ratio
from sapo_vl.objectives.gated import GatedObjective


@dataclass(frozen=True)
class GSPO(GatedObjective):
    """A hard, one-sided cut on every response's ratio s: the geometric mean over its tokens.

    Centred as GRPO is. A token's gradient is -A s / (|y_i| denominator) while its response is
    inside (eq. 5 there); ``stats["gate_BT"]`` is the response's 1 or 0 at each of its tokens.

    Args:
        clip_low: responses with A <= 0 stop at ratio 1 - clip_low.
        clip_high: responses with A > 0 stop at ratio 1 + clip_high. The defaults are the widths
            of the paper's experiments; a sequence's ratio moves far less than a token's.

    Raises:
        ValueError: a clip width is negative or nan.
    """

    clip_low: float = 3e-4
    clip_high: float = 4e-4

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        check_clips("GSPO", self.clip_low, self.clip_high)

    @override
    def _judged(self, log_ratio_BT: Tensor, mask_BT: Tensor) -> Tensor:
        return sequence_log_ratio(log_ratio_BT, mask_BT)

    @override
    def _gate(self, log_ratio_BT: Tensor, advantage_B1: Tensor) -> Gate:
        return clip_gate(log_ratio_BT, advantage_B1, self.clip_low, self.clip_high)
