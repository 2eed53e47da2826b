"""What SAPO and its baselines share: everything but the gate."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from sapo_vl.objectives.aggregation import Aggregation, SequenceMean
from sapo_vl.objectives.gate import (
    Gate,
    gate_stats,
    gated_surrogate,
    masked_log_ratio,
    sequence_log_ratio,
)
from sapo_vl.objectives.objective import check_shapes, weighted
from sapo_vl.types import LossOutput


@dataclass(frozen=True, kw_only=True)
class GatedObjective(ABC):
    """Gated surrogate times advantage, aggregated and negated (the paper's unified view).

    Args:
        aggregation: from tokens to one scalar; the mean over responses of their tokens' mean.
        off_policy_mask_threshold: responses with A < 0 whose log-probs fell by more than this, in
            the mean over their tokens, give no gradient (DeepSeek-V3.2, arXiv 2512.02556, eq. 9,
            but from the old policy's log-probs, not the engine's); None: all give.

    Raises:
        ValueError: ``off_policy_mask_threshold`` is negative or nan.
    """

    aggregation: Aggregation = SequenceMean()  # noqa: RUF009 (frozen)
    off_policy_mask_threshold: float | None = None

    def __post_init__(self) -> None:
        threshold = self.off_policy_mask_threshold
        if threshold is not None and (math.isnan(threshold) or threshold < 0):
            raise ValueError(
                f"{type(self).__name__}: off_policy_mask_threshold is {threshold}; it must be 0 or "
                "more, or null"
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
        """Return the loss, 0 when every ratio is 1, and ``log_ratio_BT`` and ``gate_BT``.

        Shapes: ``logp_BT``, ``old_logp_BT`` float [B, T], ``advantage_B`` float [B], ``mask_BT``
        bool [B, T]; computed in float32 at least. The gradient flows to ``logp_BT`` alone; under
        ``SequenceMean`` it is -A w r / (|y_i| denominator) (eq. 7). Log-ratios act as clamped to
        +-20; masked places may hold anything, nan included. ``denominator``: the aggregation's
        ``units`` of the whole update, None for those of this batch. ``weight_BT``: what each
        token's term counts, float [B, T], None for 1.

        Raises:
            ValueError: shapes do not fit together, or ``denominator`` is not above 0.
        """
        check_shapes(logp_BT, old_logp_BT, advantage_B, mask_BT, weight_BT)
        log_ratio_BT = masked_log_ratio(logp_BT, old_logp_BT, mask_BT)
        advantage_B1 = advantage_B.detach().to(log_ratio_BT.dtype).unsqueeze(1)

        judged_BT = self._judged(log_ratio_BT, mask_BT)
        gate = self._gate(judged_BT, advantage_B1)
        if self.off_policy_mask_threshold is not None:
            fallen_B1 = -sequence_log_ratio(log_ratio_BT.detach(), mask_BT)
            left_out_B1 = (advantage_B1 < 0) & (fallen_B1 > self.off_policy_mask_threshold)
            gate = Gate(*(part.masked_fill(left_out_B1, 0.0) for part in gate))
        token_BT = (gated_surrogate(gate, judged_BT) * advantage_B1).expand_as(log_ratio_BT)
        loss = -self.aggregation(weighted(token_BT, weight_BT, mask_BT), mask_BT, denominator)
        return LossOutput(loss=loss, stats=gate_stats(gate, log_ratio_BT, mask_BT))

    def _judged(self, log_ratio_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """The log-ratio that the gate judges: each token's own [B, T], or a response's [B, 1]."""
        return log_ratio_BT

    @abstractmethod
    def _gate(self, log_ratio_BT: Tensor, advantage_B1: Tensor) -> Gate:
        """The gate's answer, without gradient."""
