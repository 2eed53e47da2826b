"""Soft Adaptive Policy Optimization (arXiv 2511.20347)."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from sapo_vl.objectives.gate import Gate, sequence_log_ratio
from sapo_vl.objectives.gated import GatedObjective
from sapo_vl.objectives.soft_gates import SigmoidGate, SoftGate, outward_only


@dataclass(frozen=True)
class SAPO(GatedObjective):
    """The paper's soft gate on every token's ratio (eq. 5 and 6), centred.

    With the defaults it is the paper's; the other arguments are what follow-up work proposes.

    Args:
        tau_pos: temperature of tokens with a positive advantage; larger is a narrower gate.
        tau_neg: temperature of all others; the paper holds it above ``tau_pos``, because lowering
            one token raises the whole vocabulary.
        gate: how the weight falls with the distance from r = 1.
        outward_only: gate only moves away from r = 1, as PPO's clip does, not those back to it.
        of_sequence: one gate a response, on its sequence ratio as GSPO's, not one a token.

    Raises:
        ValueError: a temperature is not a finite number above 0.
    """

    tau_pos: float = 1.0
    tau_neg: float = 1.05
    gate: SoftGate = SigmoidGate()  # noqa: RUF009 (frozen)
    outward_only: bool = False
    of_sequence: bool = False

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        for name, tau in (("tau_pos", self.tau_pos), ("tau_neg", self.tau_neg)):
            if not (tau > 0 and math.isfinite(tau)):
                raise ValueError(f"SAPO: {name} is {tau}; it must be a finite number above 0")
        if self.tau_neg < self.tau_pos:
            warnings.warn(
                f"SAPO: tau_neg ({self.tau_neg}) is below tau_pos ({self.tau_pos}); the paper's "
                "ablation found this unstable, set tau_neg to at least tau_pos",
                stacklevel=3,
            )

    @override
    def _judged(self, log_ratio_BT: Tensor, mask_BT: Tensor) -> Tensor:
        return sequence_log_ratio(log_ratio_BT, mask_BT) if self.of_sequence else log_ratio_BT

    @override
    def _gate(self, log_ratio_BT: Tensor, advantage_B1: Tensor) -> Gate:
        # Filled in the advantage's dtype: where(A > 0, tau_pos, tau_neg) would round to float32.
        tau_B1 = torch.full_like(advantage_B1, self.tau_neg)
        tau_B1 = tau_B1.masked_fill(advantage_B1 > 0, self.tau_pos)
        gate = self.gate(log_ratio_BT, tau_B1)
        return outward_only(gate, log_ratio_BT, advantage_B1) if self.outward_only else gate
