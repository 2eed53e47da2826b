"""One packed row, each prompt in it once, gives the numbers of whole sequences."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from models import encode, mixed_prompts, picture
from torch import Tensor

from sapo_vl.policy import Policy, Scores
from sapo_vl.policy.attention import NAME
from sapo_vl.types import PromptInputs

SHARING = ("qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe")
PROMPT_OF_ROW = torch.tensor([0, 3, 0, 1, 4, 1, 2, 0, 2, 5])  # out of order
LENGTHS = torch.tensor([2, 5, 19, 7, 3, 1, 18, 1, 17, 6])


def varied_prompts(processor: object) -> list[PromptInputs]:
    """Pictures, none, two of different sizes, a video, a video beside a picture."""
    frames = np.stack([np.asarray(picture(32, 48, str(n))) for n in range(4)])
    return [
        *mixed_prompts(processor),
        encode(processor, "What moves?", videos=[frames]),
        encode(processor, "Both?", [picture(48, 32)], [frames[:2]]),
    ]


def score(
    policy: Policy,
    prompts: Sequence[PromptInputs],
    share_prefix: bool | None,
    lengths: Tensor = LENGTHS,
    prompt_of_row: Tensor = PROMPT_OF_ROW,
) -> Scores:
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(8, 300, (len(lengths), 19), generator=generator)
    mask = torch.arange(19) < lengths[:, None]
    return policy.score(prompts, prompt_of_row, ids, mask, 0.9, share_prefix=share_prefix)


def gradients(policy: Policy, scores: Scores) -> dict[str, Tensor | None]:
    """Gradient of a loss that weighs every token differently, by parameter name."""
    weights = torch.linspace(-1.0, 2.0, scores.logp_BT.numel()).view_as(scores.logp_BT)
    policy.zero_grad()
    (scores.logp_BT * weights).sum().backward()
    return {n: None if p.grad is None else p.grad.clone() for n, p in policy.named_parameters()}


def assert_equal_scores(found: Scores, expected: Scores, atol: float = 1e-5) -> None:
    torch.testing.assert_close(found.logp_BT, expected.logp_BT, rtol=0, atol=atol)
    torch.testing.assert_close(found.entropy_BT, expected.entropy_BT, rtol=0, atol=atol)


def assert_equal_gradients(
    found: dict[str, Tensor | None], expected: dict[str, Tensor | None]
) -> None:
    for name, gradient in expected.items():
        if gradient is None:
            assert found[name] is None, name
            continue
        scale = float(gradient.abs().max())
        torch.testing.assert_close(
            found[name], gradient, rtol=0, atol=1e-5 * max(scale, 1.0), msg=name
        )


@pytest.mark.filterwarnings("ignore")  # of a video's missing frame rate
@pytest.mark.parametrize(
    ("attention", "gradient_checkpointing"), [("sdpa", False), ("sdpa", True), ("eager", True)]
)
@pytest.mark.parametrize("family", SHARING)
def test_shared_equals_plain_in_value_and_every_gradient(
    load_policy: Callable[..., Policy],
    family: str,
    attention: str,
    gradient_checkpointing: bool,
) -> None:
    policy = load_policy(family, attention=attention, gradient_checkpointing=gradient_checkpointing)
    prompts = varied_prompts(policy.processor)
    assert policy.share_prefix
    shared = score(policy, prompts, None)
    shared_gradient = gradients(policy, shared)
    reference = load_policy(family, attention=attention)
    plain = score(reference, prompts, False)
    plain_gradient = gradients(reference, plain)

    assert_equal_scores(shared, plain)
    assert any("deepstack" in name for name in plain_gradient) == (family != "qwen2_5_vl")
    for name, gradient in plain_gradient.items():
        # A key's bias shifts all scores of a query alike: its gradient is rounding noise.
        if "k_proj.bias" not in name:
            assert gradient is not None, name
            assert gradient.abs().max() > 1e-3, f"{name} has no gradient to compare"
    assert_equal_gradients(shared_gradient, plain_gradient)


@pytest.mark.parametrize("freeze", [["vision"], ["vision", "merger"], ["language"]])
@pytest.mark.parametrize("gradient_checkpointing", [False, True])
def test_frozen_parts(
    load_policy: Callable[..., Policy], freeze: list[str], gradient_checkpointing: bool
) -> None:
    policy = load_policy("qwen3_vl", freeze=freeze, gradient_checkpointing=gradient_checkpointing)
    prompts = mixed_prompts(policy.processor)
    rows, lengths = PROMPT_OF_ROW[:4], LENGTHS[:4]
    shared = score(policy, prompts, True, lengths, rows)
    shared_gradient = gradients(policy, shared)
    plain = score(policy, prompts, False, lengths, rows)
    assert_equal_scores(shared, plain)
    plain_gradient = gradients(policy, plain)
    assert any(gradient is None for gradient in plain_gradient.values())
    assert_equal_gradients(shared_gradient, plain_gradient)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", SHARING)
@pytest.mark.parametrize("gradient_checkpointing", [False, True])
def test_bfloat16_autocast_rounds_shared_and_plain_alike(
    load_policy: Callable[..., Policy], family: str, gradient_checkpointing: bool
) -> None:
    policy = load_policy(family, gradient_checkpointing=gradient_checkpointing)
    prompts = varied_prompts(policy.processor)
    exact = score(policy, prompts, False)
    exact_gradient = gradients(policy, exact)
    error, gradient_error = [], []
    for share_prefix in (False, True):
        with torch.autocast("cpu", torch.bfloat16):
            scores = score(policy, prompts, share_prefix)
        assert scores.logp_BT.dtype == scores.entropy_BT.dtype == torch.float32
        error.append(float((scores.logp_BT - exact.logp_BT).detach().norm()))
        own = gradients(policy, scores)
        gradient_error.append(
            sum(float((own[n] - g).norm() ** 2) for n, g in exact_gradient.items())
        )
    assert 0 < error[1] < 1.5 * error[0]
    assert 0 < gradient_error[1] < 2 * gradient_error[0]


@pytest.mark.parametrize("gradient_checkpointing", [False, True])
def test_responses_of_one_token_alone(
    load_policy: Callable[..., Policy], gradient_checkpointing: bool
) -> None:
    policy = load_policy("qwen3_vl", gradient_checkpointing=gradient_checkpointing)
    prompts, rows = mixed_prompts(policy.processor), torch.tensor([1, 0, 1])
    shared = score(policy, prompts, True, torch.ones(3, dtype=torch.long), rows)
    shared_gradient = gradients(policy, shared)
    plain = score(policy, prompts, False, torch.ones(3, dtype=torch.long), rows)
    assert_equal_scores(shared, plain)
    assert_equal_gradients(shared_gradient, gradients(policy, plain))


def test_no_response_at_all_keeps_the_graph(load_policy: Callable[..., Policy]) -> None:
    policy = load_policy("qwen3_vl")
    nothing = torch.zeros(0, dtype=torch.long)
    scores = score(policy, mixed_prompts(policy.processor), True, nothing, nothing)
    assert scores.logp_BT.shape == scores.entropy_BT.shape == (0, 19)
    found = gradients(policy, scores)
    assert any(gradient is not None for gradient in found.values())
    assert not any(gradient.any() for gradient in found.values() if gradient is not None)


def test_the_attention_is_chosen_for_a_call_and_nothing_else(
    load_policy: Callable[..., Policy],
) -> None:
    """Also after an error, and while the backward pass runs the layers a second time."""
    policy = load_policy("qwen3_vl", attention="eager", gradient_checkpointing=True)
    prompts = mixed_prompts(policy.processor)
    names = []
    layer = policy.backbone.language_model.layers[0].self_attn
    block = policy.backbone.visual.blocks[0].attn
    for module in (layer.o_proj, block.proj):
        module.register_forward_hook(
            lambda *_: names.append(
                (layer.config._attn_implementation, block.config._attn_implementation)
            )
        )
    rows, lengths = PROMPT_OF_ROW[:4], LENGTHS[:4]
    score(policy, prompts, True, lengths, rows).logp_BT.sum().backward()
    inside, outside = (NAME, "eager"), ("eager", "eager")
    assert names == [outside, inside, inside, outside]  # forward, then backwards
    assert layer.config._attn_implementation == "eager"

    names.clear()
    score(policy, prompts, False, lengths, rows)
    assert set(names) == {outside}

    def fail(*_: object) -> None:
        raise RuntimeError("stop here")

    layer.o_proj.register_forward_hook(fail)
    with pytest.raises(RuntimeError, match="stop here"):
        score(policy, prompts, True, lengths, rows)
    assert layer.config._attn_implementation == "eager"


def test_a_configured_flash_kernel_is_not_asked(load_policy: Callable[..., Policy]) -> None:
    """It is not installed here, and would fail; the row is attended to by SDPA."""
    policy = load_policy("qwen3_vl")
    prompts = mixed_prompts(policy.processor)
    rows, lengths = PROMPT_OF_ROW[:4], LENGTHS[:4]
    expected = score(policy, prompts, True, lengths, rows)
    policy.backbone.language_model.config._attn_implementation = "flash_attention_2"
    assert torch.equal(score(policy, prompts, True, lengths, rows).logp_BT, expected.logp_BT)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", SHARING)
def test_no_mask_over_the_row_is_built(
    load_policy: Callable[..., Policy],
    family: str,
    attention: str,
) -> None:
    policy = load_policy(family, attention=attention)
    prompts = mixed_prompts(policy.processor)
    masks = []
    for layer in policy.backbone.language_model.layers:
        layer.self_attn.register_forward_pre_hook(
            lambda module, args, kwargs: masks.append(kwargs["attention_mask"].numel()),
            with_kwargs=True,
        )
    rows, lengths = PROMPT_OF_ROW[:4], LENGTHS[:4]
    score(policy, prompts, True, lengths, rows)
    assert masks
    assert not any(masks)


def test_linear_attention_falls_back_to_plain(
    load_policy: Callable[..., Policy], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "sapo_vl"):
        policy = load_policy("qwen3_5", share_prefix=True)
        assert policy.config.share_prefix
        assert not policy.share_prefix
        prompts = mixed_prompts(policy.processor)
        rows, lengths = PROMPT_OF_ROW[:4], LENGTHS[:4]
        own = score(policy, prompts, None, lengths, rows)
        assert torch.equal(own.logp_BT, score(policy, prompts, False, lengths, rows).logp_BT)
    said = [r.message for r in caplog.records if "share_prefix" in r.message]
    assert said == ["share_prefix: off, qwen3_5 has layers of linear_attention"]
    with pytest.raises(ValueError, match="layers of linear_attention cannot share"):
        score(policy, prompts, True, lengths, rows)


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
    assert rows == [(1, length + 8 * 4)]  # nothing is predicted from a last token

    patches.clear()
    rows.clear()
    policy.score([prompt], own, ids, torch.ones_like(ids, dtype=torch.bool), share_prefix=False)
    assert patches == [16]  # the tower is shared here, too
    assert rows == [(8, length + 5)]


@pytest.mark.parametrize("share_prefix", [True, False])
@pytest.mark.parametrize("name", ["<|image_pad|>", "<|video_pad|>"])
def test_a_placeholder_in_a_response_is_an_error_that_names_the_row(
    load_policy: Callable[..., Policy], share_prefix: bool, name: str
) -> None:
    policy = load_policy("qwen3_vl")
    ids = torch.full((3, 4), 20)
    ids[1, 2] = policy.tokenizer.convert_tokens_to_ids(name)
    mask = torch.ones_like(ids, dtype=torch.bool)
    prompts, rows = mixed_prompts(policy.processor)[:1], torch.zeros(3, dtype=torch.long)
    with pytest.raises(ValueError, match=r"response 1 holds <\|.*_pad\|> at token 2"):
        policy.score(prompts, rows, ids, mask, share_prefix=share_prefix)
