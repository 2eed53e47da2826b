"""What a strategy splits over ranks, read from ``trainer.strategy`` without building it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lightning.pytorch.strategies import (
    DDPStrategy,
    DeepSpeedStrategy,
    SingleDeviceStrategy,
    StrategyRegistry,
)

from sapo_vl.strategies import FSDP2Strategy

MAX_LIVE = 1_000_000_000  # DeepSpeed's default of stage3_max_live_parameters
PREFETCH = 50_000_000  # DeepSpeed's default of stage3_prefetch_bucket_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """Which states are split, and the buffers that splitting takes.

    ``stage`` is ZeRO's: 1 splits the optimizer's states, 2 gradients too, 3 weights too. None is
    FSDP2, plain data parallelism or one device, where the optimizer works on the weights as they
    are held.
    """

    ranks: int = 1
    stage: int | None = None
    offload_optimizer: bool = False
    offload_parameters: bool = False
    reduce_bucket: int = 200_000_000  # elements; Lightning's default
    gather_bucket: int = 200_000_000  # elements; Lightning's default
    overlap: bool = True  # reduce while the backward pass goes on
    max_live: int = MAX_LIVE  # elements that ZeRO-3 keeps gathered
    bucket_views: bool = False  # DDP's gradients are views of its buckets
    fsdp2: bool = False

    @property
    def name(self) -> str:
        """What people call it."""
        if self.fsdp2:
            return "FSDP2"
        return "no ZeRO" if self.stage is None else f"ZeRO-{self.stage}"

    @property
    def splits_weights(self) -> bool:
        """ZeRO-3 and FSDP2."""
        return self.stage == 3 or self.fsdp2

    @property
    def splits_gradients(self) -> bool:
        """ZeRO-2, 3 and FSDP2."""
        return self.stage in (2, 3) or self.fsdp2


# What the files of configs/strategy/ come to, by name; a test holds them to the files.
STRATEGIES = {
    "ddp": Sharding(bucket_views=True),
    "zero1": Sharding(stage=1),
    "zero2": Sharding(stage=2),
    "zero2_offload": Sharding(stage=2, offload_optimizer=True),
    "zero3": Sharding(stage=3, max_live=0),
    "zero3_offload": Sharding(stage=3, max_live=0, offload_optimizer=True, offload_parameters=True),
    "fsdp2": Sharding(fsdp2=True),
}


def read_sharding(strategy: Any, ranks: int) -> Sharding:
    """Sharding of ``trainer.strategy``: a name that Lightning knows, or class_path and init_args.

    Raises:
        ValueError: a strategy that the plan has no formulas for.
    """
    kind, arguments = _class_of(strategy)
    if issubclass(kind, DeepSpeedStrategy):
        return _zero(arguments, ranks)
    if issubclass(kind, FSDP2Strategy):
        return Sharding(ranks=ranks, fsdp2=True)
    if issubclass(kind, DDPStrategy | SingleDeviceStrategy):
        return Sharding(ranks=ranks, bucket_views=bool(arguments.get("gradient_as_bucket_view")))
    raise ValueError(
        f"trainer.strategy is {kind.__name__}; the plan knows DeepSpeed, DDP, "
        "sapo_vl.strategies.FSDP2Strategy and a single device"
    )


def _class_of(strategy: Any) -> tuple[type, Mapping[str, Any]]:
    if strategy in (None, "auto"):
        return DDPStrategy, {}
    if isinstance(strategy, str):
        if strategy not in StrategyRegistry:
            raise ValueError(f"trainer.strategy: Lightning has no strategy {strategy!r}")
        entry = StrategyRegistry[strategy]
        return entry["strategy"], entry["init_params"]
    module, name = strategy["class_path"].rsplit(".", 1)
    return getattr(importlib.import_module(module), name), strategy.get("init_args") or {}


def _zero(arguments: Mapping[str, Any], ranks: int) -> Sharding:
    def of(name: str, default: Any) -> Any:
        value = arguments.get(name)
        return default if value is None else value

    if arguments.get("config"):
        raise ValueError(
            "trainer.strategy: a DeepSpeed config file or dict is not read by the plan; give the "
            "strategy's own arguments (stage, offload_optimizer, ...)"
        )
    stage = int(of("stage", 2))
    # Without reuse in sight a weight is released at once: two layers are gathered at a time.
    releases = stage == 3 and arguments.get("max_reuse_distance") == 0
    return Sharding(
        ranks=ranks,
        stage=stage,
        offload_optimizer=bool(of("offload_optimizer", False)),
        offload_parameters=bool(of("offload_parameters", False)),
        reduce_bucket=int(of("reduce_bucket_size", 200_000_000)),
        gather_bucket=int(of("allgather_bucket_size", 200_000_000)),
        overlap=bool(of("overlap_comm", True)),
        max_live=0 if releases else MAX_LIVE,
    )
