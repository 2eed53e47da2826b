"""Decoding against one copy of each prompt equals decoding with a copy per row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from types import SimpleNamespace

import pytest
import torch
from models import mixed_prompts
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from sapo_vl.plan.rollout import RolloutSize, rollout_cache
from sapo_vl.plan.shape import Shape
from sapo_vl.policy import Policy
from sapo_vl.policy.decoding import GroupDecoder, RowDecoder
from sapo_vl.policy.group_cache import FIRST_TOKENS, GroupCache

PROMPT_B = torch.tensor([0, 0, 0, 1, 2, 2, 3, 3, 3])
STEPS = FIRST_TOKENS + 6  # past the first growth of the buffers
# row of the whole batch -> the step before which it ends: one row, several, a whole prompt
ENDS = {4: 1, 0: 3, 8: 3, 1: 20, 3: 40, 7: FIRST_TOKENS + 1, 2: FIRST_TOKENS + 2}
CUDA = pytest.param(
    "cuda",
    marks=[
        pytest.mark.gpu,
        pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    ],
)
SHARING = ("qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe")


def decode(decoder: GroupDecoder | RowDecoder) -> tuple[Tensor, list[Tensor]]:
    """Hidden states by step and row [steps, B, D], and the rows still there at each step."""
    tokens = torch.randint(
        0, 250, (STEPS, len(PROMPT_B)), generator=torch.Generator().manual_seed(0)
    )
    rows, hidden = torch.arange(len(PROMPT_B)), []
    seen = []
    for step in range(STEPS):
        alive = torch.tensor([ENDS.get(int(r), STEPS) > step for r in rows])
        if not alive.all():
            rows = rows[decoder.keep(alive)]
        decoder.step(tokens[step][rows])
        all_rows = torch.zeros(len(PROMPT_B), decoder.hidden_BD.shape[1])
        all_rows[rows] = decoder.hidden_BD.float()
        hidden.append(all_rows)
        seen.append(rows.sort().values)
    return torch.stack(hidden), seen


def both(policy: Policy) -> tuple[GroupDecoder, RowDecoder]:
    prompts = mixed_prompts(policy.processor)
    shared = policy.decoder(prompts, PROMPT_B, STEPS)
    copied = RowDecoder(policy.backbone.language_model, policy.prefill(prompts), PROMPT_B)
    assert isinstance(shared, GroupDecoder)
    return shared, copied


@pytest.mark.parametrize("family", SHARING)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@torch.no_grad()
def test_hidden_states_equal_those_of_copied_caches(
    load_policy: Callable[..., Policy], family: str, attention: str
) -> None:
    policy = load_policy(family, attention=attention).eval()
    shared, copied = both(policy)
    hidden, seen = decode(shared)
    expected, expected_seen = decode(copied)
    assert all(torch.equal(a, b) for a, b in zip(seen, expected_seen, strict=True))
    torch.testing.assert_close(hidden, expected, rtol=1e-4, atol=1e-5)
    assert policy.backbone.language_model.config._attn_implementation == attention


@torch.no_grad()
def test_a_prompt_is_kept_once_and_forgotten_with_its_rows(
    load_policy: Callable[..., Policy],
) -> None:
    policy = load_policy("qwen3_vl").eval()
    prefix = policy.prefill(mixed_prompts(policy.processor))
    cache = GroupCache(prefix.cache, prefix.mask_PS.bool(), PROMPT_B, STEPS)
    assert cache.prompts == 4
    cache.keep(PROMPT_B != 3)
    assert cache.prompts == 4  # a copy of three is not worth one prompt less
    cache.keep(torch.tensor([True, False, False, False, True, True]))
    assert cache.prompts == 2


@torch.no_grad()
def test_it_holds_what_the_plan_counts(load_policy: Callable[..., Policy]) -> None:
    policy = load_policy("qwen2_5_vl").eval()
    prompts = [mixed_prompts(policy.processor)[0]] * 3
    prompt_B = torch.arange(3).repeat_interleave(4)
    decoder = policy.decoder(prompts, prompt_B, STEPS)
    for _ in range(STEPS):
        decoder.step(torch.zeros(12, dtype=torch.long))
    assert isinstance(decoder, GroupDecoder)
    held = sum(x.nbytes for layer in decoder._cache._layers for x in astuple(layer))
    text = Shape.of(policy.model.config).text
    run = RolloutSize(
        prompts=3,
        group=4,
        prompt_tokens=len(prompts[0].input_ids_S),
        new_tokens=STEPS,
        image_tokens=0,
    )
    growing = 12 * STEPS * 2 * text.key_value_heads * text.head_dim * 4
    assert held == rollout_cache(text, run, size=4) - growing


@torch.no_grad()
def test_the_implementation_is_restored_after_an_error(
    load_policy: Callable[..., Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = load_policy("qwen3_vl").eval()
    shared, _ = both(policy)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(GroupCache, "attend", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        shared.step(torch.zeros(len(PROMPT_B), dtype=torch.long))
    assert policy.backbone.language_model.config._attn_implementation == "sdpa"


def random_cache(prompt_B: Tensor, *, padding: int) -> tuple[GroupCache, Tensor, Tensor, Tensor]:
    """A cache of one layer with a token a row, the query of a row, all keys and all values."""
    generator = torch.Generator().manual_seed(0)
    prompts, rows = int(prompt_B.max()) + 1, len(prompt_B)
    heads, queries, s, d = 2, 6, 40, 64

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(prompt_B.device, torch.bfloat16)

    mask_PS = torch.ones(prompts, s, dtype=torch.bool, device=prompt_B.device)
    mask_PS[0, :padding] = False
    # Large keys: scores of about 30, which bfloat16 rounds by up to 1/8.
    layer = SimpleNamespace(keys=4 * draw(prompts, heads, s, d), values=draw(prompts, heads, s, d))
    cache = GroupCache(SimpleNamespace(layers=[layer]), mask_PS, prompt_B, 1)
    cache.make_room()
    own_key, own_value = 4 * draw(rows, heads, 1, d), draw(rows, heads, 1, d)
    cache.update(own_key, own_value, 0)
    keys = torch.cat([layer.keys[prompt_B], own_key], dim=2)
    values = torch.cat([layer.values[prompt_B], own_value], dim=2)
    return cache, 2 * draw(rows, queries, d), keys, values


@pytest.mark.parametrize("device", ["cpu", CUDA])
@torch.no_grad()
def test_half_precision_is_as_exact_as_in_sdpa(device: str) -> None:
    prompt_B = torch.tensor([0, 0, 0, 1, 2, 2], device=device)
    cache, query, keys, values = random_cache(prompt_B, padding=5)
    mask = torch.ones(len(prompt_B), 1, 1, keys.shape[2], dtype=torch.bool, device=device)
    mask[prompt_B == 0, ..., :5] = False

    def sdpa(*tensors: Tensor) -> Tensor:
        q, k, v = tensors
        k, v = (x.repeat_interleave(3, dim=1) for x in (k, v))
        return scaled_dot_product_attention(q[:, :, None], k, v, mask, scale=0.125)[:, :, 0]

    exact = sdpa(query.double(), keys.double(), values.double())
    theirs = (sdpa(query, keys, values) - exact).abs()
    out = cache.attend(query, 0, 0.125)
    ours = (out - exact).abs()
    assert out.dtype == torch.bfloat16
    assert ours.mean() <= 1.05 * theirs.mean()
    assert ours.max() <= 1.5 * theirs.max()


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
@torch.no_grad()
def test_under_autocast_it_holds_what_attention_computes_with(
    load_policy: Callable[..., Policy], family: str
) -> None:
    policy = load_policy(family).eval()
    with torch.autocast("cpu", torch.bfloat16):
        shared, copied = both(policy)
        for decoder in (shared, copied):
            decoder.step(torch.arange(len(PROMPT_B)))
    held = {x.dtype for layer in shared._cache._layers for x in astuple(layer)}
    assert held == {torch.bfloat16}
    difference = (shared.hidden_BD - copied.hidden_BD).abs().max()
    assert difference < 0.02 * copied.hidden_BD.abs().max()
