"""Group Relative Policy Optimization's clipped surrogate (arXiv 2402.03300), the baseline."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from sapo_vl.objectives.aggregation import sequence_mean
from sapo_vl.objectives.gate import clip_gate, gate_stats, gated_surrogate, masked_log_ratio
from sapo_vl.objectives.objective import check_shapes, weighted
from sapo_vl.types import LossOutput


@dataclass(frozen=True)
class GRPO:
    """A hard, one-sided cut on every token's ratio, aggregated as SAPO is; no KL term.

    Args:
        clip_low: tokens with A <= 0 stop at ratio 1 - clip_low.
        clip_high: tokens with A > 0 stop at ratio 1 + clip_high.

    Raises:
        ValueError: a clip width is negative or nan.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2

    def __post_init__(self) -> None:
        for name, clip in (("clip_low", self.clip_low), ("clip_high", self.clip_high)):
            if not clip >= 0:
                raise ValueError(f"GRPO: {name} is {clip}; it must be 0 or more")

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
        """Negated clipped objective, sequence mean, mean over B (the paper's unified view).

        Centred as SAPO is: min(r A, clip(r) A) - A, so it is 0 when every ratio is 1 and differs
        from the textbook value by the constant mean(A), which is 0 over complete groups.

        Shapes: ``logp_BT``, ``old_logp_BT`` float [B, T], ``advantage_B`` float [B], ``mask_BT``
        bool [B, T]; computed in float32 at least. Log-ratios act as clamped to +-20 (no gradient
        beyond); masked places may hold anything, nan included. ``stats["gate_BT"]`` is 1 where the
        surrogate still has a slope in r, else 0. ``denominator``: responses in the whole update,
        None for B. ``weight_BT``: what each token's term counts, float [B, T], None for 1.

        Raises:
            ValueError: shapes do not fit together, or ``denominator`` is not above 0.
        """
        check_shapes(logp_BT, old_logp_BT, advantage_B, mask_BT, weight_BT)
        log_ratio_BT = masked_log_ratio(logp_BT, old_logp_BT, mask_BT)
        advantage_B1 = advantage_B.detach().to(log_ratio_BT.dtype).unsqueeze(1)

        gate = clip_gate(log_ratio_BT, advantage_B1, self.clip_low, self.clip_high)
        token_BT = gated_surrogate(gate, log_ratio_BT) * advantage_B1
        loss = -sequence_mean(weighted(token_BT, weight_BT, mask_BT), mask_BT, denominator)
        return LossOutput(loss=loss, stats=gate_stats(gate, log_ratio_BT, mask_BT))
