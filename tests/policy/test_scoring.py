"""Scores against transformers' own forward pass on one unpadded sequence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from models import MEDIA, encode, mixed_prompts, picture
from torch import Tensor

from sapo_vl.policy import Policy, Scores
from sapo_vl.types import PromptInputs

PROMPT_OF_ROW = torch.tensor([0, 0, 1, 3, 2, 2, 1])  # the prompts of mixed_prompts, out of order
LENGTHS = torch.tensor([6, 3, 1, 5, 6, 2, 4])


def responses(policy: Policy, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Tokens that may be sampled, and the mask of ``LENGTHS``."""
    generator = torch.Generator().manual_seed(seed)
    allowed = (~policy.banned_V).nonzero().squeeze(-1)
    width = int(LENGTHS.max())
    index = torch.randint(len(allowed), (len(LENGTHS), width), generator=generator)
    return allowed[index], torch.arange(width) < LENGTHS[:, None]


def reference(
    policy: Policy, prompt: PromptInputs, response: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Log-probs and entropies of one response by ``model(**inputs).logits``."""
    ids = torch.cat([prompt.input_ids_S, response])[None]
    types = torch.cat([prompt.mm_token_type_ids_S, torch.zeros_like(response)])[None]
    output = policy.model(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        mm_token_type_ids=types,
        **{key: prompt.media[key] for key in MEDIA if key in prompt.media},
    )
    logits = output.logits[0, len(prompt.input_ids_S) - 1 : -1] / temperature
    logits[:, policy.banned_V] = -torch.inf
    distribution = torch.distributions.Categorical(logits=logits)
    allowed = distribution.probs[:, ~policy.banned_V]
    return distribution.log_prob(response), -(allowed * allowed.log()).sum(-1)


def score(policy: Policy, prompts: list[PromptInputs], **options: object) -> Scores:
    ids, mask = responses(policy)
    return policy.score(prompts, PROMPT_OF_ROW, ids, mask, **options)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_scores_equal_the_full_forward_of_transformers(
    load_policy: Callable[..., Policy], family: str, temperature: float
) -> None:
    policy = load_policy(family)
    prompts = mixed_prompts(policy.processor)
    ids, mask = responses(policy)
    with torch.no_grad():
        scores = policy.score(prompts, PROMPT_OF_ROW, ids, mask, temperature)
        for row, (prompt, length) in enumerate(zip(PROMPT_OF_ROW, LENGTHS, strict=True)):
            logp, entropy = reference(policy, prompts[prompt], ids[row, :length], temperature)
            torch.testing.assert_close(scores.logp_BT[row, :length], logp, rtol=0, atol=1e-5)
            torch.testing.assert_close(scores.entropy_BT[row, :length], entropy, rtol=0, atol=1e-5)
    assert not scores.logp_BT[~mask].any()
    assert not scores.entropy_BT[~mask].any()
    assert scores.logp_BT.dtype == scores.entropy_BT.dtype == torch.float32


def test_the_images_matter(load_policy: Callable[..., Policy], family: str) -> None:
    policy = load_policy(family)
    ids = torch.full((1, 2), 20)
    mask = torch.ones(1, 2, dtype=torch.bool)
    logp = []
    for name in ("a", "b"):
        prompt = encode(policy.processor, "What?", [picture(32, 32, name)])
        logp.append(policy.score([prompt], torch.tensor([0]), ids, mask).logp_BT)
    assert (logp[0] - logp[1]).abs().min() > 1e-3


def test_a_batch_equals_its_rows_one_by_one(
    load_policy: Callable[..., Policy], family: str
) -> None:
    policy = load_policy(family)
    prompts = mixed_prompts(policy.processor)
    ids, mask = responses(policy)
    with torch.no_grad():
        together = policy.score(prompts, PROMPT_OF_ROW, ids, mask)
        for row, prompt in enumerate(PROMPT_OF_ROW):
            alone = policy.score(
                [prompts[prompt]],
                torch.tensor([0]),
                ids[row : row + 1, : LENGTHS[row]],
                mask[row : row + 1, : LENGTHS[row]],
            )
            torch.testing.assert_close(
                together.logp_BT[row, : LENGTHS[row]], alone.logp_BT[0], rtol=0, atol=1e-5
            )
            torch.testing.assert_close(
                together.entropy_BT[row, : LENGTHS[row]], alone.entropy_BT[0], rtol=0, atol=1e-5
            )


@pytest.mark.filterwarnings("ignore")
def test_a_video_beside_an_image_equals_the_full_forward(
    load_policy: Callable[..., Policy], family: str
) -> None:
    policy = load_policy(family)
    frames = np.stack([np.asarray(picture(32, 48, str(n))) for n in range(4)])
    prompts = [
        encode(policy.processor, "What moves?", videos=[frames]),
        encode(policy.processor, "How many?", [picture(32, 32)]),
        encode(policy.processor, "Both?", [picture(48, 32)], [frames[:2]]),
    ]
    ids = responses(policy)[0][:3]
    with torch.no_grad():
        scores = policy.score(prompts, torch.arange(3), ids, torch.ones_like(ids, dtype=torch.bool))
        for row, prompt in enumerate(prompts):
            logp, _ = reference(policy, prompt, ids[row], 1.0)
            torch.testing.assert_close(scores.logp_BT[row], logp, rtol=0, atol=1e-5)


@pytest.mark.parametrize("share_prefix", [True, False])
@pytest.mark.parametrize("garbage", ["<|image_pad|>", "<|video_pad|>", "<|vision_start|>", -100])
def test_what_lies_behind_a_response_does_not_matter(
    load_policy: Callable[..., Policy], share_prefix: bool, garbage: str | int
) -> None:
    policy = load_policy("qwen3_vl", share_prefix=share_prefix)
    prompts = mixed_prompts(policy.processor)
    ids, mask = responses(policy)
    token = garbage
    if isinstance(garbage, str):
        token = policy.tokenizer.convert_tokens_to_ids(garbage)
    clean = policy.score(prompts, PROMPT_OF_ROW, ids, mask)
    dirty = policy.score(prompts, PROMPT_OF_ROW, ids.masked_fill(~mask, token), mask)
    assert torch.equal(clean.logp_BT, dirty.logp_BT)
    assert torch.equal(clean.entropy_BT, dirty.entropy_BT)


@pytest.mark.parametrize("share_prefix", [True, False])
def test_a_prompt_that_no_row_uses_changes_nothing(
    load_policy: Callable[..., Policy], share_prefix: bool
) -> None:
    policy = load_policy("qwen3_vl", share_prefix=share_prefix)
    image, text = mixed_prompts(policy.processor)[:2]
    ids = torch.full((1, 3), 20)
    mask = torch.ones_like(ids, dtype=torch.bool)
    alone = policy.score([text], torch.tensor([0]), ids, mask)
    beside = policy.score([image, text], torch.tensor([1]), ids, mask)
    torch.testing.assert_close(alone.logp_BT, beside.logp_BT, rtol=0, atol=1e-5)


def test_a_row_without_any_response_token_scores_zero_and_keeps_the_graph(
    load_policy: Callable[..., Policy],
) -> None:
    policy = load_policy("qwen3_vl")
    prompt = encode(policy.processor, "What?", [picture(32, 32)])
    scores = policy.score(
        [prompt],
        torch.tensor([0]),
        torch.full((1, 2), policy.pad_id),
        torch.zeros(1, 2, dtype=torch.bool),
    )
    scores.logp_BT.sum().backward()
    assert not scores.logp_BT.any()
    assert all(
        p.grad is None or not p.grad.any() for p in policy.parameters()
    )  # connected, and zero


def test_greedy_is_scored_at_temperature_one(load_policy: Callable[..., Policy]) -> None:
    policy = load_policy("qwen3_vl")
    prompts = mixed_prompts(policy.processor)
    greedy = score(policy, prompts, temperature=0.0)
    assert torch.equal(greedy.logp_BT, score(policy, prompts, temperature=1.0).logp_BT)


def test_entropy_carries_no_gradient(load_policy: Callable[..., Policy]) -> None:
    policy = load_policy("qwen3_vl")
    scores = score(policy, mixed_prompts(policy.processor))
    assert scores.logp_BT.requires_grad
    assert not scores.entropy_BT.requires_grad


def test_banned_tokens_have_no_probability(load_policy: Callable[..., Policy], family: str) -> None:
    policy = load_policy(family)
    tokens = ("<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>")
    banned = {policy.tokenizer.convert_tokens_to_ids(token) for token in tokens}
    banned |= set(range(len(policy.tokenizer), len(policy.banned_V)))
    assert set(policy.banned_V.nonzero().squeeze(-1).tolist()) == banned
    assert len(policy.banned_V) == policy.model.lm_head.weight.shape[0] > len(policy.tokenizer)

    hidden = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))
    probability = policy.log_probs(hidden, 0.7).exp()
    assert not probability[:, policy.banned_V].any()
    assert (probability[:, ~policy.banned_V] > 0).all()
    torch.testing.assert_close(probability.sum(-1), torch.ones(5))


def test_gradient_checkpointing_changes_the_memory_and_not_the_numbers(
    load_policy: Callable[..., Policy], family: str
) -> None:
    plain = load_policy(family, share_prefix=False)
    checkpointed = load_policy(family, gradient_checkpointing=True)
    assert checkpointed.share_prefix == (family != "qwen3_5")  # its layers cannot share
    assert any(getattr(m, "gradient_checkpointing", False) for m in checkpointed.model.modules())
    gradients = []
    for policy in (plain, checkpointed):
        score(policy, mixed_prompts(policy.processor)).logp_BT.sum().backward()
        gradients.append({n: p.grad for n, p in policy.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-5, atol=1e-5, msg=name)


def test_text_alone_reaches_the_vision_tower_with_a_gradient_of_zero(
    load_policy: Callable[..., Policy], family: str
) -> None:
    """Data-parallel ranks that hold images wait for the gradients of those that hold none."""
    policy = load_policy(family)
    prompt = encode(policy.processor, "How many squares are there?")
    ids, mask = responses(policy)
    rows = torch.zeros(len(ids), dtype=torch.long)
    scores = policy.score([prompt], rows, ids, mask)
    scores.logp_BT.sum().backward()
    tower = dict(policy.backbone.visual.named_parameters())
    assert tower
    for name, parameter in tower.items():
        assert parameter.grad is not None, name
        assert not parameter.grad.any(), name
    expected, _ = reference(policy, prompt, ids[0][mask[0]], 1.0)
    torch.testing.assert_close(scores.logp_BT[0][mask[0]], expected, rtol=1e-5, atol=1e-5)
