"""Strategies: DeepSpeed ZeRO and FSDP2 for manual optimization, and what modules ask of any."""

from sapo_vl.strategies.by_strategy import (
    clip_and_step,
    fitting_optimizer,
    held_frozen,
    whole_weights,
)
from sapo_vl.strategies.fsdp2 import FSDP2Strategy
from sapo_vl.strategies.gathering import gathered
from sapo_vl.strategies.together import together
from sapo_vl.strategies.zero import ZeroStrategy

__all__ = [
    "FSDP2Strategy",
    "ZeroStrategy",
    "clip_and_step",
    "fitting_optimizer",
    "gathered",
    "held_frozen",
    "together",
    "whole_weights",
]
