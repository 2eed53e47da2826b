"""Strategies: DeepSpeed ZeRO done right for manual optimization, and what modules ask of any."""

from sapo_vl.strategies.by_strategy import clip_and_step, whole_weights
from sapo_vl.strategies.gathered import gathered
from sapo_vl.strategies.zero import ZeroStrategy

__all__ = ["ZeroStrategy", "clip_and_step", "gathered", "whole_weights"]
