"""A batch to sample, and how the tests of the sampler read what was drawn."""

from __future__ import annotations

import torch
from models import mixed_prompts, prompt_batch

from sapo_vl.policy import Policy
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
