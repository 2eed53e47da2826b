"""Soft Adaptive Policy Optimization (arXiv 2511.20347)."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from sapo_vl.objectives.aggregation import sequence_mean
from sapo_vl.objectives.gate import gate_stats, gated_surrogate, masked_log_ratio, sigmoid_gate
from sapo_vl.objectives.objective import check_shapes, weighted
from sapo_vl.types import LossOutput


@dataclass(frozen=True)
class SAPO:
    """The paper's soft gate on every token's ratio (eq. 5 and 6), centred.

    Args:
        tau_pos: temperature of tokens with a positive advantage; larger is a narrower gate.
        tau_neg: temperature of all others; the paper holds it above ``tau_pos``, because lowering
            one token raises the whole vocabulary.

    Raises:
        ValueError: a temperature is not a finite number above 0.
    """

    tau_pos: float = 1.0
    tau_neg: float = 1.05

    def __post_init__(self) -> None:
        for name, tau in (("tau_pos", self.tau_pos), ("tau_neg", self.tau_neg)):
            if not (tau > 0 and math.isfinite(tau)):
                raise ValueError(f"SAPO: {name} is {tau}; it must be a finite number above 0")
        if self.tau_neg < self.tau_pos:
            warnings.warn(
                f"SAPO: tau_neg ({self.tau_neg}) is below tau_pos ({self.tau_pos}); the paper's "
                "ablation found this unstable, set tau_neg to at least tau_pos",
                stacklevel=3,
            )

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
        """Negated objective of eq. 5: token gate times advantage, sequence mean, mean over B.

        Shapes: ``logp_BT``, ``old_logp_BT`` float [B, T], ``advantage_B`` float [B], ``mask_BT``
        bool [B, T]; computed in float32 at least. The gradient flows to ``logp_BT`` alone and is
        eq. 7's, -A w r / (|y_i| denominator). Log-ratios act as clamped to +-20; masked places may
        hold anything, nan included. ``denominator``: responses in the whole update, None for B.
        ``weight_BT``: what each token's term counts, float [B, T], None for 1.

        Raises:
            ValueError: shapes do not fit together, or ``denominator`` is not above 0.
        """
        check_shapes(logp_BT, old_logp_BT, advantage_B, mask_BT, weight_BT)
        log_ratio_BT = masked_log_ratio(logp_BT, old_logp_BT, mask_BT)
        advantage_B1 = advantage_B.detach().to(log_ratio_BT.dtype).unsqueeze(1)
        # Filled in the advantage's dtype: where(A > 0, tau_pos, tau_neg) would round to float32.
        tau_B1 = torch.full_like(advantage_B1, self.tau_neg)
        tau_B1 = tau_B1.masked_fill(advantage_B1 > 0, self.tau_pos)

        gate = sigmoid_gate(log_ratio_BT, tau_B1)
        token_BT = gated_surrogate(gate, log_ratio_BT) * advantage_B1
        loss = -sequence_mean(weighted(token_BT, weight_BT, mask_BT), mask_BT, denominator)
        return LossOutput(loss=loss, stats=gate_stats(gate, log_ratio_BT, mask_BT))
