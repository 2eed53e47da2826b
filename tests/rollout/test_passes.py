"""How the sampler cuts a batch into passes: limits kept, like lengths together, nothing lost."""

from __future__ import annotations

from itertools import product

import pytest

from sapo_vl.rollout import Sampler

LENGTHS = [30, 5, 12, 31, 5, 400]


@pytest.mark.parametrize(
    ("max_rows", "max_tokens", "group_size"),
    list(product((1, 3, 8, 256), (0, 50, 450, 5000), (1, 2, 8))),
)
def test_every_response_is_in_one_pass_and_limits_hold(
    max_rows: int, max_tokens: int, group_size: int
) -> None:
    passes = Sampler(max_rows, max_tokens).passes(LENGTHS, group_size, max_new_tokens=10)
    drawn = [(i, k) for prompts, part in passes for i in prompts for k in part]
    assert sorted(drawn) == list(product(range(len(LENGTHS)), range(group_size)))
    for prompts, part in passes:
        rows = len(prompts) * len(part)
        tokens = len(prompts) * max(LENGTHS[i] for i in prompts) + 10 * rows
        assert rows <= max_rows
        assert not max_tokens or tokens <= max_tokens or rows == 1


def test_prompts_of_like_length_share_a_pass() -> None:
    passes = Sampler(max_rows=4).passes(LENGTHS, 2, max_new_tokens=10)
    assert [prompts for prompts, _ in passes] == [[5, 3], [0, 2], [1, 4]]


def test_a_group_is_whole_where_it_fits() -> None:
    assert Sampler(max_tokens=500).passes([400], 8, 10) == [([0], range(8))]
    assert Sampler(max_tokens=450).passes([400], 8, 10) == [([0], range(5)), ([0], range(5, 8))]
