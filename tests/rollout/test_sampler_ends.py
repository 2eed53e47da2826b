"""Where a response ends, and which tokens are never drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from sampler_cases import SAMPLING, SEED, end_often, responses, whole_batch
from torch import Tensor

from sapo_vl.policy import Policy
from sapo_vl.policy.decoding import GroupDecoder
from sapo_vl.rollout import Sampler
from sapo_vl.types import Sampling


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
