from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sapo_vl.modules.batching import MicroBatch, deal_prompts, rows_of

LENGTH_B = torch.tensor([5, 50, 4, 6, 7, 3, 48, 2])  # two groups of four
PROMPT_B = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
SIZE_P = torch.tensor([20, 30])


def padded(part: Tensor) -> int:
    """Tokens that a micro-batch puts through the model."""
    prompts = set(PROMPT_B[part].tolist())
    return len(prompts) * int(SIZE_P[list(prompts)].max()) + len(part) * int(LENGTH_B[part].max())


def test_prompts_are_dealt_with_every_task_in_each_part() -> None:
    tasks = ["a", "b", "a", "b", "c", "a", "c", "b"]
    parts = deal_prompts(tasks, 2)
    assert sorted(i for part in parts for i in part) == list(range(8))
    assert all({tasks[i] for i in part} == {"a", "b", "c"} for part in parts)
    assert {len(part) for part in parts} == {4}


def test_rows_of_prompts() -> None:
    assert rows_of([0, 2], 3).tolist() == [0, 1, 2, 6, 7, 8]


def test_cut_by_responses() -> None:
    cut = MicroBatch(responses=3).cut(torch.arange(8), LENGTH_B, PROMPT_B, SIZE_P)
    assert [part.tolist() for part in cut] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert MicroBatch().cut(torch.arange(0), LENGTH_B, PROMPT_B, SIZE_P) == []


@pytest.mark.parametrize("budget", [1, 40, 80, 130, 1000])
def test_cut_by_tokens(budget: int) -> None:
    parts = MicroBatch(responses=100, tokens=budget).cut(
        torch.arange(8), LENGTH_B, PROMPT_B, SIZE_P
    )
    assert sorted(row for part in parts for row in part.tolist()) == list(range(8))
    for part in parts:
        assert padded(part) <= budget or len(part) == 1
    assert all(
        len(part) <= 2
        for part in MicroBatch(responses=2, tokens=1000).cut(
            torch.arange(8), LENGTH_B, PROMPT_B, SIZE_P
        )
    )


def test_a_token_budget_keeps_long_and_short_responses_apart() -> None:
    by_count = MicroBatch(responses=2).cut(torch.arange(8), LENGTH_B, PROMPT_B, SIZE_P)
    by_tokens = MicroBatch(responses=100, tokens=80).cut(
        torch.arange(8), LENGTH_B, PROMPT_B, SIZE_P
    )
    assert len(by_tokens) <= len(by_count)
    assert sum(map(padded, by_tokens)) < sum(map(padded, by_count))


@pytest.mark.parametrize(("name", "value"), [("responses", 0), ("tokens", -1)])
def test_impossible_limits_are_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"micro_batch.{name}"):
        MicroBatch(**{name: value})
