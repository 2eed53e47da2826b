"""The arithmetic of a run: prompts, responses, micro-batches, updates, tokens.

Every prompt is taken to be as long as it may be and every response to reach ``max_new_tokens``:
what a run has to be ready for. Shape letters: P prompts, G group size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sapo_vl.modules.batching import MicroBatch, deal_prompts, rows_of
from sapo_vl.modules.collect import hold_back
from sapo_vl.plan.activations import MicroBatchSize
from sapo_vl.plan.settings import RunSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Tokens of a prompt with its images, of these images alone, and of a response."""

    prompt: int
    image: int
    response: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """Counts of one rank where not said otherwise."""

    prompts: int  # of an iteration, spares left out
    responses: int  # of an iteration
    micro_batches: tuple[int, ...]  # of each update
    update_tokens: int  # through the layers in all updates of an iteration, once
    reference_tokens: int  # through the layers of the reference policy in an iteration
    rollout_tokens: int  # read and drawn in an iteration, spares included
    passes: int  # of the sampler
    optimizer_steps: int | None  # of the run; None: no end
    iterations: int | None
    prompts_of_run: int | None  # over all ranks
    responses_of_run: int | None  # over all ranks


def arithmetic(run: RunSettings, lengths: Lengths, *, packed: bool) -> Arithmetic:
    """Work one iteration and the run out, with the module's own dealing and cutting.

    Raises:
        ValueError: prompts that do not divide over ranks, too few for the updates, or all spare.
    """
    ranks, group = run.sharding.ranks, run.sampling.group_size
    drawn = prompts_per_rank(run.prompts, ranks)
    kept = drawn
    if run.spare_prompts:
        kept = len(hold_back([""] * drawn, run.spare_prompts)[0])
    updates = deal_prompts([""] * kept, run.updates)
    cuts = [
        _cut(run.micro_batch, prompts, kept, group, lengths, packed=packed) for prompts in updates
    ]
    sizes = [size(part, group, lengths, packed=packed) for parts in cuts for part in parts]
    scored = []
    if run.penalty:  # all responses at once, not update by update
        scored = _cut(run.micro_batch, list(range(kept)), kept, group, lengths, packed=packed)
    steps = run.max_steps if run.max_steps >= 0 else None
    iterations = steps // run.updates if steps is not None else None
    passes = 1
    if run.sampler is not None:
        passes = len(run.sampler.passes([lengths.prompt] * drawn, group, lengths.response))
    return Arithmetic(
        prompts=kept,
        responses=kept * group,
        micro_batches=tuple(map(len, cuts)),
        update_tokens=sum(s.tokens for s in sizes),
        reference_tokens=sum(size(x, group, lengths, packed=packed).tokens for x in scored),
        rollout_tokens=drawn * (lengths.prompt + group * lengths.response),
        passes=passes,
        optimizer_steps=steps,
        iterations=iterations,
        prompts_of_run=iterations * run.prompts if iterations is not None else None,
        responses_of_run=iterations * run.prompts * group if iterations is not None else None,
    )


def prompts_per_rank(prompts: int, ranks: int) -> int:
    """Prompts of an iteration on each rank.

    Raises:
        ValueError: they do not divide.
    """
    if prompts % ranks:
        raise ValueError(
            f"data.prompts_per_iteration is {prompts}; with {ranks} ranks it must be a multiple of "
            f"{ranks}, so that every rank does the same work"
        )
    return prompts // ranks


def largest_micro_batch(
    run: RunSettings, lengths: Lengths, *, packed: bool, limit: MicroBatch | None = None
) -> MicroBatchSize:
    """The micro-batch with most tokens that one rank meets in an update."""
    group = run.sampling.group_size
    drawn = max(1, run.prompts // run.sharding.ranks)
    prompts = list(range(max(1, (drawn - run.spare_prompts) // run.updates)))
    given = (limit or run.micro_batch, prompts, len(prompts), group, lengths)
    parts = _cut(*given, packed=packed)
    return max(
        (size(part, group, lengths, packed=packed) for part in parts), key=lambda s: s.tokens
    )


def size(rows: torch.Tensor, group: int, lengths: Lengths, *, packed: bool) -> MicroBatchSize:
    """The sizes of a micro-batch of these rows."""
    return MicroBatchSize(
        prompts=len(torch.unique(rows // group)),
        rows=len(rows),
        prompt_tokens=lengths.prompt,
        response_tokens=lengths.response,
        image_tokens=lengths.image,
        packed=packed,
    )


def _cut(
    limit: MicroBatch, prompts: list[int], of: int, group: int, lengths: Lengths, *, packed: bool
) -> list[torch.Tensor]:
    rows = of * group
    return limit.cut(
        rows_of(prompts, group),
        torch.full((rows,), lengths.response),
        torch.arange(rows) // group,
        torch.full((of,), lengths.prompt),
        shared=packed,
    )
