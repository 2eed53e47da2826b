"""How a batch gets from a loader's worker to the trainer: in a few large tensors.

Torch hands every tensor over in a file descriptor of its own, and many systems allow a process 1024
of them: a worker that sends a few hundred prompts would fail, and the loader wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from sapo_vl.types import Prompt, PromptBatch, PromptInputs, Skip

Lengths = dict[str, int]


def pack(batch: PromptBatch) -> tuple[Callable[..., PromptBatch], tuple[Any, ...]]:
    """Say how to make the batch again out of one tensor for each kind of input, as pickle does."""
    rows = [
        {"input_ids_S": x.input_ids_S, "mm_token_type_ids_S": x.mm_token_type_ids_S, **x.media}
        for x in batch.inputs
    ]
    names = dict.fromkeys(name for row in rows for name in row)
    joined = {name: torch.cat([row[name] for row in rows if name in row]) for name in names}
    lengths = [{name: len(value) for name, value in row.items()} for row in rows]
    return unpack, (batch.prompts, joined, lengths, batch.tasks, batch.skipped)


def unpack(
    prompts: Sequence[Prompt],
    joined: Mapping[str, Tensor],
    lengths: Sequence[Lengths],
    tasks: Sequence[str],
    skipped: Sequence[Skip],
) -> PromptBatch:
    """Make the batch again; its inputs are views of the large tensors."""
    pieces = {
        name: iter(value.split([row[name] for row in lengths if name in row]))
        for name, value in joined.items()
    }
    inputs = []
    for row in lengths:
        media = {name: next(pieces[name]) for name in row}
        inputs.append(
            PromptInputs(
                input_ids_S=media.pop("input_ids_S"),
                mm_token_type_ids_S=media.pop("mm_token_type_ids_S"),
                media=media,
            )
        )
    return PromptBatch(prompts, inputs, tasks, skipped)
