"""Losses over sampled responses; all are called alike, see ``Objective``."""

from sapo_vl.objectives.grpo import GRPO
from sapo_vl.objectives.objective import Objective
from sapo_vl.objectives.sapo import SAPO

__all__ = ["GRPO", "SAPO", "Objective"]
