"""sapo_vl: reinforcement learning of vision-language models with SAPO, a soft adaptive gate."""

__version__ = "0.1.0"
