"""Bytes that one layer keeps for its backward pass, per token: one function a kind of layer.

Read off the code of transformers 5.24 (``models/qwen*/modeling_*.py``) operation by operation, as
autograd saves them: every operand of a product, every input of a linear layer, once per storage.
``measure.py`` checks the sums against the tensors that autograd really holds. ``size`` is the bytes
of a number in the dtype that activations have; norms and softmaxes work in float32 (4 bytes).
Weights are not counted. A frozen layer keeps a little less: these are the figures of a trained one.
"""

from __future__ import annotations

from sapo_vl.plan.shape import DeltaNet, Experts, TextShape, VisionShape

CHUNK = 64  # tokens per chunk of the delta rule


def rms_norm(width: int, size: int, *, zero_centred: bool = False) -> int:
    """An RMS norm: its input in float32, 1/rms, and the normalised input.

    Source: ``Qwen3VLTextRMSNorm.forward``; ``Qwen3_5RMSNorm`` keeps the last in float32.
    """
    return 4 * width + 4 + (4 if zero_centred else size) * width


def layer_norm(width: int, size: int) -> int:
    """A layer norm: its input, mean and 1/deviation. Source: ``nn.LayerNorm``."""
    return size * width + 8


def attention(shape: TextShape, size: int) -> int:
    """Attention with its projections, without scores (flash or memory-efficient kernels).

    Source: ``Qwen3VLTextAttention``, ``Qwen3_5Attention``: the input; queries, keys, values, output
    and the log-sum-exp in float32; the norms of queries and keys; an output gate, the gated output
    and the output in the layout of the gate.
    """
    queries = shape.heads * shape.head_dim
    keys = shape.key_value_heads * shape.head_dim
    total = size * (shape.hidden + 2 * queries + 2 * keys) + 4 * shape.heads
    if shape.qk_norm:
        heads = shape.heads + shape.key_value_heads
        total += heads * rms_norm(shape.head_dim, size, zero_centred=shape.zero_centred)
    if shape.gated:
        total += 3 * size * queries
    return total


def repeated_keys(shape: TextShape, size: int) -> int:
    """Keys and values copied for every query head.

    Source: ``repeat_kv`` in transformers' ``integrations/sdpa_attention.py``: what SDPA on a GPU
    takes where there is a mask, as there is over padded rows and over a shared prompt.
    """
    return 2 * size * shape.heads * shape.head_dim


def gated_mlp(hidden: int, width: int, size: int) -> int:
    """A gated feed-forward: its input, gate, activated gate, up, and their product.

    Source: ``Qwen3VLTextMLP.forward``.
    """
    return size * (hidden + 4 * width)


def plain_mlp(hidden: int, width: int, size: int) -> int:
    """A feed-forward of two layers: its input, before and after the activation.

    Source: ``Qwen3VLVisionMLP.forward``.
    """
    return size * (hidden + 2 * width)


def experts(hidden: int, shape: Experts, size: int) -> int:
    """A sparse feed-forward: router, and a copy of the token for each expert it goes to.

    Source: ``grouped_mm_experts_forward`` in transformers' ``integrations/moe.py``: per pair of
    token and expert the input, gate and up in one, activated gate, product, output, weight and
    three int64 indices; the router's probabilities, its choice and their sum.
    """
    pair = size * (2 * hidden + 4 * shape.width + 1) + 3 * 8
    router = 4 * shape.count + 8 * shape.per_token + 4 + 4 * shape.per_token
    total = size * hidden + router + shape.per_token * pair
    if shape.shared_width:
        total += size * (4 * shape.shared_width + hidden + 1)
    return total


def delta_net(hidden: int, shape: DeltaNet, size: int) -> int:
    """A gated delta net around its rule: projections, convolution, gated norm.

    Source: ``Qwen3_5GatedDeltaNet.forward``: the input, the convolution's input and output, the
    two gates, the norm and its gate in float32, its output.
    """
    values = shape.value_heads * shape.value_dim
    convolved = 2 * shape.key_heads * shape.key_dim + values
    gates = (size + 3 * 4) * shape.value_heads
    return size * (hidden + 2 * convolved) + gates + (3 * 4 + 3 * size) * values


def delta_rule(shape: DeltaNet) -> int:
    """The delta rule in transformers' own torch code, per token of a row filled up to 64.

    Source: ``torch_chunk_gated_delta_rule``, all in float32: eight tensors of keys' width and three
    of values', the decays within a chunk and its triangular system (64 numbers a head, five times),
    a state per chunk. The kernels of flash-linear-attention keep less.
    """
    heads = shape.value_heads
    keys, values = heads * shape.key_dim, heads * shape.value_dim
    total = 8 * keys + 3 * values + 5 * heads * CHUNK + 6 * heads
    return 4 * (total + keys * shape.value_dim // CHUNK)


def vision_block(shape: VisionShape, size: int) -> int:
    """A block of the vision tower, per patch.

    Source: ``Qwen3VLVisionBlock`` and ``Qwen2_5_VLVisionBlock``: two norms; the input, queries and
    keys after rotation, the projection they come from, output (twice: image by image, and joined)
    and log-sum-exp of the attention; the feed-forward.
    """
    if shape.gated_mlp:
        norms = 2 * rms_norm(shape.hidden, size)
        mlp = gated_mlp(shape.hidden, shape.mlp, size)
    else:
        norms = 2 * layer_norm(shape.hidden, size)
        mlp = plain_mlp(shape.hidden, shape.mlp, size)
    return norms + size * 8 * shape.hidden + 4 * shape.heads + mlp


def merger(shape: VisionShape, size: int) -> int:
    """All mergers, per patch: the norm, then three tensors each as wide as merge x merge patches.

    Source: ``Qwen3VLVisionPatchMerger`` and ``Qwen2_5_VLPatchMerger``.
    """
    norm = rms_norm if shape.gated_mlp else layer_norm
    return norm(shape.hidden, size) + (1 + shape.deepstack) * 3 * size * shape.hidden


def patches(shape: VisionShape, size: int) -> int:
    """The patches and their positions, per patch. Source: ``Qwen3VLVisionPatchEmbed``."""
    return size * 3 * shape.temporal * shape.patch**2 + 48 + 8 * (shape.hidden // shape.heads)


def decoder_layer(shape: TextShape, size: int, *, delta: bool = False) -> int:
    """A decoder layer: two norms, attention or a delta net (without its rule), feed-forward."""
    if delta:
        assert shape.delta is not None
        mixer = delta_net(shape.hidden, shape.delta, size)
    else:
        mixer = attention(shape, size)
    norms = 2 * rms_norm(shape.hidden, size, zero_centred=shape.zero_centred)
    return norms + mixer + feed_forward(shape, size)


def feed_forward(shape: TextShape, size: int) -> int:
    """The dense or the sparse feed-forward of a decoder layer."""
    if shape.experts:
        return experts(shape.hidden, shape.experts, size)
    return gated_mlp(shape.hidden, shape.mlp, size)
