"""Cut a rollout into the mini-batches of an iteration and the micro-batches of an update."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor


def deal_prompts(tasks: Sequence[str], parts: int) -> list[list[int]]:
    """Deal prompts (by index) into mini-batches of even size that each hold every task's share.

    Example: ``deal_prompts(["a", "a", "b", "b"], 2) == [[0, 2], [1, 3]]``.

    Raises:
        ValueError: fewer prompts than parts.
    """
    if len(tasks) < parts:
        raise ValueError(
            f"{len(tasks)} prompts on this rank cannot be dealt into {parts} updates; raise "
            "data.prompts_per_iteration or lower model.updates_per_iteration"
        )
    by_task = sorted(range(len(tasks)), key=lambda i: (tasks[i], i))
    return [sorted(by_task[part::parts]) for part in range(parts)]


def rows_of(prompts: Sequence[int], group_size: int) -> Tensor:
    """Rows (int64) of these prompts' responses in a rollout, prompt after prompt."""
    start = torch.tensor(list(prompts), dtype=torch.long)[:, None] * group_size
    return (start + torch.arange(group_size)).flatten()


def micro_batches(rows: Tensor, size: int) -> Iterator[tuple[Tensor, bool]]:
    """Slices of at most ``size`` rows, each with whether it is the last."""
    parts = rows.split(size) if len(rows) else ()
    for index, part in enumerate(parts):
        yield part, index == len(parts) - 1
