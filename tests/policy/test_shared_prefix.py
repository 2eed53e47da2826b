"""Reading each prompt once and repeating its cache gives the numbers of whole sequences."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from models import encode, mixed_prompts, picture
from torch import Tensor

from sapo_vl.policy import Policy, Scores
from sapo_vl.types import PromptInputs

SHARING = ("qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe")
PROMPT_OF_ROW = torch.tensor([0, 0, 0, 1, 1, 2, 2, 3])


def score(policy: Policy, prompts: list[PromptInputs], share_prefix: bool | None) -> Scores:
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(8, 300, (len(PROMPT_OF_ROW), 7), generator=generator)
    lengths = torch.randint(1, 8, (len(PROMPT_OF_ROW), 1), generator=generator)
    mask = torch.arange(7) < lengths
    return policy.score(prompts, PROMPT_OF_ROW, ids, mask, 0.9, share_prefix=share_prefix)


def gradients(policy: Policy, scores: Scores) -> dict[str, Tensor]:
    """Gradient of a loss that weighs every token differently, by parameter name."""
    weights = torch.linspace(-1.0, 2.0, scores.logp_BT.numel()).view_as(scores.logp_BT)
    policy.zero_grad()
    (scores.logp_BT * weights).sum().backward()
    return {name: p.grad.clone() for name, p in policy.named_parameters()}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", SHARING)
def test_shared_equals_plain_in_value_and_every_gradient(
    load_policy: Callable[..., Policy], family: str, attention: str
) -> None:
    policy = load_policy(family, attention=attention)
    prompts = mixed_prompts(policy.processor)
    assert policy.share_prefix
    shared = score(policy, prompts, None)
    shared_gradient = gradients(policy, shared)
    plain = score(policy, prompts, False)
    plain_gradient = gradients(policy, plain)

    torch.testing.assert_close(shared.logp_BT, plain.logp_BT, rtol=0, atol=1e-5)
    torch.testing.assert_close(shared.entropy_BT, plain.entropy_BT, rtol=0, atol=1e-5)
    assert any("deepstack" in name for name in plain_gradient) == (family != "qwen2_5_vl")
    for name, expected in plain_gradient.items():
        scale = float(expected.abs().max())
        # A key's bias shifts all scores of a query alike: its gradient is rounding noise.
        if "k_proj.bias" not in name:
            assert scale > 1e-3, f"{name} has no gradient to compare"
        torch.testing.assert_close(
            shared_gradient[name], expected, rtol=0, atol=1e-5 * max(scale, 1.0), msg=name
        )


def test_linear_attention_falls_back_to_plain(load_policy: Callable[..., Policy]) -> None:
    policy = load_policy("qwen3_5", share_prefix=True)
    assert policy.config.share_prefix
    assert not policy.share_prefix
    prompts = mixed_prompts(policy.processor)
    assert torch.equal(score(policy, prompts, None).logp_BT, score(policy, prompts, False).logp_BT)


def test_sharing_can_be_turned_off(load_policy: Callable[..., Policy]) -> None:
    assert not load_policy("qwen3_vl", share_prefix=False).share_prefix


def test_a_group_reads_its_prompt_and_its_image_once(
    load_policy: Callable[..., Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = load_policy("qwen3_vl")
    patches, rows = [], []
    tower, language = policy.backbone.visual.forward, policy.backbone.language_model.forward

    def count_patches(pixels: Tensor, *args: object, **kwargs: object) -> object:
        patches.append(len(pixels))
        return tower(pixels, *args, **kwargs)

    def count_rows(*args: object, **kwargs: object) -> object:
        rows.append(tuple(kwargs["inputs_embeds"].shape[:2]))
        return language(*args, **kwargs)

    monkeypatch.setattr(policy.backbone.visual, "forward", count_patches)
    monkeypatch.setattr(policy.backbone.language_model, "forward", count_rows)
    prompt = encode(policy.processor, "How many?", [picture(32, 32)])
    length = len(prompt.input_ids_S)
    ids, own = torch.full((8, 5), 20), torch.zeros(8, dtype=torch.long)
    policy.score([prompt], own, ids, torch.ones_like(ids, dtype=torch.bool))
    assert patches == [16]
    assert rows == [(1, length), (8, 4)]

    patches.clear()
    rows.clear()
    policy.score([prompt], own, ids, torch.ones_like(ids, dtype=torch.bool), share_prefix=False)
    assert patches == [16]  # the tower is shared here, too
    assert rows == [(8, length + 5)]
