"""The most likely tokens against transformers' own ``generate``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from models import mixed_prompts, prompt_batch
from torch import Tensor

from sapo_vl.policy import Policy
from sapo_vl.rollout import Sampler
from sapo_vl.types import PromptInputs, Sampling

GREEDY = Sampling(group_size=1, temperature=0.0, max_new_tokens=12)


def generate(policy: Policy, prompts: Sequence[PromptInputs]) -> Tensor:
    """Greedy responses by ``generate``, left-padded prompts with their images."""
    width = max(len(p.input_ids_S) for p in prompts)
    inputs: dict[str, Any] = {
        "input_ids": torch.stack([pad(p.input_ids_S, width, policy.pad_id) for p in prompts]),
        "mm_token_type_ids": torch.stack([pad(p.mm_token_type_ids_S, width) for p in prompts]),
        "attention_mask": torch.stack(
            [pad(torch.ones_like(p.input_ids_S), width) for p in prompts]
        ),
    }
    for key in ("pixel_values", "image_grid_thw"):
        found = [p.media[key] for p in prompts if key in p.media]
        if found:
            inputs[key] = torch.cat(found)
    policy.eval()
    output = policy.model.generate(
        **inputs,
        do_sample=False,
        max_new_tokens=GREEDY.max_new_tokens,
        suppress_tokens=policy.banned_V.nonzero().squeeze(-1).tolist(),
        eos_token_id=list(policy.eos_ids),
        pad_token_id=policy.pad_id,
    )
    policy.train()
    return output[:, width:]


def pad(values: Tensor, width: int, filler: int = 0) -> Tensor:
    return torch.nn.functional.pad(values, (width - len(values), 0), value=filler)


def test_greedy_equals_generate(load_policy: Callable[..., Policy], family: str) -> None:
    policy = load_policy(family)
    prompts = mixed_prompts(policy.processor)
    rollout = Sampler()(policy, prompt_batch(prompts, range(4)), GREEDY, (0, 0))
    assert torch.equal(rollout.response_ids_BT, generate(policy, prompts))
    for row, prompt in enumerate(prompts):  # and without any padding
        assert torch.equal(rollout.response_ids_BT[row], generate(policy, [prompt])[0])
    assert len({tuple(ids.tolist()) for ids in rollout.response_ids_BT}) == 4


def test_greedy_equals_generate_when_rows_end_early(
    load_policy: Callable[..., Policy], family: str
) -> None:
    policy = load_policy(family)
    prompts = mixed_prompts(policy.processor)
    batch = prompt_batch(prompts, range(4))
    free = Sampler()(policy, batch, GREEDY, (0, 0)).response_ids_BT
    # End where row 2 has its fourth token: give that token's head row to the end-of-turn token.
    token, eos = int(free[2, 3]), policy.eos_ids[0]
    head = torch.nn.Parameter(policy.model.lm_head.weight.detach().clone())
    with torch.no_grad():
        head[[eos, token]] = head[[token, eos]]
    policy.model.lm_head.weight = head
    rollout = Sampler()(policy, batch, GREEDY, (0, 0))
    assert rollout.finished_B[2]
    assert rollout.response_ids_BT[2, int(rollout.length_B[2]) - 1] == eos
    assert rollout.length_B[2] == (free[2] == token).nonzero()[0].item() + 1 <= 4
    expected = generate(policy, prompts)
    assert torch.equal(rollout.response_ids_BT, expected)


def test_a_greedy_group_is_one_response_repeated(load_policy: Callable[..., Policy]) -> None:
    policy = load_policy("qwen3_vl")
    batch = prompt_batch(mixed_prompts(policy.processor), range(4))
    sampling = Sampling(group_size=3, temperature=0.0, max_new_tokens=6)
    grouped = Sampler()(policy, batch, sampling, (0, 0))
    single = Sampler()(policy, batch, GREEDY, (5, 9))
    for row, ids in enumerate(grouped.response_ids_BT):
        assert torch.equal(ids, single.response_ids_BT[row // 3, :6])
