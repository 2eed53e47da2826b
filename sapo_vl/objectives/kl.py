"""A penalty for leaving a reference policy: the KL term of GRPO; SAPO's paper has none."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sapo_vl.objectives.aggregation import Aggregation, SequenceMean
from sapo_vl.objectives.gate import masked_log_ratio
from sapo_vl.types import LossOutput


@dataclass(frozen=True)  # no slots: the command line reads defaults from __dict__
class KLPenalty:
    """beta times an estimate of KL(policy || reference policy), token by token (k3).

    With d = log reference - log policy of the sampled token it is exp(d) - d - 1, which is never
    negative (arXiv 2402.03300, eq. 4). A correction for the rollout engine does not weigh it.

    Args:
        beta: what the estimate counts in the loss (0.001 to 0.04 are usual); 0 turns it off.

    Raises:
        ValueError: ``beta`` is not a finite number of at least 0.
    """

    beta: float = 0.0

    def __post_init__(self) -> None:
        if not (self.beta >= 0 and math.isfinite(self.beta)):
            raise ValueError(
                f"KLPenalty: beta is {self.beta}; it must be a finite number, 0 or more"
            )

    def __call__(
        self,
        logp_BT: Tensor,
        reference_logp_BT: Tensor,
        mask_BT: Tensor,
        *,
        aggregation: Aggregation = SequenceMean(),  # noqa: B008 (frozen)
        denominator: float | Tensor | None = None,
    ) -> LossOutput:
        """The penalty as a loss, aggregated as the objective is, and the estimate of each token.

        Shapes: ``logp_BT``, ``reference_logp_BT`` float [B, T], ``mask_BT`` bool [B, T]; computed
        in float32 at least. The gradient flows to ``logp_BT`` alone and is, under
        ``SequenceMean``, beta (1 - exp(d)) / (|y_i| denominator). d acts as clamped to +-20, in the
        gradient too, which stays at what it is there: a policy that has gone that far is still
        pulled back. Masked places may hold anything, nan included. ``denominator``: the
        aggregation's ``units`` of the whole update, None for those of this batch.
        ``stats["kl_BT"]``: the estimate without beta, float32, 0 where masked.

        Raises:
            ValueError: shapes do not fit together, or ``denominator`` is not above 0.
        """
        _check_shapes(logp_BT, reference_logp_BT, mask_BT)
        with torch.no_grad():
            log_ratio_BT = masked_log_ratio(logp_BT, reference_logp_BT, mask_BT)
            slope_BT = -torch.expm1(-log_ratio_BT)
            # Two terms that nearly cancel: rounding alone could make it negative.
            kl_BT = (log_ratio_BT - slope_BT).clamp(min=0)
        # Past the clamp, which has no gradient beyond +-20; an infinity less itself would be nan.
        own_BT = logp_BT.to(log_ratio_BT.dtype).masked_fill(~mask_BT.bool(), 0.0).nan_to_num()
        token_BT = self.beta * (kl_BT + slope_BT * (own_BT - own_BT.detach()))
        loss = aggregation(token_BT, mask_BT, denominator)
        return LossOutput(loss=loss, stats={"kl_BT": kl_BT.float()})


def _check_shapes(logp_BT: Tensor, reference_logp_BT: Tensor, mask_BT: Tensor) -> None:
    if logp_BT.ndim != 2:
        raise ValueError(f"logp_BT has shape {tuple(logp_BT.shape)}; it must be [B, T]")
    for name, tensor in (("reference_logp_BT", reference_logp_BT), ("mask_BT", mask_BT)):
        if tensor.shape != logp_BT.shape:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}; it must be logp_BT's, "
                f"{tuple(logp_BT.shape)}"
            )
