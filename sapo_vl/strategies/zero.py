"""DeepSpeed ZeRO 1, 2 and 3 for modules that accumulate and step by hand.

Lightning runs ``engine.forward`` once a training step, DeepSpeed counts micro-batches by it; with
several micro-batches in one training step that loses all gradients but the last. Where Lightning
accumulates over training steps, both divide by their number. DeepSpeed's clipping, its gradient
norm and ZeRO-3's partitioned weights each need a word, too; they are all here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from typing import Any, Literal

import lightning as L
import torch
from lightning.pytorch.accelerators import CPUAccelerator
from lightning.pytorch.strategies import DeepSpeedStrategy
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor
from typing_extensions import override

from sapo_vl.policy import Policy
from sapo_vl.strategies.by_strategy import (
    clip_and_step,
    fitting_optimizer,
    held_frozen,
    whole_weights,
)
from sapo_vl.strategies.cpu_adam import cpu_adam
from sapo_vl.strategies.gathering import all_gathered, offload_of
from sapo_vl.strategies.zero_frozen import split_frozen
from sapo_vl.strategies.zero_outside import read_outside


class ZeroStrategy(DeepSpeedStrategy):
    """Lightning's DeepSpeedStrategy, exact in gradient accumulation and clipping.

    Args:
        stage: what is split over ranks: 1 the optimizer's states, 2 the gradients too, 3 the
            weights too.
        offload_optimizer: keep optimizer states, and step, in CPU memory; torch's AdamW becomes
            DeepSpeed's own for CPUs.
        offload_parameters: keep the weights' shards in CPU memory (stage 3).
        pin_memory: page-locked CPU memory for what is offloaded: faster copies.
        overlap_comm: reduce gradients while the backward pass goes on; costs buffers of about 4.5
            times reduce_bucket_size.
        reduce_bucket_size: elements that are reduced at a time.
        allgather_bucket_size: elements that are gathered at a time.
        param_persistence_threshold: parameters with fewer elements stay whole (stage 3).
        max_reuse_distance: elements ahead within which a weight's next use keeps it gathered
            (stage 3). DeepSpeed's own 1e9 looks over a small model's whole step at every release,
            which takes longer than the step.
        timeout_minutes: how long a rank waits for another, at least the longest difference between
            ranks in a rollout.

    Raises:
        ModuleNotFoundError: deepspeed is not installed.
        ValueError: offload_parameters without stage 3.
    """

    def __init__(
        self,
        stage: Literal[1, 2, 3] = 2,
        offload_optimizer: bool = False,
        offload_parameters: bool = False,
        pin_memory: bool = False,
        overlap_comm: bool = True,
        reduce_bucket_size: int = 200_000_000,
        allgather_bucket_size: int = 200_000_000,
        param_persistence_threshold: int = 100_000,
        max_reuse_distance: int = 0,
        timeout_minutes: float = 60,
    ) -> None:
        if find_spec("deepspeed") is None:
            raise ModuleNotFoundError(
                "ZeroStrategy needs deepspeed, which is not installed: "
                "pip install 'sapo-vl[deepspeed]'"
            )
        if offload_parameters and stage != 3:
            raise ValueError(
                f"ZeroStrategy: offload_parameters needs stage 3, stage is {stage}: the weights "
                "are whole on every rank below it"
            )
        super().__init__(
            stage=stage,
            offload_optimizer=offload_optimizer,
            offload_parameters=offload_parameters,
            pin_memory=pin_memory,
            overlap_comm=overlap_comm,
            reduce_bucket_size=reduce_bucket_size,
            allgather_bucket_size=allgather_bucket_size,
            logging_batch_size_per_gpu=1,  # else Lightning builds the loader early to ask it
            timeout=timedelta(minutes=timeout_minutes),
        )
        assert isinstance(self.config, dict)
        self.config["zero_force_ds_cpu_optimizer"] = False  # any optimizer may be offloaded
        if stage == 3:
            self.config["zero_optimization"] |= {
                "stage3_param_persistence_threshold": param_persistence_threshold,
                "stage3_max_reuse_distance": max_reuse_distance,
            }
        self._whole = False

    @override
    def setup(self, trainer: L.Trainer) -> None:
        super().setup(trainer)
        policy = getattr(self.lightning_module, "policy", None)
        if self.zero_stage_3 and isinstance(policy, Policy):
            read_outside(policy)

    @override
    def setup_environment(self) -> None:
        if isinstance(self.accelerator, CPUAccelerator):
            _allow_cpu()
            self._process_group_backend = "gloo"
            super(DeepSpeedStrategy, self).setup_environment()  # past the check for CUDA
        else:
            super().setup_environment()

    @override
    def setup_distributed(self) -> None:
        if isinstance(self.accelerator, CPUAccelerator):
            self.set_world_ranks()  # CPU devices have no indices to compare with local ranks
            self._init_deepspeed_distributed()
        else:
            super().setup_distributed()

    @property
    @override
    def root_device(self) -> torch.device:
        if isinstance(self.accelerator, CPUAccelerator):
            return torch.device("cpu", 0)  # DeepSpeed asks for an index
        return super().root_device

    @contextmanager
    @override
    def model_sharded_context(self) -> Iterator[None]:
        """Let transformers split the weights as it builds a model.

        Lightning would open DeepSpeed's context around that, in which weights cannot be drawn and
        rotary frequencies are rounded to the weights' dtype. The engine splits what else there is.
        """
        self._init_config_if_needed()
        if not self.zero_stage_3:
            yield
            return
        from transformers.integrations import HfDeepSpeedConfig

        alive = HfDeepSpeedConfig(self.config)  # transformers looks for a living one
        with _transpose_by_whole_shapes():
            yield
        del alive
        _forget_unused_renamings(self.lightning_module)

    @contextmanager
    @override
    def block_backward_sync(self) -> Iterator[None]:
        """Hold the accumulation boundary open: gradients add up, the next step is not due."""
        self.deepspeed_engine.set_gradient_accumulation_boundary(False)
        try:
            yield
        finally:
            self.deepspeed_engine.set_gradient_accumulation_boundary(True)

    @override
    def backward(self, closure_loss: Tensor, optimizer: Any, *args: Any, **kwargs: Any) -> Tensor:
        # Lightning has already divided by accumulate_grad_batches; DeepSpeed would once more.
        return super().backward(closure_loss, optimizer, *args, scale_wrt_gas=False, **kwargs)

    @override
    def post_backward(self, closure_loss: Tensor) -> None:
        # DeepSpeed counts micro-batches in engine.forward, which holds a whole training step here.
        self.deepspeed_engine.optimizer.clear_backward_seen_flag()
        if self.zero_stage_3:  # its trace of modules is that of one micro-batch
            offload_of(self.deepspeed_engine).get_param_coordinator().reset_step()


@contextmanager
def _transpose_by_whole_shapes() -> Iterator[None]:
    """Let transformers compare stored weights with the whole shape of the model's.

    It turns experts' weights round where the file has the other layout; a split weight's shape is
    empty, so that it would always turn them.
    """
    from transformers.core_model_loading import Transpose

    operation: Any = Transpose
    original = operation.convert

    def convert(
        self: Any, input_dict: Any, source_patterns: Any, target_patterns: Any, **kwargs: Any
    ) -> Any:
        if self.check_dims:
            parameter = kwargs["model"].get_parameter(kwargs["full_layer_name"])
            value = next(iter(input_dict.values()))
            tensor = value[0] if isinstance(value, list) else value
            if tensor.shape == getattr(parameter, "ds_shape", parameter.shape):
                target = self.get_target_pattern(input_dict, source_patterns, target_patterns)
                return {target: tensor}
        return original(self, input_dict, source_patterns, target_patterns, **kwargs)

    operation.convert = convert
    try:
        yield
    finally:
        operation.convert = original


def _forget_unused_renamings(module: Any) -> None:
    """Keep of transformers' renamings those that changed a name in loading.

    It reverts all that it remembers when it saves, and remembers under ZeRO-3 also those for older
    files: the saved names would be such a file's, which other programs do not know.
    """
    for part in module.modules():
        if getattr(part, "_weight_conversions", None):
            part._weight_conversions = [c for c in part._weight_conversions if c.was_used()]


@whole_weights.register
@contextmanager
def _whole_weights(strategy: ZeroStrategy) -> Iterator[None]:
    if not strategy.zero_stage_3 or strategy._whole:
        yield
        return
    strategy._whole = True
    try:
        with all_gathered(strategy.deepspeed_engine):
            yield
    finally:
        strategy._whole = False


@held_frozen.register
def _held_frozen(strategy: ZeroStrategy, policy: Policy, load: Callable[[], Policy]) -> Policy:
    if strategy.zero_stage_3:
        return split_frozen(strategy, load)
    with policy.device:
        return load().to(policy.device)


@fitting_optimizer.register
def _fitting_optimizer(strategy: ZeroStrategy, optimizer: Any) -> Any:
    assert isinstance(strategy.config, dict)
    offloaded = "offload_optimizer" in strategy.config["zero_optimization"]
    return cpu_adam(optimizer) if offloaded else optimizer


@clip_and_step.register
def _clip_and_step(
    strategy: ZeroStrategy, module: L.LightningModule, optimizer: Any, max_norm: float
) -> float:
    engine = strategy.deepspeed_engine
    engine.optimizer.clip_grad = float(max_norm)  # DeepSpeed clips in its step, by this alone
    optimizer.step()
    return float(engine.get_global_grad_norm())


def _allow_cpu() -> None:
    """Let DeepSpeed run on the CPU.

    Raises:
        RuntimeError: deepspeed has already chosen another device.
    """
    import deepspeed
    from deepspeed.accelerator import get_accelerator

    name = get_accelerator()._name
    if name != "cpu":
        raise RuntimeError(
            f"trainer.accelerator is cpu, but deepspeed has chosen {name}; set the environment "
            "variable DS_ACCELERATOR=cpu before the start"
        )
    rank_zero_warn("ZeroStrategy on the CPU is for trying out: it talks over gloo and is slow")
    # An optional operator for several processes on one host. On a CPU it is compiled at start, in
    # a minute, and gloo does the work all the same.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
