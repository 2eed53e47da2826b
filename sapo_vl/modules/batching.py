"""Cut a rollout into the mini-batches of an iteration and the micro-batches of an update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)  # no slots: the command line reads defaults from __dict__
class MicroBatch:
    """How much goes through the model at a time; changes memory and time, never the gradient.

    Args:
        responses: most responses in one forward and backward.
        tokens: most tokens in one, as the model computes them. Where a prompt is shared (see
            policy.share_prefix) nothing is padded: each distinct prompt and each response counts
            its own tokens. Otherwise every response counts the longest prompt and the longest
            response of its micro-batch, so that long and short ones are kept apart. 0: no limit.
    """

    responses: int = 16
    tokens: int = 0

    def __post_init__(self) -> None:
        if self.responses < 1:
            raise ValueError(f"micro_batch.responses is {self.responses}; it must be at least 1")
        if self.tokens < 0:
            raise ValueError(f"micro_batch.tokens is {self.tokens}; it must be 0 (off) or more")

    def cut(
        self,
        rows: Tensor,
        length_B: Tensor,
        prompt_B: Tensor,
        size_P: Tensor,
        *,
        shared: bool,
    ) -> list[Tensor]:
        """Cut rows of a rollout into micro-batches.

        Args:
            rows: int64; the rows to cut, prompt after prompt.
            length_B: response tokens of every row of the rollout.
            prompt_B: the prompt of every row.
            size_P: tokens of every prompt.
            shared: each prompt is computed once in a micro-batch, and nothing is padded.

        A row that is over the limit by itself is a micro-batch of its own.
        """
        if not self.tokens:
            return list(rows.split(self.responses)) if len(rows) else []
        length_of, prompt_of = length_B.tolist(), prompt_B.tolist()
        batches = _Batches(self, length_of, prompt_of, size_P.tolist(), shared)
        for group in _by_length(rows, length_of, prompt_of):
            # A shared prompt that is split over micro-batches is computed in each of them.
            if shared and not batches.fits(group):
                batches.start()
            for row in group:
                if not batches.fits([row]):
                    batches.start()
                batches.add(row)
        return [torch.tensor(part) for part in batches.parts if part]


class _Batches:
    """Micro-batches, the last of which is being filled."""

    def __init__(
        self,
        limit: MicroBatch,
        length_of: list[int],
        prompt_of: list[int],
        size_of: list[int],
        shared: bool,
    ) -> None:
        self.limit, self.shared = limit, shared
        self.length_of, self.prompt_of, self.size_of = length_of, prompt_of, size_of
        self.parts: list[list[int]] = [[]]

    def start(self) -> None:
        self.parts.append([])

    def add(self, row: int) -> None:
        self.parts[-1].append(row)

    def fits(self, more: list[int]) -> bool:
        part = [*self.parts[-1], *more]
        return len(part) <= self.limit.responses and self._tokens(part) <= self.limit.tokens

    def _tokens(self, part: list[int]) -> int:
        lengths = [self.length_of[row] for row in part]
        sizes = [self.size_of[prompt] for prompt in {self.prompt_of[row] for row in part}]
        if self.shared:
            return sum(sizes) + sum(lengths)
        return len(part) * (max(sizes) + max(lengths))


def _by_length(rows: Tensor, length_of: list[int], prompt_of: list[int]) -> list[list[int]]:
    """Groups by falling longest response, in each the long rows first."""
    groups: dict[int, list[int]] = {}
    for row in rows.tolist():
        groups.setdefault(prompt_of[row], []).append(row)
    for group in groups.values():
        group.sort(key=lambda row: (-length_of[row], row))
    return sorted(groups.values(), key=lambda group: -length_of[group[0]])


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
