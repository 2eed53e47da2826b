"""Which part a parameter belongs to, and freezing by part."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from models import encode, picture

from sapo_vl.policy import Policy
from sapo_vl.policy.parts import PartSize, freeze, part_of, part_sizes, part_table


def parts(policy: Policy) -> dict[str, set[str]]:
    """Parameter names of each part, layer numbers left out."""
    found: dict[str, set[str]] = {"vision": set(), "merger": set(), "language": set()}
    for name, _ in policy.model.named_parameters():
        found[part_of(name)].add(".".join(p for p in name.split(".") if not p.isdigit()))
    return found


def test_every_parameter_of_every_family_has_its_part(
    load_policy: Callable[..., Policy], family: str
) -> None:
    found = parts(load_policy(family))
    assert all(name.startswith("model.visual.") for name in found["vision"] | found["merger"])
    assert all(".merger." in n or ".deepstack_merger_list." in n for n in found["merger"])
    assert not any("merger" in name for name in found["vision"] | found["language"])
    assert "model.visual.patch_embed.proj.weight" in found["vision"]
    assert "model.language_model.embed_tokens.weight" in found["language"]
    assert ("lm_head.weight" in found["language"]) == (family != "qwen3_vl")  # that one is tied
    deepstack = any("deepstack" in name for name in found["merger"])
    assert deepstack == (family in ("qwen3_vl", "qwen3_vl_moe"))


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("visual.blocks.0.attn.qkv.weight", "vision"),  # checkpoints before transformers 5
        ("visual.merger.mlp.0.weight", "merger"),
        ("policy.model.model.visual.blocks.0.norm1.weight", "vision"),
        ("base_model.model.model.visual.merger.mlp.0.lora_A.default.weight", "merger"),
        ("model.language_model.layers.0.mlp.experts.gate_up_proj", "language"),
        ("lm_head.weight", "language"),
    ],
)
def test_names_with_other_prefixes(name: str, part: str) -> None:
    assert part_of(name) == part


@pytest.mark.parametrize("frozen", [["vision"], ["vision", "merger"], ["language"], ["merger"]])
def test_frozen_parts_get_no_gradient_and_the_others_do(
    load_policy: Callable[..., Policy], family: str, frozen: list[str]
) -> None:
    policy = load_policy(family, freeze=frozen)
    prompt = encode(policy.processor, "How many?", [picture(32, 32), picture(48, 32)])
    ids = torch.full((2, 3), 20)
    scores = policy.score(
        [prompt], torch.tensor([0, 0]), ids, torch.ones_like(ids, dtype=torch.bool)
    )
    scores.logp_BT.sum().backward()
    for name, parameter in policy.model.named_parameters():
        if part_of(name) in frozen:
            assert not parameter.requires_grad, name
            assert parameter.grad is None, name
        else:
            assert parameter.grad is not None, name


def test_freezing_again_thaws_the_rest(load_policy: Callable[..., Policy]) -> None:
    policy = load_policy("qwen3_vl", freeze=["vision"])
    freeze(policy.model, ["merger"])
    trainable = {part_of(n) for n, p in policy.model.named_parameters() if p.requires_grad}
    assert trainable == {"vision", "language"}


def test_nothing_left_to_train_is_an_error(load_policy: Callable[..., Policy]) -> None:
    with pytest.raises(ValueError, match=r"policy\.freeze: .*leaves nothing to train"):
        load_policy("qwen3_vl", freeze=["vision", "merger", "language"])


def test_an_unknown_part_is_an_error(load_policy: Callable[..., Policy]) -> None:
    with pytest.raises(
        ValueError, match=r"unknown \['tower'\]; known: \['vision', 'merger', 'lang"
    ):
        load_policy("qwen3_vl", freeze=["tower"])


def test_sizes_count_every_parameter_once(load_policy: Callable[..., Policy], family: str) -> None:
    policy = load_policy(family, freeze=["vision", "merger"])
    vision, merger, language = part_sizes(policy.model)
    assert [vision.part, merger.part, language.part] == ["vision", "merger", "language"]
    assert vision.trainable == merger.trainable == 0
    assert language.trainable == language.total > 0
    total = sum(p.numel() for p in policy.model.parameters())
    assert vision.total + merger.total + language.total == total


def test_table() -> None:
    table = part_table([PartSize("vision", 1_000, 0), PartSize("language", 3_000_000, 3_000_000)])
    assert table.splitlines() == [
        "part              parameters         trainable   share",
        "vision                 1,000                 0      0%",
        "language           3,000,000         3,000,000    100%",
        "all                3,001,000         3,000,000    100%",
    ]
