"""Weights that ZeRO-3 has to fetch for a module that is not theirs."""

from __future__ import annotations

from torch import nn

from sapo_vl.policy import Policy


def read_outside(policy: Policy) -> None:
    """Tell ZeRO-3 which modules use another's weight without calling that one.

    It finds out by itself within a training step alone; the parity check and a second policy score
    outside of one.
    """
    from deepspeed.runtime.zero import register_external_parameter

    register_external_parameter(policy.token_stats, policy.model.lm_head.weight)
    for module in policy.modules():
        convolution = getattr(module, "conv1d", None)  # in Qwen3.5's linear attention
        if isinstance(convolution, nn.Conv1d):
            register_external_parameter(module, convolution.weight)
