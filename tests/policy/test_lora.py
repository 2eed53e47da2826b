"""Adapters by peft: the base model underneath, the same function wherever it is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from models import mixed_prompts, prompt_batch

from sapo_vl.policy import AdapterConfig, Policy, Scores
from sapo_vl.policy.lora import base_fingerprint
from sapo_vl.policy.parts import part_of, part_sizes
from sapo_vl.rollout import Sampler
from sapo_vl.types import Sampling

LORA = AdapterConfig(rank=4, alpha=8)
EVERYWHERE = AdapterConfig(rank=4, alpha=8, parts=["vision", "merger", "language"])
EXPERTS = AdapterConfig(rank=4, alpha=8, targets=["q_proj", "gate_up_proj", "down_proj"])


def move(policy: Policy) -> None:
    """Give the adapters an effect, as an optimizer would."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name:
                parameter += 0.05 * torch.randn(parameter.shape, generator=generator)


def score(policy: Policy, **options: Any) -> Scores:
    """Scores of two responses to each of four prompts, some with pictures."""
    ids = torch.arange(8 * 5).view(8, 5) % 200 + 20
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[3, 2:] = False
    rows = torch.arange(4).repeat_interleave(2)
    return policy.score(mixed_prompts(policy.processor), rows, ids, mask, **options)


def trainable(policy: Policy) -> dict[str, torch.nn.Parameter]:
    return {name: p for name, p in policy.model.named_parameters() if p.requires_grad}


@torch.no_grad()
def test_the_reference_is_the_base_model_to_the_bit(
    load_policy: Callable[..., Policy], family: str
) -> None:
    base, policy = load_policy(family), load_policy(family, lora=EVERYWHERE)
    expected = score(base).logp_BT
    assert torch.equal(score(policy).logp_BT, expected)  # B is 0 at the start
    move(policy)
    moved = score(policy).logp_BT
    assert (moved - expected).abs().max() > 1e-2
    with policy.reference():
        assert torch.equal(score(policy).logp_BT, expected)
    assert torch.equal(score(policy).logp_BT, moved)
    assert trainable(policy)


def test_only_adapters_of_the_chosen_parts_train(
    load_policy: Callable[..., Policy], family: str
) -> None:
    for parts in (["language"], ["vision"], ["merger", "language"]):
        policy = load_policy(family, lora=AdapterConfig(rank=4, parts=parts))
        found = trainable(policy)
        assert all(".lora_A." in name or ".lora_B." in name for name in found)
        assert {part_of(name) for name in found} == set(parts)
        assert not any("lm_head" in name for name in found)
        score(policy).logp_BT.sum().backward()
        for name, parameter in policy.model.named_parameters():
            assert (parameter.grad is not None) == (name in found), name
        sizes = {size.part: size for size in part_sizes(policy.model)}
        base = {size.part: size for size in part_sizes(load_policy(family).model)}
        for part, size in sizes.items():
            own = sum(p.numel() for n, p in found.items() if part_of(n) == part)
            assert (size.trainable, size.total) == (own, base[part].total + own)


def test_shared_prefix_and_checkpointing_change_no_gradient(
    load_policy: Callable[..., Policy], family: str
) -> None:
    """The embedding is frozen: no gradient enters the first checkpointed layer."""
    gradients = []
    settings: list[dict[str, Any]] = [
        {},
        {"share_prefix": False},
        {"gradient_checkpointing": True},
    ]
    for options in settings:
        torch.manual_seed(0)  # of the new adapters
        policy = load_policy(family, lora=EVERYWHERE, **options)
        move(policy)
        score(policy).logp_BT.sum().backward()
        gradients.append({n: p.grad for n, p in trainable(policy).items()})
    largest = max(float(g.abs().max()) for g in gradients[0].values())
    for other in gradients[1:]:
        for name, gradient in gradients[0].items():
            torch.testing.assert_close(other[name], gradient, rtol=1e-3, atol=1e-5 * largest)


