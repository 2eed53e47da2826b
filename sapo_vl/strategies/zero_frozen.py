"""A second, frozen policy beside the one that ZeRO-3 trains, split over ranks as that one is."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from lightning.pytorch.strategies import DeepSpeedStrategy

from sapo_vl.policy import Policy
from sapo_vl.strategies.gathering import offload_of
from sapo_vl.strategies.zero_outside import read_outside


def split_frozen(strategy: DeepSpeedStrategy, load: Callable[[], Policy]) -> Policy:
    """Load a policy in shards and give it an engine of its own, without an optimizer.

    That engine's hooks fetch and release its weights; the strategy's engine knows nothing of it.
    """
    import deepspeed

    with strategy.model_sharded_context():
        second = load()
    engine, *_ = deepspeed.initialize(
        args=argparse.Namespace(device_rank=strategy.root_device.index),
        model=second,
        model_parameters=[],
        config=_without_optimizer(strategy.config),
        dist_init_required=False,
    )
    read_outside(second)

    def reset(*_: Any) -> None:
        offload_of(engine).get_param_coordinator().reset_step()

    # The head is the last of a pass; without a word the trace of modules would grow for ever.
    second.token_stats.register_forward_hook(reset)
    return second


def _without_optimizer(config: Any) -> dict[str, Any]:
    """Of DeepSpeed's configuration what is about weights."""
    kept = ("bf16", "fp16", "zero_allow_untested_optimizer")
    zero = {k: v for k, v in config["zero_optimization"].items() if k != "offload_optimizer"}
    return {name: config[name] for name in kept if name in config} | {
        "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": zero,
    }
