from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sapo_vl.modules.batching import MicroBatch, deal_prompts, rows_of

LENGTH_B = torch.tensor([5, 50, 4, 6, 7, 3, 48, 2])  # two groups of four
PROMPT_B = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
SIZE_P = torch.tensor([20, 30])


def computed(part: Tensor, shared: bool) -> int:
    """Tokens that a micro-batch puts through the model."""
    own = PROMPT_B[part]
    if shared:
        return int(SIZE_P[own.unique()].sum() + LENGTH_B[part].sum())
    return len(part) * int(SIZE_P[own].max() + LENGTH_B[part].max())


def cut(shared: bool, **limits: int) -> list[Tensor]:
    rows = torch.arange(8)
    return MicroBatch(**limits).cut(rows, LENGTH_B, PROMPT_B, SIZE_P, shared=shared)


def test_prompts_are_dealt_with_every_task_in_each_part() -> None:
    tasks = ["a", "b", "a", "b", "c", "a", "c", "b"]
    parts = deal_prompts(tasks, 2)
    assert sorted(i for part in parts for i in part) == list(range(8))
    assert all({tasks[i] for i in part} == {"a", "b", "c"} for part in parts)
    assert {len(part) for part in parts} == {4}


def test_rows_of_prompts() -> None:
    assert rows_of([0, 2], 3).tolist() == [0, 1, 2, 6, 7, 8]


@pytest.mark.parametrize("shared", [True, False])
def test_cut_by_responses(shared: bool) -> None:
    parts = cut(shared, responses=3)
    assert [part.tolist() for part in parts] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    nothing = torch.arange(0)
    assert MicroBatch().cut(nothing, LENGTH_B, PROMPT_B, SIZE_P, shared=shared) == []
    assert MicroBatch(tokens=9).cut(nothing, LENGTH_B, PROMPT_B, SIZE_P, shared=shared) == []


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("budget", [1, 40, 80, 130, 1000])
def test_cut_by_tokens(budget: int, shared: bool) -> None:
    parts = cut(shared, responses=100, tokens=budget)
    assert sorted(row for part in parts for row in part.tolist()) == list(range(8))
    for part in parts:
        assert computed(part, shared) <= budget or len(part) == 1
    assert all(len(part) <= 2 for part in cut(shared, responses=2, tokens=1000))
    if budget == 1000:
        assert len(parts) == 1


def test_without_sharing_a_token_budget_keeps_long_and_short_responses_apart() -> None:
    by_count = cut(False, responses=2)
    by_tokens = cut(False, responses=100, tokens=160)
    assert len(by_tokens) <= len(by_count)
    before, after = (
        sum(computed(part, False) for part in parts) for parts in (by_count, by_tokens)
    )
    assert after < before


def test_a_shared_prompt_is_split_only_where_it_must_be() -> None:
    """85 and 90 tokens: both do not fit in 120, and half of the second would not save a pass."""
    parts = cut(True, responses=100, tokens=120)
    assert [part.tolist() for part in parts] == [[1, 3, 0, 2], [6, 4, 5, 7]]
    assert [computed(part, True) for part in parts] == [85, 90]
    # 120 tokens without sharing are fewer responses: the budget is what the model computes.
    assert len(cut(False, responses=100, tokens=120)) > 2
    # A group of 85 tokens within 75: 20 + 50 + 4, then the prompt again.
    assert [computed(part, True) for part in cut(True, responses=100, tokens=75)][:1] == [70]


@pytest.mark.parametrize(("name", "value"), [("responses", 0), ("tokens", -1)])
def test_impossible_limits_are_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"micro_batch.{name}"):
        MicroBatch(**{name: value})
