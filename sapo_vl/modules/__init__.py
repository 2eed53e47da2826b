"""The LightningModules: SFTModule for a cold start, SAPOModule for reinforcement learning."""

from sapo_vl.modules.sapo import SAPOModule
from sapo_vl.modules.sft import SFTModule

__all__ = ["SAPOModule", "SFTModule"]
