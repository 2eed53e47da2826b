"""What a module asks of its strategy where strategies differ: one generic function each.

The plain case is here, for strategies that hold whole weights and ordinary gradients (one device,
DDP). ``zero.py`` and ``fsdp2.py`` register their own. So a module never tests for a strategy.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import singledispatch
from typing import Any

import lightning as L
import torch
from lightning.pytorch.strategies import DeepSpeedStrategy

USE_OURS = (
    "Lightning's own DeepSpeedStrategy drops all but the last micro-batch's gradient and does not "
    "clip in manual optimization; take configs/strategy/zero2.yaml, or set trainer.strategy to "
    "class_path: sapo_vl.strategies.ZeroStrategy"
)


@singledispatch
def whole_weights(strategy: Any) -> AbstractContextManager[None]:
    """Context in which every rank holds all weights and may run as many forwards as it likes.

    For sampling, evaluation and writing the model out; no gradient, and every rank has to enter
    and leave it. Entering it again inside does nothing.
    """
    return nullcontext()


@singledispatch
def clip_and_step(
    strategy: Any, module: L.LightningModule, optimizer: Any, max_norm: float
) -> float:
    """Clip the gradient's norm to ``max_norm`` (0: leave it) and step.

    Returns the norm over all parameters and ranks before clipping.
    """
    grads = [
        p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None
    ]
    # Under 16-mixed gradients are those of a scaled loss until the optimizer's own step.
    scaler = getattr(strategy.precision_plugin, "scaler", None)
    scale = 1.0 if scaler is None else float(scaler.get_scale())
    norm = float(torch.nn.utils.get_total_norm(grads)) / scale if grads else 0.0
    if max_norm:
        module.clip_gradients(optimizer, max_norm * scale, "norm")
    optimizer.step()
    return norm


@singledispatch
def fitting_optimizer(strategy: Any, optimizer: Any) -> Any:
    """Give the optimizer that does the same where this strategy keeps the states."""
    return optimizer


@singledispatch
def held_frozen(strategy: Any, policy: Any, load: Callable[[], Any]) -> Any:
    """Load a second policy, frozen, and hold it as this strategy holds the weights of ``policy``.

    Called between the set-up and the first step, on every rank.
    """
    with policy.device:
        return load().to(policy.device)


@whole_weights.register
def _(strategy: DeepSpeedStrategy) -> AbstractContextManager[None]:
    raise ValueError(USE_OURS)
