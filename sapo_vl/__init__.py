"""sapo_vl: reinforcement learning of vision-language models with Soft Adaptive Policy Optimization."""

__version__ = "0.1.0"
