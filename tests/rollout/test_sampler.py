"""The in-process sampler: what it draws, what it depends on, how rows end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from models import encode, mixed_prompts, picture, prompt_batch
from torch import Tensor

from sapo_vl.policy import Policy
from sapo_vl.policy.decoding import GroupDecoder
from sapo_vl.rollout import RolloutEngine, Sampler
from sapo_vl.types import PromptBatch, Rollout, Sampling

SEED = (3, 17)
SAMPLING = Sampling(group_size=3, temperature=0.7, max_new_tokens=8)
INDICES = (40, 41, 42, 43)


def whole_batch(policy: Policy) -> PromptBatch:
    return prompt_batch(mixed_prompts(policy.processor), INDICES)


def responses(rollout: Rollout) -> list[list[list[int]]]:
    """Tokens of every response, prompt by prompt."""
    rows = [
        ids[mask].tolist()
        for ids, mask in zip(rollout.response_ids_BT, rollout.mask_BT, strict=True)
    ]
    g = rollout.group_size
    return [rows[start : start + g] for start in range(0, len(rows), g)]


def end_often(policy: Policy) -> None:
    """Scale the head's end-of-turn row: likely in some places, unlikely in others."""
    head = policy.model.lm_head.weight.detach().clone()
    head[policy.eos_ids[0]] *= 5
    policy.model.lm_head.weight = torch.nn.Parameter(head)


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


def test_rows_end_at_the_end_of_turn_token(load_policy: Callable[..., Policy], family: str) -> None:
    policy = load_policy(family)
    end_often(policy)
    sampling = Sampling(group_size=8, max_new_tokens=16)
    rollout = Sampler()(policy, whole_batch(policy), sampling, SEED)
    assert 0 < int(rollout.finished_B.sum()) < 32  # both kinds are there to be checked
    assert rollout.response_ids_BT.shape == rollout.mask_BT.shape == rollout.logp_BT.shape
    assert rollout.mask_BT.dtype == torch.bool
    for row, length in enumerate(rollout.length_B.tolist()):
        mask, ids = rollout.mask_BT[row], rollout.response_ids_BT[row]
        assert mask[:length].all()
        assert not mask[length:].any()
        is_eos = ids[:length] == policy.eos_ids[0]
        assert not is_eos[:-1].any()
        assert is_eos[-1] == rollout.finished_B[row]
        assert rollout.finished_B[row] or length == 16
        assert (ids[length:] == policy.pad_id).all()
        assert not rollout.logp_BT[row, length:].any()
        assert not rollout.entropy_BT[row, length:].any()
        assert (rollout.logp_BT[row, :length] < 0).all()
        assert rollout.texts[row] == policy.tokenizer.decode(
            ids[: length - int(rollout.finished_B[row])], skip_special_tokens=True
        )
        assert "<|im_end|>" not in rollout.texts[row]


def test_a_row_that_has_ended_leaves_the_batch(
    load_policy: Callable[..., Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = load_policy("qwen3_vl")
    end_often(policy)
    decoded: list[int] = []
    step = GroupDecoder.step

    def count_rows(decoder: GroupDecoder, token_B: Tensor) -> None:
        decoded.append(len(token_B))
        step(decoder, token_B)

    monkeypatch.setattr(GroupDecoder, "step", count_rows)
    sampling = Sampling(group_size=8, max_new_tokens=16)
    rollout = Sampler()(policy, whole_batch(policy), sampling, SEED)
    assert decoded == [int((rollout.mask_BT[:, t]).sum()) for t in range(1, 16)]
    assert decoded[0] > decoded[-1] > 0


def test_all_rows_ending_at_once_stops(load_policy: Callable[..., Policy]) -> None:
    policy = load_policy("qwen3_vl")
    policy.eos_ids = tuple(range(len(policy.tokenizer)))
    rollout = Sampler()(policy, whole_batch(policy), SAMPLING, SEED)
    assert rollout.response_ids_BT.shape == (12, 1)
    assert rollout.finished_B.all()


@pytest.mark.parametrize("max_new_tokens", [1, 5])
def test_a_response_is_cut_at_max_new_tokens(
    load_policy: Callable[..., Policy], max_new_tokens: int
) -> None:
    policy = load_policy("qwen3_vl")
    policy.eos_ids = (policy.model.config.image_token_id,)  # banned: no response ends
    longer = Sampler()(policy, whole_batch(policy), SAMPLING, SEED)
    sampling = Sampling(group_size=3, temperature=0.7, max_new_tokens=max_new_tokens)
    rollout = Sampler()(policy, whole_batch(policy), sampling, SEED)
    assert rollout.mask_BT.shape == (12, max_new_tokens)
    assert rollout.mask_BT.all()
    assert not rollout.finished_B.any()
    assert torch.equal(rollout.response_ids_BT, longer.response_ids_BT[:, :max_new_tokens])


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_banned_tokens_are_never_drawn_however_likely(
    load_policy: Callable[..., Policy], family: str, temperature: float
) -> None:
    policy = load_policy(family)
    head = policy.model.lm_head.weight.detach().clone()
    head[policy.banned_V] *= 100
    policy.model.lm_head.weight = torch.nn.Parameter(head)
    sampling = Sampling(group_size=4, temperature=temperature, max_new_tokens=10)
    rollout = Sampler()(policy, whole_batch(policy), sampling, SEED)
    assert not policy.banned_V[rollout.response_ids_BT[rollout.mask_BT]].any()
    assert rollout.logp_BT.isfinite().all()


def test_top_k_and_top_p_restrict_the_draws_and_not_the_log_probs(
    load_policy: Callable[..., Policy],
) -> None:
    policy = load_policy("qwen3_vl")
    batch = whole_batch(policy)
    first_BV = policy.log_probs(policy.prefill(batch.inputs).last_hidden_PD, 1.0).detach()
    free = Sampling(group_size=32, max_new_tokens=1)
    for restricted in (
        Sampling(group_size=32, max_new_tokens=1, top_k=4),
        Sampling(group_size=32, max_new_tokens=1, top_p=0.05),
    ):
        rollout = Sampler()(policy, batch, restricted, SEED)
        drawn = rollout.response_ids_BT.view(4, 32)
        allowed = first_BV.topk(restricted.top_k or 40, dim=-1).indices
        assert all(set(d.tolist()) <= set(a.tolist()) for d, a in zip(drawn, allowed, strict=True))
        torch.testing.assert_close(rollout.logp_BT.view(4, 32), first_BV.gather(1, drawn))
        unrestricted = Sampler()(policy, batch, free, SEED)
        assert len(drawn.unique()) < len(unrestricted.response_ids_BT.unique())


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_an_endless_presence_penalty_never_draws_a_token_twice(
    load_policy: Callable[..., Policy], temperature: float
) -> None:
    policy = load_policy("qwen3_vl")
    sampling = Sampling(group_size=4, temperature=temperature, max_new_tokens=12)
    free = responses(Sampler()(policy, whole_batch(policy), sampling, SEED))
    assert any(len(set(r)) < len(r) for group in free for r in group)  # it does without
    rollout = Sampler()(policy, whole_batch(policy), replace(sampling, presence_penalty=1e4), SEED)
    assert all(len(set(r)) == len(r) for group in responses(rollout) for r in group)
    scores = policy.score(
        whole_batch(policy).inputs,
        torch.arange(4).repeat_interleave(4),
        rollout.response_ids_BT,
        rollout.mask_BT,
        temperature,
    )
    torch.testing.assert_close(scores.logp_BT.detach(), rollout.logp_BT, rtol=1e-4, atol=1e-4)


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
