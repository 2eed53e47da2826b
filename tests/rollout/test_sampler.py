"""The in-process sampler: what it draws, and what that depends on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from models import encode, mixed_prompts, picture, prompt_batch
from sampler_cases import INDICES, SAMPLING, SEED, end_often, responses, whole_batch

from sapo_vl.policy import Policy
from sapo_vl.rollout import RolloutEngine, Sampler
from sapo_vl.types import Sampling


def test_log_probs_and_entropies_equal_the_scores_that_train(
    load_policy: Callable[..., Policy], family: str
) -> None:
    policy = load_policy(family)
    end_often(policy)
    batch = whole_batch(policy)
    for temperature in (0.7, 1.0):
        sampling = Sampling(group_size=3, temperature=temperature, max_new_tokens=8)
        rollout = Sampler()(policy, batch, sampling, SEED)
        scores = policy.score(
            batch.inputs,
            torch.arange(4).repeat_interleave(3),
            rollout.response_ids_BT,
            rollout.mask_BT,
            temperature,
        )
        assert scores.logp_BT.requires_grad
        torch.testing.assert_close(scores.logp_BT.detach(), rollout.logp_BT, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(scores.entropy_BT, rollout.entropy_BT, rtol=1e-5, atol=1e-5)
        assert rollout.logp_BT.dtype == rollout.entropy_BT.dtype == torch.float32


def test_a_prompt_draws_the_same_in_any_batch(
    load_policy: Callable[..., Policy], family: str
) -> None:
    policy = load_policy(family)
    end_often(policy)
    prompts = mixed_prompts(policy.processor)
    expected = responses(Sampler()(policy, whole_batch(policy), SAMPLING, SEED))
    assert len({tuple(r) for group in expected for r in group}) > 8  # some are one token long

    for order in ([3, 1, 0, 2], [2, 0], [1]):
        batch = prompt_batch([prompts[i] for i in order], [INDICES[i] for i in order])
        drawn = responses(Sampler()(policy, batch, SAMPLING, SEED))
        assert drawn == [expected[i] for i in order]
    for sampler in (Sampler(1), Sampler(2), Sampler(7), Sampler(max_tokens=60), Sampler(2, 10)):
        assert responses(sampler(policy, whole_batch(policy), SAMPLING, SEED)) == expected


def test_a_response_does_not_depend_on_the_size_of_its_group(
    load_policy: Callable[..., Policy],
) -> None:
    policy = load_policy("qwen3_vl")
    expected = responses(Sampler()(policy, whole_batch(policy), SAMPLING, SEED))
    larger = Sampling(group_size=5, temperature=0.7, max_new_tokens=8)
    drawn = responses(Sampler()(policy, whole_batch(policy), larger, SEED))
    assert [group[:3] for group in drawn] == expected


def test_the_global_random_state_plays_no_part(load_policy: Callable[..., Policy]) -> None:
    policy = load_policy("qwen3_vl")
    torch.manual_seed(1)
    first = Sampler()(policy, whole_batch(policy), SAMPLING, SEED)
    state = torch.random.get_rng_state()
    torch.manual_seed(2)
    second = Sampler()(policy, whole_batch(policy), SAMPLING, SEED)
    assert torch.equal(first.response_ids_BT, second.response_ids_BT)
    torch.manual_seed(1)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_seed_index_and_response_each_change_the_draws(
    load_policy: Callable[..., Policy],
) -> None:
    policy = load_policy("qwen3_vl")
    prompt = mixed_prompts(policy.processor)[0]
    drawn = []
    for seed, index in (((3, 17), 0), ((3, 18), 0), ((4, 17), 0), ((3, 17), 1)):
        rollout = Sampler()(policy, prompt_batch([prompt], [index]), SAMPLING, seed)
        drawn += responses(rollout)[0]
    assert len({tuple(r) for r in drawn}) == len(drawn) == 12


def test_first_tokens_follow_the_policy(load_policy: Callable[..., Policy]) -> None:
    policy = load_policy("qwen3_vl")
    with torch.no_grad():  # far from uniform
        policy.model.lm_head.weight *= 3
        prompt = encode(policy.processor, "How many?", [picture(32, 32)])
        logp_V = policy.log_probs(policy.prefill([prompt]).last_hidden_PD, 0.7)[0]
    sampling = Sampling(group_size=4000, temperature=0.7, max_new_tokens=1)
    rollout = Sampler()(policy, prompt_batch([prompt], [5]), sampling, SEED)
    counts = torch.bincount(rollout.response_ids_BT[:, 0], minlength=len(logp_V)).double()
    expected = logp_V.double().exp() * 4000
    often = expected > 5
    observed = torch.cat([counts[often], counts[~often].sum()[None]])
    expected = torch.cat([expected[often], expected[~often].sum()[None]])
    classes = len(observed)
    assert classes > 20
    statistic = float(((observed - expected) ** 2 / expected).sum())
    assert statistic < classes - 1 + 4 * (2 * (classes - 1)) ** 0.5


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_restored(load_policy: Callable[..., Policy], training: bool) -> None:
    policy = load_policy("qwen3_vl").train(training)
    rollout = Sampler()(policy, whole_batch(policy), SAMPLING, SEED)
    assert policy.training == policy.model.training == training
    assert not rollout.logp_BT.requires_grad
    assert torch.is_grad_enabled()


def test_the_mode_is_restored_after_an_error(
    load_policy: Callable[..., Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = load_policy("qwen3_vl")
    modes: list[bool] = []

    def fail(*_: object) -> None:
        modes.append(policy.training)
        raise RuntimeError("out of memory")

    monkeypatch.setattr(policy, "decoder", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        Sampler()(policy, whole_batch(policy), SAMPLING, SEED)
    assert modes == [False]
    assert policy.training
    assert policy.model.training
    assert torch.is_grad_enabled()


def test_gradient_checkpointing_does_not_change_the_draws(
    load_policy: Callable[..., Policy], family: str
) -> None:
    drawn = []
    for gradient_checkpointing in (False, True):
        policy = load_policy(family, gradient_checkpointing=gradient_checkpointing)
        drawn.append(responses(Sampler()(policy, whole_batch(policy), SAMPLING, SEED)))
    assert drawn[0] == drawn[1]


def test_bfloat16_weights_are_sampled_and_scored(load_policy: Callable[..., Policy]) -> None:
    policy = load_policy("qwen3_vl", dtype="bfloat16")
    batch = whole_batch(policy)
    rollout = Sampler()(policy, batch, SAMPLING, SEED)
    scores = policy.score(
        batch.inputs,
        torch.arange(4).repeat_interleave(3),
        rollout.response_ids_BT,
        rollout.mask_BT,
        0.7,
    )
    assert rollout.logp_BT.dtype == scores.logp_BT.dtype == torch.float32
    torch.testing.assert_close(scores.logp_BT.detach(), rollout.logp_BT, rtol=0, atol=0.1)


def test_it_is_a_rollout_engine() -> None:
    assert isinstance(Sampler(), RolloutEngine)
