"""What one micro-batch of an update holds besides weights, gradients and optimizer states.

A micro-batch has some prompts and rows (responses). Packed, every prompt is read once and the
responses follow without padding; otherwise each row is its prompt and its response.
"""

from __future__ import annotations

from dataclasses import dataclass

from sapo_vl.plan import saved
from sapo_vl.plan.shape import Shape, TextShape, VisionShape


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatchSize:
    """``MicroBatchSize(prompts=1, rows=8, prompt_tokens=1300, response_tokens=256, ...)``."""

    prompts: int
    rows: int
    prompt_tokens: int
    response_tokens: int
    image_tokens: int  # of each prompt, all its images together
    packed: bool

    @property
    def tokens(self) -> int:
        """Tokens that go through the layers."""
        if self.packed:
            return self.prompts * self.prompt_tokens + self.scored
        return self.rows * (self.prompt_tokens + self.response_tokens)

    @property
    def scored(self) -> int:
        """Response tokens that go through the head."""
        return self.rows * self.response_tokens

    @property
    def key_tokens(self) -> int:
        """Tokens whose keys attention copies per query head: all a row attends to."""
        return self.rows * (self.prompt_tokens + self.response_tokens)

    def patches(self, shape: VisionShape) -> int:
        """Patches that go through the vision tower: each distinct prompt's, once."""
        return self.prompts * self.image_tokens * shape.merge**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """How the policy scores: bytes of a number, checkpointing, the head's chunk, what trains."""

    size: int
    checkpointing: bool
    head_chunk: int
    trains_vision: bool = False
    trains_merger: bool = False
    copies_keys: bool = True  # SDPA with a mask on a GPU; false where kernels group heads


@dataclass(frozen=True, slots=True, kw_only=True)
class Activations:
    """Bytes of one update's forward and backward pass; estimates but for ``kept``."""

    kept: int  # by the decoder layers, until their backward pass
    layer: int  # while one layer is computed again (checkpointing) or its gradients are formed
    head: int  # one chunk of logits and probabilities
    vision: int  # kept by tower and mergers, until their backward pass
    block: int  # while one block of the tower works
    ends: int  # rotary tables, last norm, what the head reads

    @property
    def peak(self) -> int:
        """Tower, head and layers work one after the other; what the head read is gone by then."""
        working = max(self.ends + self.head, self.layer)
        return self.vision + max(self.block, self.kept + working)

    @property
    def saved(self) -> int:
        """All that autograd holds between forward and backward, the head's chunk left out."""
        return self.kept + self.vision + self.ends


def update_activations(shape: Shape, batch: MicroBatchSize, scoring: Scoring) -> Activations:
    """Sum of the terms below."""
    return Activations(
        kept=kept_by_layers(shape.text, batch, scoring),
        layer=layer_working(shape.text, batch, scoring),
        head=head_chunk(shape.text.vocabulary, batch.scored, scoring),
        vision=kept_by_vision(shape.vision, batch, scoring),
        block=batch.patches(shape.vision) * saved.vision_block(shape.vision, scoring.size),
        ends=ends(shape, batch, scoring.size),
    )


def layer_saved(
    shape: TextShape, batch: MicroBatchSize, scoring: Scoring, *, delta: bool = False
) -> int:
    """What one decoder layer saves for its backward pass (``saved.py``, times the tokens)."""
    total = batch.tokens * saved.decoder_layer(shape, scoring.size, delta=delta)
    if delta:
        assert shape.delta is not None
        length = batch.prompt_tokens + batch.response_tokens
        filled = -(-length // saved.CHUNK) * saved.CHUNK
        total += batch.rows * filled * saved.delta_rule(shape.delta)
    elif scoring.copies_keys:
        total += batch.key_tokens * saved.repeated_keys(shape, scoring.size)
    elif batch.packed:  # the prompt's keys once more for every row
        keys = 2 * scoring.size * shape.key_value_heads * shape.head_dim
        total += batch.key_tokens * keys
    return total


def kept_by_layers(shape: TextShape, batch: MicroBatchSize, scoring: Scoring) -> int:
    """What the decoder layers keep: all they save, or with checkpointing their inputs alone.

    Source of the second: ``GradientCheckpointingLayer`` in transformers' ``modeling_layers.py``.
    """
    if scoring.checkpointing:
        return shape.layers * batch.tokens * shape.hidden * scoring.size
    total = shape.attention_layers * layer_saved(shape, batch, scoring)
    if shape.delta_layers:
        total += shape.delta_layers * layer_saved(shape, batch, scoring, delta=True)
    return total


def layer_working(shape: TextShape, batch: MicroBatchSize, scoring: Scoring) -> int:
    """The working set of the largest layer in the backward pass; an estimate.

    Gradients of the feed-forward's product and of two hidden states, one more in float32 (the
    norm's); with experts one of every pair's output. What comes after takes the place of what is
    done with. With checkpointing also all that the layer saves, computed again.
    """
    width = shape.mlp
    if shape.experts:
        pairs = shape.experts.per_token * (shape.experts.width + shape.hidden)
        width = pairs + shape.experts.shared_width
    gradients = batch.tokens * (scoring.size * (width + 2 * shape.hidden) + 4 * shape.hidden)
    if not scoring.checkpointing:
        return gradients
    kinds = [layer_saved(shape, batch, scoring)]
    if shape.delta_layers:
        kinds.append(layer_saved(shape, batch, scoring, delta=True))
    return gradients + max(kinds)


def head_chunk(vocabulary: int, scored: int, scoring: Scoring) -> int:
    """Logits of one chunk, their float32 copy, and the probabilities in float32.

    Source: ``sapo_vl/policy/head.py``: forward (logits, scaled logits, probabilities) and backward
    (probabilities, their gradient, its copy in the weights' dtype) come to the same.
    """
    return min(scored, scoring.head_chunk) * vocabulary * (scoring.size + 8)


def kept_by_vision(shape: VisionShape, batch: MicroBatchSize, scoring: Scoring) -> int:
    """What tower and mergers keep; nothing where frozen, since pixels have no gradient."""
    size, per_patch = scoring.size, 0
    if scoring.trains_vision or scoring.trains_merger:
        per_patch += saved.merger(shape, size)
    if scoring.trains_vision:
        inputs = shape.hidden * size
        block = inputs if scoring.checkpointing else saved.vision_block(shape, size)
        per_patch += saved.patches(shape, size) + shape.layers * block
    return batch.patches(shape) * per_patch


def ends(shape: Shape, batch: MicroBatchSize, size: int) -> int:
    """Rotary tables, the last norm, the head's input."""
    text = shape.text
    norm = saved.rms_norm(text.hidden, size, zero_centred=text.zero_centred)
    tokens = batch.tokens * (norm + 2 * size * text.head_dim)
    return tokens + batch.scored * (size * text.hidden + 16)
