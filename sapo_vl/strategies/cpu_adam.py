"""AdamW where its states are in CPU memory."""

from __future__ import annotations

from typing import Any

import torch

SAME = ("params", "lr", "betas", "eps", "weight_decay")
OTHER = ("amsgrad", "maximize", "differentiable")  # DeepSpeed's has none of these


def cpu_adam(optimizer: Any) -> Any:
    """DeepSpeed's Adam or AdamW for CPUs in place of torch's, several times as fast.

    Another optimizer is given back as it is.

    Raises:
        RuntimeError: DeepSpeed's cannot be compiled here.
    """
    if type(optimizer) not in (torch.optim.Adam, torch.optim.AdamW):
        return optimizer
    defaults = optimizer.defaults
    if any(defaults[name] for name in OTHER):
        return optimizer
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    groups = [{name: group[name] for name in SAME} for group in optimizer.param_groups]
    options = {name: defaults[name] for name in SAME[1:]}
    try:
        return DeepSpeedCPUAdam(groups, **options, adamw_mode=defaults["decoupled_weight_decay"])
    except RuntimeError as error:
        raise RuntimeError(
            "trainer.strategy: offload_optimizer steps AdamW with an operator of DeepSpeed that is "
            f"compiled at first use, which failed here ({error.__cause__ or error}). Install g++ "
            "and ninja, or take another optimizer"
        ) from error
