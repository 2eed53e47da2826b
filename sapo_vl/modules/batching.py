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
        tokens: most tokens in one, padding counted: each distinct prompt at the longest prompt's
            length and each response at the longest response's. Long and short responses are then
            kept apart. 0: no such limit.
    """

    responses: int = 16
    tokens: int = 0

    def __post_init__(self) -> None:
        if self.responses < 1:
            raise ValueError(f"micro_batch.responses is {self.responses}; it must be at least 1")
        if self.tokens < 0:
            raise ValueError(f"micro_batch.tokens is {self.tokens}; it must be 0 (off) or more")

    def cut(self, rows: Tensor, length_B: Tensor, prompt_B: Tensor, size_P: Tensor) -> list[Tensor]:
        """Cut rows of a rollout into micro-batches.

        Args:
            rows: int64; the rows to cut, prompt after prompt.
            length_B: response tokens of every row of the rollout.
            prompt_B: the prompt of every row.
            size_P: tokens of every prompt.

        A row that is over the limit by itself is a micro-batch of its own.
        """
        if not self.tokens:
            return list(rows.split(self.responses)) if len(rows) else []
        parts: list[list[int]] = []
        cost = _Cost(length_B.tolist(), prompt_B.tolist(), size_P.tolist())
        for row in _by_length(rows, length_B, prompt_B):
            if parts and len(parts[-1]) < self.responses and cost.with_row(row) <= self.tokens:
                parts[-1].append(row)
            else:
                parts.append([row])
                cost.start()
            cost.add(row)
        return [torch.tensor(part) for part in parts]


class _Cost:
    """Padded tokens of the micro-batch that is being filled."""

    def __init__(self, length_B: list[int], prompt_B: list[int], size_P: list[int]) -> None:
        self.length_B, self.prompt_B, self.size_P = length_B, prompt_B, size_P
        self.start()

    def start(self) -> None:
        self.rows, self.longest, self.prompts = 0, 0, set[int]()

    def add(self, row: int) -> None:
        self.rows += 1
        self.longest = max(self.longest, self.length_B[row])
        self.prompts.add(self.prompt_B[row])

    def with_row(self, row: int) -> int:
        prompts = self.prompts | {self.prompt_B[row]}
        longest = max(self.longest, self.length_B[row])
        widest = max(self.size_P[p] for p in prompts)
        return len(prompts) * widest + (self.rows + 1) * longest


def _by_length(rows: Tensor, length_B: Tensor, prompt_B: Tensor) -> list[int]:
    """Rows by falling longest response of their group, groups together, long rows first."""
    longest: dict[int, int] = {}
    for row in rows.tolist():
        prompt = int(prompt_B[row])
        longest[prompt] = max(longest.get(prompt, 0), int(length_B[row]))

    def key(row: int) -> tuple[int, int, int, int]:
        prompt = int(prompt_B[row])
        return (-longest[prompt], prompt, -int(length_B[row]), row)

    return sorted(rows.tolist(), key=key)


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
