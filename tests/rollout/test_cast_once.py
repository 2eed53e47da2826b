"""Under mixed precision the sampler casts each weight once, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from models import mixed_prompts, prompt_batch
from torch.utils._python_dispatch import TorchDispatchMode

from sapo_vl.policy import Policy
from sapo_vl.rollout import Sampler
from sapo_vl.types import PromptBatch, Rollout, Sampling

SAMPLING = Sampling(group_size=2, max_new_tokens=6)
CASTS = (torch.ops.aten._to_copy.default, torch.ops.aten.to.dtype)


class CountCasts(TorchDispatchMode):
    """How often tensors at the addresses of these weights are cast to bfloat16."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        # The model casts a view of a delta net's convolution, which no cache takes.
        named = policy.named_parameters()
        self.casts = {p.data_ptr(): 0 for name, p in named if "conv1d" not in name}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in CASTS and out.dtype == torch.bfloat16 and args[0].data_ptr() in self.casts:
            self.casts[args[0].data_ptr()] += 1
        return out


def mixed() -> torch.autocast:
    return torch.autocast("cpu", torch.bfloat16, cache_enabled=False)  # as Lightning has it


def draw(policy: Policy, batch: PromptBatch, **options: bool) -> tuple[Rollout, list[int]]:
    counting = CountCasts(policy)
    with counting:
        rollout = Sampler(**options)(policy, batch, SAMPLING, (0, 0))
    return rollout, list(counting.casts.values())


@pytest.mark.parametrize(
    ("freeze", "without_gradient"),
    [([], torch.no_grad), (["vision", "language"], torch.inference_mode)],
)
def test_each_weight_is_cast_once_to_the_same_numbers(
    load_policy: Callable[..., Policy],
    family: str,
    freeze: list[str],
    without_gradient: Callable[[], AbstractContextManager[None]],
) -> None:
    policy = load_policy(family, freeze=freeze)
    trained = [p.requires_grad for p in policy.parameters()]
    with without_gradient(), mixed():
        batch = prompt_batch(mixed_prompts(policy.processor), range(4))
        once, casts = draw(policy, batch)
        again, more_casts = draw(policy, batch, cast_once=False)
    assert max(casts) == 1
    assert max(more_casts) >= SAMPLING.max_new_tokens
    assert torch.equal(once.response_ids_BT, again.response_ids_BT)
    assert torch.equal(once.logp_BT, again.logp_BT)
    assert [p.requires_grad for p in policy.parameters()] == trained


def test_changed_weights_are_cast_again_and_get_gradients(
    load_policy: Callable[..., Policy],
) -> None:
    policy = load_policy("qwen3_vl", freeze=["vision"])
    prompts = mixed_prompts(policy.processor)
    batch = prompt_batch(prompts, range(4))
    with mixed():
        draw(policy, batch)
        with torch.no_grad():
            policy.model.lm_head.weight.mul_(2)
        changed, casts = draw(policy, batch)
        fresh, _ = draw(policy, batch, cast_once=False)
        assert max(casts) == 1
        assert torch.equal(changed.logp_BT, fresh.logp_BT)
        rows = torch.arange(4).repeat_interleave(2)
        policy.score(
            prompts, rows, changed.response_ids_BT, changed.mask_BT
        ).logp_BT.sum().backward()
    without = [n for n, p in policy.named_parameters() if p.requires_grad and p.grad is None]
    assert not without


def test_nothing_is_cast_without_autocast(load_policy: Callable[..., Policy]) -> None:
    policy = load_policy("qwen3_vl")
    _, casts = draw(policy, prompt_batch(mixed_prompts(policy.processor), range(4)))
    assert max(casts) == 0
