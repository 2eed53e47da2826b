"""Losses over sampled responses; all are called alike, see ``Objective``."""

from sapo_vl.objectives.correction import Correction, MaskedWeights, TruncatedWeights
from sapo_vl.objectives.grpo import GRPO
from sapo_vl.objectives.gspo import GSPO
from sapo_vl.objectives.kl import KLPenalty
from sapo_vl.objectives.objective import Objective
from sapo_vl.objectives.sapo import SAPO

__all__ = [
    "GRPO",
    "GSPO",
    "SAPO",
    "Correction",
    "KLPenalty",
    "MaskedWeights",
    "Objective",
    "TruncatedWeights",
]
