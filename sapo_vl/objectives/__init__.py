"""Losses over sampled responses; all are called alike, see ``Objective``."""

from sapo_vl.objectives.aggregation import Aggregation, ConstantMean, SequenceMean, TokenMean
from sapo_vl.objectives.cispo import CISPO
from sapo_vl.objectives.correction import Correction, MaskedWeights, TruncatedWeights
from sapo_vl.objectives.gated import GatedObjective
from sapo_vl.objectives.grpo import GRPO
from sapo_vl.objectives.gspo import GSPO
from sapo_vl.objectives.kl import KLPenalty
from sapo_vl.objectives.objective import Objective
from sapo_vl.objectives.sapo import SAPO
from sapo_vl.objectives.soft_gates import (
    ArctanGate,
    ErfGate,
    LogRatioGate,
    SigmoidGate,
    SoftGate,
    SoftsignGate,
)

__all__ = [
    "CISPO",
    "GRPO",
    "GSPO",
    "SAPO",
    "Aggregation",
    "ArctanGate",
    "ConstantMean",
    "Correction",
    "ErfGate",
    "GatedObjective",
    "KLPenalty",
    "LogRatioGate",
    "MaskedWeights",
    "Objective",
    "SequenceMean",
    "SigmoidGate",
    "SoftGate",
    "SoftsignGate",
    "TokenMean",
    "TruncatedWeights",
]
