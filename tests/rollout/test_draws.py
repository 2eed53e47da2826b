"""Random numbers by name, inverse-CDF picks, and the restrictions of top_p and top_k."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import TopKLogitsWarper, TopPLogitsWarper

from sapo_vl.rollout.draws import penalised, pick, restrict, uniform_draws

BELOW_ONE = torch.nextafter(torch.tensor(1.0, dtype=torch.float64), torch.tensor(0.0)).item()


def logits(rows: int = 64, width: int = 50, seed: int = 0) -> Tensor:
    return 3 * torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


def test_numbers_depend_on_seed_prompt_and_response_alone() -> None:
    together = uniform_draws((7, 3), [10, 11, 12], 4, 20).view(3, 4, 20)
    assert together.dtype == torch.float64
    assert together.unique().numel() == together.numel()
    alone = uniform_draws((7, 3), [11], 4, 20)
    assert torch.equal(alone, together[1])
    larger = uniform_draws((7, 3), [12, 11, 10], 6, 30).view(3, 6, 30)
    assert torch.equal(larger.flip(0)[:, :4, :20], together)


@pytest.mark.parametrize("seed", [(8, 3), (7, 4), (3, 7), (7,), (7, 3, 1)])
def test_another_seed_gives_other_numbers(seed: tuple[int, ...]) -> None:
    numbers = torch.cat([uniform_draws(s, [0, 1], 2, 20) for s in ((7, 3), seed)])
    assert numbers.unique().numel() == numbers.numel()


def test_prompt_and_response_are_not_interchangeable() -> None:
    first = uniform_draws((7, 3), [1], 3, 4)[2]
    second = uniform_draws((7, 3), [2], 3, 4)[1]
    assert not torch.equal(first, second)


def test_numbers_are_uniform() -> None:
    numbers = uniform_draws((0, 0), range(100), 10, 50).flatten()
    counts = torch.histc(numbers, bins=20, min=0.0, max=1.0)
    assert numbers.min() >= 0.0
    assert numbers.max() < 1.0
    assert chi_square(counts, torch.full((20,), 1 / 20)) < 19 + 5 * 38**0.5


def chi_square(counts: Tensor, probability: Tensor) -> float:
    """Pearson's statistic; about (classes - 1) with a spread of sqrt(2 (classes - 1))."""
    expected = probability.double() * counts.sum()
    return float(((counts.double() - expected) ** 2 / expected).sum())


def test_pick_follows_the_distribution() -> None:
    probability = torch.tensor([0.0, 0.3, 0.0, 0.0, 0.05, 0.001, 0.449, 0.0, 0.2, 0.0])
    uniform = torch.rand(200_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    tokens = pick(probability.log().expand(len(uniform), -1), uniform)
    counts = torch.bincount(tokens, minlength=10)
    possible = probability > 0
    assert not counts[~possible].any()
    assert chi_square(counts[possible], probability[possible]) < 4 + 5 * 8**0.5


def test_pick_is_the_inverse_of_the_cumulative_distribution() -> None:
    logp_BV = torch.tensor([0.25, 0.5, 0.25]).log().expand(7, -1)
    uniform = torch.tensor([0.0, 0.2, 0.26, 0.5, 0.74, 0.76, 0.99], dtype=torch.float64)
    assert pick(logp_BV, uniform).tolist() == [0, 0, 1, 1, 1, 2, 2]


@pytest.mark.parametrize("uniform", [0.0, 5e-324, 1e-300, 0.5, BELOW_ONE, 1.0])
@pytest.mark.parametrize("scale", [1.0, 0.1, 7.0])
def test_pick_never_takes_an_impossible_token(uniform: float, scale: float) -> None:
    """At the edges of [0, 1] too, whether or not the probabilities sum to one."""
    logp_BV = torch.log_softmax(logits(), -1) + torch.tensor(scale).log()
    impossible = torch.rand(logp_BV.shape, generator=torch.Generator().manual_seed(5)) < 0.6
    impossible[:, :3] = True
    impossible[:, -3:] = True
    logp_BV = logp_BV.masked_fill(impossible, -torch.inf)
    assert (~impossible).any(1).all()
    token_B = pick(logp_BV, torch.full((len(logp_BV),), uniform, dtype=torch.float64))
    assert not impossible.gather(1, token_B[:, None]).any()
    if uniform in (0.0, BELOW_ONE, 1.0):  # the first and the last possible token
        places = torch.arange(logp_BV.shape[1]).expand_as(impossible)
        first = places.masked_fill(impossible, 99).min(1).values
        last = places.masked_fill(impossible, -1).max(1).values
        assert torch.equal(token_B, first if uniform == 0.0 else last)


@pytest.mark.parametrize("uniform", [0.0, BELOW_ONE, 1.0])
def test_pick_of_a_single_possible_token(uniform: float) -> None:
    logp_BV = torch.full((1, 151936), -torch.inf)
    logp_BV[0, 151000] = -1e-7
    assert pick(logp_BV, torch.tensor([uniform], dtype=torch.float64)).item() == 151000


@pytest.mark.parametrize("top_k", [1, 2, 7, 50, 80])
def test_top_k_equals_transformers(top_k: int) -> None:
    scores = torch.log_softmax(logits(), -1)
    assert torch.equal(restrict(scores, 1.0, top_k), TopKLogitsWarper(top_k)(None, scores))


@pytest.mark.parametrize("top_p", [1e-6, 0.1, 0.5, 0.9, 0.999])
def test_top_p_equals_transformers(top_p: float) -> None:
    scores = torch.log_softmax(logits(), -1)
    restricted = restrict(scores, top_p, 0)
    assert torch.equal(restricted, TopPLogitsWarper(top_p)(None, scores))
    assert restricted.isfinite().any(1).all()


@pytest.mark.parametrize(("top_p", "top_k"), [(0.9, 5), (0.3, 20), (0.7, 1)])
def test_top_k_comes_before_top_p(top_p: float, top_k: int) -> None:
    scores = torch.log_softmax(logits(seed=4), -1)
    expected = TopPLogitsWarper(top_p)(None, TopKLogitsWarper(top_k)(None, scores))
    assert torch.equal(restrict(scores, top_p, top_k), expected)


def test_no_restriction_leaves_everything() -> None:
    scores = torch.log_softmax(logits(), -1)
    assert torch.equal(restrict(scores, 1.0, 0), scores)


def test_banned_tokens_stay_banned() -> None:
    scores = torch.log_softmax(logits(), -1)
    scores[:, ::2] = -torch.inf
    for top_p, top_k in ((0.9, 0), (1.0, 40), (0.99, 40)):
        assert torch.isneginf(restrict(scores, top_p, top_k)[:, ::2]).all()


def test_a_token_that_is_there_is_penalised_once() -> None:
    logp = logits(2, 6).log_softmax(-1)
    lowered = penalised(logp, torch.tensor([[1, 1, 4], [0, 2, 2]]), 1.5)
    assert torch.equal((logp - lowered).round(decimals=5)[0], torch.tensor([0, 1.5, 0, 0, 1.5, 0]))
    assert torch.equal((logp - lowered).round(decimals=5)[1], torch.tensor([1.5, 0, 1.5, 0, 0, 0]))
