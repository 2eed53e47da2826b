"""QLoRA: a base in 4 bits that stays as it is, adapters that train."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable

import pytest
import torch
from models import mixed_prompts

from sapo_vl.policy import AdapterConfig, Policy, quantize
from sapo_vl.policy.parts import part_sizes

LORA = AdapterConfig(rank=4, alpha=8)


def test_the_quantized_base_stays_and_the_adapters_train(
    load_policy: Callable[..., Policy],
) -> None:
    pytest.importorskip("bitsandbytes")
    from bitsandbytes.nn import Linear4bit

    policy = load_policy("qwen2_5_vl", lora=LORA, quantize="nf4")
    layers = {n for n, m in policy.model.named_modules() if isinstance(m, Linear4bit)}
    assert len(layers) == 7 * 3  # q, k, v, o, gate, up, down; no tower, no head
    assert all(name.startswith("model.language_model.layers.") for name in layers)
    sizes, plain = part_sizes(policy.model), part_sizes(load_policy("qwen2_5_vl", lora=LORA).model)
    assert sizes == plain  # a byte of two weights counts as two

    start = {name: value.clone() for name, value in policy.model.state_dict().items()}
    trained = [p for p in policy.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2)
    ids = torch.arange(4 * 5).view(4, 5) + 20
    mask = torch.ones_like(ids, dtype=torch.bool)
    prompts, losses = mixed_prompts(policy.processor), []
    for _ in range(4):
        loss = -policy.score(prompts, torch.arange(4), ids, mask).logp_BT.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < losses[0]
    moved = {k for k, v in policy.model.state_dict().items() if not torch.equal(v, start[k])}
    assert moved == {name for name in start if "lora_" in name}
    assert start["model.language_model.layers.0.mlp.up_proj.base_layer.weight"].dtype == torch.uint8


def test_without_bitsandbytes_the_error_says_what_to_install(
    load_policy: Callable[..., Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        quantize, "find_spec", lambda name: None if name == "bitsandbytes" else real(name)
    )
    with pytest.raises(ImportError, match=r"sapo-vl\[qlora\]"):
        load_policy("qwen3_vl", lora=LORA, quantize="nf4")


def test_packed_experts_cannot_be_quantized(load_policy: Callable[..., Policy]) -> None:
    pytest.importorskip("bitsandbytes")
    with pytest.raises(ValueError, match="packed experts"):
        load_policy("qwen3_vl_moe", lora=LORA, quantize="nf4")


def test_bitsandbytes_says_nothing_of_a_kernel_where_nothing_is_quantized() -> None:
    pytest.importorskip("bitsandbytes")
    theirs = importlib.import_module("bitsandbytes.backends.cpu.ops").logger  # what warns
    assert not theirs.isEnabledFor(logging.WARNING)