@pytest.mark.parametrize(
    ("family", "lora"),
    [("qwen3_vl", EVERYWHERE), ("qwen2_5_vl", LORA), ("qwen3_5", LORA), ("qwen3_vl_moe", EXPERTS)],
)
@torch.no_grad()
def test_what_samples_is_what_trains(
    load_policy: Callable[..., Policy], family: str, lora: AdapterConfig
) -> None:
    policy = load_policy(family, lora=lora)
    move(policy)
    batch = prompt_batch(mixed_prompts(policy.processor), [0, 1, 2, 3])
    rollout = Sampler()(policy, batch, Sampling(group_size=2, max_new_tokens=5), (0, 0))
    scores = policy.score(
        batch.inputs,
        torch.arange(4).repeat_interleave(2),
        rollout.response_ids_BT,
        rollout.mask_BT,
    )
    assert (scores.logp_BT - rollout.logp_BT).abs().max() < 1e-4


def test_packed_experts_are_adapted_where_named(load_policy: Callable[..., Policy]) -> None:
    base, policy = load_policy("qwen3_vl_moe"), load_policy("qwen3_vl_moe", lora=EXPERTS)
    found = trainable(policy)
    assert sum(".experts." in name for name in found) == 2 * 2 * 3  # A, B; 2 weights; 3 layers
    assert sum(".q_proj." in name for name in found) == 2 * 3
    score(policy).logp_BT.sum().backward()
    assert all(p.grad is not None for p in found.values())
    with torch.no_grad():
        expected = score(base).logp_BT
        for name, parameter in found.items():
            if ".experts." in name and "lora_B" in name:
                parameter += 0.1
        assert (score(policy).logp_BT - expected).abs().max() > 1e-2
        with policy.reference():
            assert torch.equal(score(policy).logp_BT, expected)


def test_adapters_stay_in_float32_on_a_bfloat16_base(load_policy: Callable[..., Policy]) -> None:
    policy = load_policy("qwen3_vl", lora=LORA, dtype="bfloat16")
    assert {p.dtype for p in trainable(policy).values()} == {torch.float32}
    assert policy.model.dtype == torch.bfloat16
    score(policy).logp_BT.sum().backward()
    assert {p.grad.dtype for p in trainable(policy).values()} == {torch.float32}


def test_the_base_is_told_from_another(load_policy: Callable[..., Policy]) -> None:
    policy, same = load_policy("qwen3_vl", lora=LORA), load_policy("qwen3_vl", lora=LORA)
    assert base_fingerprint(policy.model) == base_fingerprint(same.model)
    with torch.no_grad():
        same.model.model.language_model.norm.weight[3] += 1e-3
    assert base_fingerprint(policy.model) != base_fingerprint(same.model)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lora": AdapterConfig(rank=0)}, "policy.lora.rank is 0"),
        ({"lora": AdapterConfig(targets=["qq_proj"])}, "qq_proj.*known:.*q_proj"),
        ({"lora": AdapterConfig(targets=[])}, "policy.lora.targets"),
        ({"lora": AdapterConfig(targets=["q_proj", "lm_head"])}, "lm_head, which gets no adapter"),
        ({"lora": AdapterConfig(parts=["eyes"])}, "eyes"),
        ({"lora": AdapterConfig(parts=[])}, "one or more of"),
        ({"lora": LORA, "freeze": ["language"]}, "both name.*language"),
        ({"quantize": "nf4"}, "needs policy.lora"),
        ({"lora": LORA, "weights": "random"}, "could not be had again"),
    ],
)
def test_settings_that_do_not_go_together_are_named(
    load_policy: Callable[..., Policy], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load_policy("qwen3_vl", **options)


def test_without_adapters_there_is_no_reference(load_policy: Callable[..., Policy]) -> None:
    with (
        pytest.raises(ValueError, match=r"policy\.lora is not set"),
        load_policy("qwen3_vl").reference(),
    ):
        pass
