"""Group Sequence Policy Optimization (arXiv 2507.18071), the paper's other baseline."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from sapo_vl.objectives.aggregation import sequence_mean
from sapo_vl.objectives.gate import clip_gate, gate_stats, gated_surrogate, masked_log_ratio
from sapo_vl.objectives.objective import check_shapes, weighted
from sapo_vl.types import LossOutput


@dataclass(frozen=True)
class GSPO:
    """A hard, one-sided cut on every response's ratio: the geometric mean over its tokens.

    Args:
        clip_low: responses with A <= 0 stop at ratio 1 - clip_low.
        clip_high: responses with A > 0 stop at ratio 1 + clip_high. The defaults are the widths
            of the paper's experiments; a sequence's ratio moves far less than a token's.

    Raises:
        ValueError: a clip width is negative or nan.
    """

    clip_low: float = 3e-4
    clip_high: float = 4e-4

    def __post_init__(self) -> None:
        for name, clip in (("clip_low", self.clip_low), ("clip_high", self.clip_high)):
            if not clip >= 0:
                raise ValueError(f"GSPO: {name} is {clip}; it must be 0 or more")

    def __call__(
        self,
        logp_BT: Tensor,
        old_logp_BT: Tensor,
        advantage_B: Tensor,
        mask_BT: Tensor,
        *,
        denominator: float | Tensor | None = None,
        weight_BT: Tensor | None = None,
    ) -> LossOutput:
        """Negated clipped objective of the sequence ratio, mean over B (eq. 5 there), centred.

        Centred as GRPO is. Shapes, dtypes, clamping and masked places: as SAPO's. The gradient of
        a token is -A s / (|y_i| denominator) while its response is inside, with s the sequence
        ratio. ``stats["gate_BT"]`` is the response's 1 or 0 at each of its tokens.

        Raises:
            ValueError: shapes do not fit together, or ``denominator`` is not above 0.
        """
        check_shapes(logp_BT, old_logp_BT, advantage_B, mask_BT, weight_BT)
        log_ratio_BT = masked_log_ratio(logp_BT, old_logp_BT, mask_BT)
        advantage_B1 = advantage_B.detach().to(log_ratio_BT.dtype).unsqueeze(1)
        length_B1 = mask_BT.bool().sum(dim=1, keepdim=True).clamp(min=1)
        sequence_B1 = log_ratio_BT.sum(dim=1, keepdim=True) / length_B1

        gate = clip_gate(sequence_B1, advantage_B1, self.clip_low, self.clip_high)
        token_BT = (gated_surrogate(gate, sequence_B1) * advantage_B1).expand_as(log_ratio_BT)
        loss = -sequence_mean(weighted(token_BT, weight_BT, mask_BT), mask_BT, denominator)
        gate = gate._replace(weight_BT=gate.weight_BT.expand_as(log_ratio_BT))
        return LossOutput(loss=loss, stats=gate_stats(gate, log_ratio_BT, mask_BT))
