"""PyTorch's own fully sharded data parallelism (FSDP2): ZeRO-3's split without DeepSpeed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import lightning as L
import torch
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed.fsdp import (
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from typing_extensions import override

from sapo_vl.policy import Policy
from sapo_vl.strategies.by_strategy import clip_and_step, held_frozen, whole_weights
from sapo_vl.strategies.fsdp2_fill import fill, loaded_once

ENTRIES = ("score", "decoder", "log_probs")  # of the policy, in place of its forward


class FSDP2Strategy(ModelParallelStrategy):
    """Weights, gradients and optimizer states split over all ranks, layer by layer.

    Under bf16-mixed they are held in float32, gathered and computed with in bfloat16; gradients are
    reduced in float32.

    Rank 0 loads the model into CPU memory, whole; the other ranks never hold more than their share
    and one tensor.

    A checkpoint is one file of whole tensors, as without a strategy.

    Args:
        timeout_minutes: how long a rank waits for another, at least the longest difference between
            ranks in a rollout.

    Raises:
        ValueError: at the set-up, weights of several dtypes, or not of float32 under bf16-mixed.
    """

    def __init__(self, timeout_minutes: float = 60) -> None:
        super().__init__(
            tensor_parallel_size=1,
            save_distributed_checkpoint=False,
            timeout=timedelta(minutes=timeout_minutes),
        )
        self._whole = False

    @property
    def policy(self) -> Any:
        """The part that is split; an ``FSDPModule`` after the set-up."""
        assert self.lightning_module is not None
        return self.lightning_module.policy

    @override
    def setup_environment(self) -> None:
        self._data_parallel_size = self.num_nodes * self.num_processes
        super().setup_environment()

    @override
    def setup(self, trainer: L.Trainer) -> None:
        if not isinstance(self.policy, FSDPModule):  # set up again for each trainer function
            # Before the split: a cast leaves some tensors out, which it finds as they are.
            assert self.model is not None
            self.model = self.precision_plugin.convert_module(self.model)
            self.split(self.policy)
        super().setup(trainer)

    def split(self, policy: Policy) -> None:
        """Leave every rank its share of a policy that was loaded in ``model_sharded_context``."""
        loaded = {name: p.detach() for name, p in policy.named_parameters()}
        _split(policy, self.device_mesh["data_parallel"], self.precision_plugin.precision)
        fill(policy, loaded, self.root_device)

    @contextmanager
    @override
    def model_sharded_context(self) -> Iterator[None]:
        """Let rank 0 alone load the weights; the others get their shares at the set-up."""
        with loaded_once(self):
            yield

    @contextmanager
    @override
    def block_backward_sync(self) -> Iterator[None]:
        """Let whole gradients add up on each rank, to be reduced after the last micro-batch."""
        _reduce_gradients(self.policy, False)
        try:
            yield
        finally:
            _reduce_gradients(self.policy, True)


def _split(policy: Policy, mesh: Any, precision: str) -> None:
    """Split every layer by itself, since what is gathered at a time is a split module."""
    _check_dtypes(policy, precision)
    half = torch.bfloat16 if precision == "bf16-mixed" else None  # of what is gathered
    options = {"mesh": mesh, "mp_policy": MixedPrecisionPolicy(half, torch.float32)}
    for layer in (*policy.backbone.language_model.layers, *policy.backbone.visual.blocks):
        fully_shard(layer, **options)
    fully_shard(policy, **options)  # the rest: embedding and head, which may be one
    for name in ENTRIES:
        register_fsdp_forward_method(policy, name)


def _check_dtypes(policy: Policy, precision: str) -> None:
    dtypes = sorted({str(p.dtype).removeprefix("torch.") for p in policy.parameters()})
    if len(dtypes) > 1:
        raise ValueError(
            f"FSDP2Strategy takes weights of one dtype, the policy's are {' and '.join(dtypes)} "
            "(adapters are float32). Set policy.dtype: float32, trainer.precision: bf16-mixed and "
            "no policy.quantize, or take ZeroStrategy"
        )
    if precision.endswith("mixed") and dtypes != ["float32"]:
        raise ValueError(
            f"FSDP2Strategy: policy.dtype is {dtypes[0]}. The optimizer steps on the weights as "
            "they are held, and small steps would be rounded away: set policy.dtype: float32 (it "
            f"computes in half precision by trainer.precision: {precision})"
        )


def _reduce_gradients(policy: Any, last: bool) -> None:
    """Whether backward passes from here on are an update's last, after which ranks exchange."""
    policy.set_requires_gradient_sync(last)
    policy.set_is_last_backward(last)


@whole_weights.register
@contextmanager
def _whole_weights(strategy: FSDP2Strategy) -> Iterator[None]:
    if strategy._whole:
        yield
        return
    policy = strategy.policy
    parts = [module for module in policy.modules() if isinstance(module, FSDPModule)]
    layers = [part for part in parts if part is not policy]  # the root stays whole by itself
    strategy._whole = True
    try:
        # Tensors made in inference mode could not be trained on afterwards.
        with torch.inference_mode(False), torch.no_grad():
            for part in parts:
                part.unshard()
            for layer in layers:
                layer.set_reshard_after_forward(False, recurse=False)
            try:
                yield
            finally:
                for layer in layers:
                    layer.set_reshard_after_forward(True, recurse=False)
                for part in parts:
                    part.reshard()
    finally:
        strategy._whole = False


@held_frozen.register
def _held_frozen(strategy: FSDP2Strategy, policy: Policy, load: Callable[[], Policy]) -> Any:
    with strategy.model_sharded_context():
        second: Any = strategy.precision_plugin.convert_module(load())
    strategy.split(second)
    second.set_reshard_after_forward(True, recurse=False)  # the root would stay whole
    return second


@clip_and_step.register
def _clip_and_step(
    strategy: FSDP2Strategy, module: L.LightningModule, optimizer: Any, max_norm: float
) -> float:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm: Any = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    if max_norm:
        torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
    optimizer.step()
    return float(norm.full_tensor())
