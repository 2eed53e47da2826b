"""What a rollout with the in-process sampler holds besides the states of training."""

from __future__ import annotations

from dataclasses import dataclass

from sapo_vl.plan import saved
from sapo_vl.plan.shape import Shape, TextShape
from sapo_vl.rollout import Sampler


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSize:
    """One pass of the sampler: ``RolloutSize(prompts=16, group=16, ...)``."""

    prompts: int
    group: int
    prompt_tokens: int
    new_tokens: int
    image_tokens: int  # of each prompt

    @property
    def rows(self) -> int:
        """Responses decoded at a time."""
        return self.prompts * self.group


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutMemory:
    """Bytes of one pass; reading the prompts comes before the cache has grown."""

    cache: int
    sampling: int
    reading: int
    vision: int

    @property
    def peak(self) -> int:
        """The larger of reading the prompts and decoding the last token."""
        return max(self.cache + self.sampling, self.reading + self.vision)


NOTHING = RolloutMemory(cache=0, sampling=0, reading=0, vision=0)  # others sample


def pass_size(
    prompts: int,
    group: int,
    sampler: Sampler | None,
    *,
    prompt_tokens: int,
    new_tokens: int,
    image_tokens: int,
) -> RolloutSize:
    """The largest pass that the sampler makes of these prompts; all in one without a sampler."""
    passes = [(list(range(prompts)), range(group))]
    if sampler is not None:
        passes = sampler.passes([prompt_tokens] * prompts, group, new_tokens)
    together, part = max(
        passes, key=lambda one: len(one[0]) * (prompt_tokens + len(one[1]) * new_tokens)
    )
    return RolloutSize(
        prompts=len(together),
        group=len(part),
        prompt_tokens=prompt_tokens,
        new_tokens=new_tokens,
        image_tokens=image_tokens,
    )


def rollout_memory(shape: Shape, run: RolloutSize, size: int) -> RolloutMemory:
    """Sum of the terms below."""
    return RolloutMemory(
        cache=rollout_cache(shape.text, run, size),
        sampling=sampling_buffers(shape.text.vocabulary, run.rows, size)
        + attention_scores(shape.text, run),
        reading=reading_prompts(shape.text, run.prompts, run.prompt_tokens, size),
        vision=run.prompts
        * run.image_tokens
        * shape.vision.merge**2
        * saved.vision_block(shape.vision, size),
    )


def rollout_cache(shape: TextShape, run: RolloutSize, size: int) -> int:
    """Keys and values of each prompt once and of each response, and one layer's while it grows.

    Source: ``GroupCache`` in ``sapo_vl/policy/group_cache.py``. Where layers have delta nets, each
    row has a copy of its prompt's (``RowDecoder`` in ``decoding.py``).
    """
    if shape.delta:
        return key_value_cache(shape, run.rows, run.prompt_tokens + run.new_tokens, size)
    token = 2 * shape.key_value_heads * shape.head_dim * size
    prompts, responses = run.prompts * run.prompt_tokens, run.rows * run.new_tokens
    return token * (shape.attention_layers * (prompts + responses) + responses)


def attention_scores(shape: TextShape, run: RolloutSize) -> int:
    """Scores of one layer over a whole row in float32, their softmax and their two parts.

    An estimate. Source: ``GroupCache.attend``; no model with delta nets has it.
    """
    if shape.delta:
        return 0
    length = run.prompt_tokens + run.new_tokens
    return 3 * run.rows * shape.heads * length * 4


def key_value_cache(shape: TextShape, rows: int, length: int, size: int) -> int:
    """Keys and values of every row and position, and once more one layer's while it grows.

    2 x layers x key-value heads x head_dim numbers a token (as in "PagedAttention", arXiv
    2309.06180, section 3); ``DynamicCache`` concatenates layer by layer. A delta net has a state of
    fixed size instead, held in float32.
    """
    layer = rows * length * 2 * shape.key_value_heads * shape.head_dim * size
    total = (shape.attention_layers + 1) * layer
    if shape.delta:
        state = shape.delta.value_heads * shape.delta.key_dim * shape.delta.value_dim
        total += shape.delta_layers * rows * state * 4
    return total


def sampling_buffers(vocabulary: int, rows: int, size: int) -> int:
    """Logits of one token a row, and four float32 copies on the way to a draw; an estimate.

    Source: ``masked_log_softmax`` and ``entropy`` in ``sapo_vl/policy/head.py``, ``pick`` in
    ``sapo_vl/rollout/draws.py``.
    """
    return rows * vocabulary * (size + 16)


def reading_prompts(shape: TextShape, prompts: int, length: int, size: int) -> int:
    """Prompts of one pass through one layer, their cache, and the mask over their padding.

    Without gradient a layer's tensors come and go: half of what training would save is taken as
    the working set; an estimate.
    """
    tokens = prompts * length
    working = tokens * saved.decoder_layer(shape, size) // 2
    keys = tokens * saved.repeated_keys(shape, size)
    mask = prompts * length**2 * (1 + size)
    return working + keys + mask + key_value_cache(shape, prompts, length, size)
