"""Bytes that a rank holds all the time: weights, gradients, optimizer states, buffers.

P is the number of parameters, N that of ranks. Sources: "ZeRO: Memory Optimizations Toward Training
Trillion Parameter Models" (arXiv 1910.02054, section 3), and the code of DeepSpeed 0.19
(``runtime/zero/stage_1_and_2.py``, ``stage3.py``), which holds float32 masters of whatever it
trains.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sapo_vl.plan.counts import Counts, weighted_bits
from sapo_vl.plan.sharding import PREFETCH, Sharding

CONTEXT = 2 * 2**30  # an estimate: CUDA context and kernels about 0.7 GiB, NCCL and cuBLAS the rest
FRAGMENTS = 0.05  # an estimate: of what comes and goes, lost between blocks of the allocator


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Bytes of a number, and copies that the optimizer keeps of each parameter."""

    weight: int  # of a weight of the model
    gathered: int  # of a weight that computes: FSDP2 gathers in the precision of the trainer
    trained: int  # of a weight that trains: adapters are float32
    moments: int  # tensors of the parameter's size in the optimizer's state; 2 for Adam


def weights(counts: Counts, numbers: Numbers, sharding: Sharding) -> int:
    """The model's weights: all of them, or a share under ZeRO-3 (none where offloaded), FSDP2."""
    if sharding.splits_weights and sharding.offload_parameters:
        return 0
    return _share(weights_whole(counts, numbers), sharding.ranks if sharding.splits_weights else 1)


def gathered_whole(counts: Counts, numbers: Numbers, sharding: Sharding) -> int:
    """The whole model where ranks that hold shares gather it for a rollout."""
    if sharding.fsdp2:
        return (counts.total + counts.adapters) * numbers.gathered
    return weights_whole(counts, numbers) if sharding.splits_weights else 0


def weights_whole(counts: Counts, numbers: Numbers) -> int:
    """The weights of the whole model with its adapters."""
    plain = (counts.total - counts.quantized) * numbers.weight
    return plain + weighted_bits(counts.quantized) + counts.adapters * numbers.trained


def reference(counts: Counts, numbers: Numbers, sharding: Sharding) -> int:
    """The second model of a KL penalty, held as the first one's weights are."""
    if sharding.splits_weights and sharding.offload_parameters:
        return 0
    whole = counts.reference * numbers.weight
    return _share(whole, sharding.ranks if sharding.splits_weights else 1)


def gradients(counts: Counts, numbers: Numbers, sharding: Sharding) -> int:
    """Gradients after the last micro-batch, in the dtype of what trains.

    ZeRO-2, 3 and FSDP2 keep a share of them; on the CPU where the optimizer is. DDP keeps its
    buckets besides, twice as much with several ranks, unless ``gradient_as_bucket_view`` is on.
    """
    whole = counts.trainable * numbers.trained
    if sharding.splits_gradients:
        return 0 if sharding.offload_optimizer else _share(whole, sharding.ranks)
    copied = sharding.stage is None and sharding.ranks > 1 and not sharding.bucket_views
    return whole * 2 if copied else whole


def unreduced(counts: Counts, sharding: Sharding) -> int:
    """Gradients between micro-batches where FSDP2 keeps them whole: in float32, on every rank.

    Ranks exchange after the last micro-batch alone. Source: ``FSDPParam`` in torch's
    ``_fully_shard``, ``unsharded_accumulated_grad`` of the reduction's dtype.
    """
    return 4 * counts.trainable if sharding.fsdp2 and sharding.ranks > 1 else 0


def optimizer_states(counts: Counts, numbers: Numbers, sharding: Sharding) -> int:
    """States of the optimizer on the GPU.

    Under DeepSpeed a float32 master and float32 moments, 12 bytes for Adam, a share on each rank.
    Without it the moments alone, in the weights' own dtype: bf16-true keeps bfloat16 moments. Under
    FSDP2 a share of those.
    """
    if sharding.stage is None:
        whole = counts.trainable * numbers.trained * numbers.moments
        return _share(whole, sharding.ranks if sharding.fsdp2 else 1)
    if sharding.offload_optimizer:
        return 0
    return _share(counts.trainable * 4 * (1 + numbers.moments), sharding.ranks)


def optimizer_step(counts: Counts, numbers: Numbers, sharding: Sharding) -> int:
    """What the step takes for a moment: the gradient in float32 and a temporary of its size.

    The second is what torch's foreach implementations take; an estimate.
    """
    if sharding.stage is None:
        return _share(counts.trainable * numbers.trained, sharding.ranks if sharding.fsdp2 else 1)
    if sharding.offload_optimizer:
        return 0
    return _share(2 * 4 * counts.trainable, sharding.ranks)


def offloaded(counts: Counts, numbers: Numbers, sharding: Sharding) -> int:
    """CPU memory of one rank: master, moments and float32 gradients; weights where they are too."""
    total = 0
    if sharding.offload_optimizer:
        total += _share(counts.trainable * 4 * (2 + numbers.moments), sharding.ranks)
    if sharding.splits_weights and sharding.offload_parameters:
        whole = weights_whole(counts, numbers) + counts.reference * numbers.weight
        total += _share(whole, sharding.ranks)
    return total


def communication(counts: Counts, numbers: Numbers, sharding: Sharding) -> int:
    """Buffers of reducing and gathering; an estimate.

    Source: DeepSpeed's configuration reference on ``overlap_comm``: 4.5 times the two bucket sizes
    (9 GB for two of 5e8 in 2 bytes). Without overlap, the buckets once. No more than the model.
    """
    if sharding.stage is None or sharding.ranks == 1:
        return 0
    elements = sharding.reduce_bucket + (0 if sharding.splits_weights else sharding.gather_bucket)
    elements = min(elements, 2 * counts.trainable)
    return int(elements * (4.5 if sharding.overlap else 1) * numbers.trained)


def gathered_layers(counts: Counts, numbers: Numbers, sharding: Sharding) -> int:
    """Weights that are gathered during a forward or backward pass; an estimate.

    ZeRO-3: two layers (the one at work and the next), what is fetched ahead, and those kept for
    reuse up to ``stage3_max_live_parameters``. FSDP2: what is outside of layers all the time, the
    layer at work, the next one twice (as it comes and as it is copied), and the float32 gradients
    of one of them on their way.
    """
    if not sharding.splits_weights:
        return 0
    if sharding.fsdp2:
        elements = min(counts.rest + 3 * counts.largest_block, counts.total)
        sent = 4 * min(max(counts.rest, counts.largest_block), counts.trainable)
        return elements * numbers.gathered + sent
    elements = max(2 * counts.largest_layer + PREFETCH, sharding.max_live)
    return min(elements, counts.total) * numbers.weight


def moments_of(class_path: str, arguments: dict[str, object]) -> int:
    """State tensors of a parameter's size that an optimizer keeps: 2 for AdamW, 0 for plain SGD.

    torch's optimizers are asked, by one step on two numbers. Others are taken to keep two.
    """
    module, name = class_path.rsplit(".", 1)
    if not module.startswith("torch.optim"):
        return 2
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    optimizer = getattr(torch.optim, name)([parameter], **arguments)
    optimizer.step()
    state = optimizer.state[parameter].values()
    return sum(isinstance(value, torch.Tensor) and value.numel() == 2 for value in state)


def _share(whole: int, ranks: int) -> int:
    return -(-whole // ranks)
