"""Published layouts at a size that runs anywhere, to check the formulas against measurement."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Small:
    """Widths and depths; the layout stays the published one."""

    hidden: int
    layers: int
    vocabulary: int = 512
    head_dim: int = 32


ABOUT = {  # by parameters, those of a dense Qwen3-VL
    "1M": Small(hidden=128, layers=4),
    "10M": Small(hidden=320, layers=8),
    "50M": Small(hidden=640, layers=10, head_dim=64),
}


def shrink(config: dict[str, Any], small: Small) -> dict[str, Any]:
    """Contents of a config.json with the layout of ``config`` and the sizes of ``small``.

    Token ids are left out: ``build_model`` fills them in from its tokenizer.
    """
    content = copy.deepcopy(config)
    for name in [key for key in content if key.endswith("_token_id")]:
        del content[name]
    heads = max(2, small.hidden // small.head_dim)
    text = content["text_config"]
    text.update(
        hidden_size=small.hidden,
        num_hidden_layers=small.layers,
        num_attention_heads=heads,
        num_key_value_heads=max(1, heads // 4),
        vocab_size=small.vocabulary,
    )
    replacements = {
        "head_dim": small.head_dim,
        "intermediate_size": 3 * small.hidden,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": small.hidden // 2,
        "shared_expert_intermediate_size": small.hidden // 2,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_num_key_heads": heads,
        "linear_num_value_heads": 2 * heads,
    }
    text.update({key: value for key, value in replacements.items() if key in text})
    _rotary(text, small.head_dim)
    _vision(content["vision_config"], small)
    return content


def _rotary(text: dict[str, Any], head_dim: int) -> None:
    rope = text.get("rope_parameters") or text["rope_scaling"]
    half = int(head_dim * rope.get("partial_rotary_factor", 1.0)) // 2
    third = half // 3
    rope["mrope_section"] = [half - 2 * third, third, third]


def _vision(vision: dict[str, Any], small: Small) -> None:
    vision.update(
        depth=small.layers,
        hidden_size=3 * small.hidden // 4,
        intermediate_size=2 * small.hidden,
        num_heads=4,
        out_hidden_size=small.hidden,
    )
    if vision.get("deepstack_visual_indexes"):
        vision["deepstack_visual_indexes"] = [0, 1, 2]
    if "fullatt_block_indexes" in vision:
        vision["fullatt_block_indexes"] = [small.layers - 1]
