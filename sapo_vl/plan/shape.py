"""The numbers of a model that memory depends on, whatever its family calls them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A sparse feed-forward: ``Experts(count=128, per_token=8, width=768, shared_width=0)``."""

    count: int
    per_token: int
    width: int  # of one expert
    shared_width: int  # of the expert that every token takes; 0: none


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaNet:
    """A linear-attention layer of Qwen3.5 (gated delta net)."""

    key_heads: int
    value_heads: int
    key_dim: int  # of one head
    value_dim: int  # of one head


@dataclass(frozen=True, slots=True, kw_only=True)
class TextShape:
    """The language model."""

    hidden: int
    attention_layers: int
    delta_layers: int
    heads: int
    key_value_heads: int
    head_dim: int
    mlp: int  # width of a dense feed-forward; unused where there are experts
    vocabulary: int
    qk_norm: bool  # an RMS norm on queries and keys
    zero_centred: bool  # Qwen3.5's RMS norm, which keeps one more float32 copy
    gated: bool  # Qwen3.5's output gate
    experts: Experts | None
    delta: DeltaNet | None

    @property
    def layers(self) -> int:
        """Decoder layers of both kinds."""
        return self.attention_layers + self.delta_layers


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionShape:
    """The vision tower with its mergers."""

    hidden: int
    layers: int
    heads: int
    mlp: int
    patch: int
    merge: int  # a token stands for merge x merge patches
    temporal: int
    gated_mlp: bool  # Qwen2.5-VL: gate, up and down, and RMS norms
    deepstack: int  # further mergers, one each

    @property
    def token_pixels(self) -> int:
        """Pixels of an image that one token stands for."""
        return (self.patch * self.merge) ** 2


@dataclass(frozen=True, slots=True)
class Shape:
    """A vision-language model."""

    text: TextShape
    vision: VisionShape

    @classmethod
    def of(cls, config: Any) -> Shape:
        """Read a transformers config of one of the supported families."""
        return cls(_text(config.text_config, config.model_type), _vision(config.vision_config))

    def image_tokens(self, pixels: int) -> int:
        """Tokens of an image of this many pixels, the prompt's vision marks left out."""
        return pixels // self.vision.token_pixels


def _text(config: Any, family: str) -> TextShape:
    kinds = list(getattr(config, "layer_types", None) or [])
    linear = kinds.count("linear_attention")
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return TextShape(
        hidden=config.hidden_size,
        attention_layers=config.num_hidden_layers - linear,
        delta_layers=linear,
        heads=config.num_attention_heads,
        key_value_heads=config.num_key_value_heads,
        head_dim=head_dim,
        mlp=getattr(config, "intermediate_size", 0),
        vocabulary=config.vocab_size,
        qk_norm=family != "qwen2_5_vl",
        zero_centred=linear > 0,
        gated=linear > 0,
        experts=_experts(config),
        delta=_delta(config) if linear else None,
    )


def _experts(config: Any) -> Experts | None:
    if not getattr(config, "num_experts", 0):
        return None
    return Experts(
        count=config.num_experts,
        per_token=config.num_experts_per_tok,
        width=config.moe_intermediate_size,
        shared_width=getattr(config, "shared_expert_intermediate_size", 0),
    )


def _delta(config: Any) -> DeltaNet:
    return DeltaNet(
        key_heads=config.linear_num_key_heads,
        value_heads=config.linear_num_value_heads,
        key_dim=config.linear_key_head_dim,
        value_dim=config.linear_value_head_dim,
    )


def _vision(config: Any) -> VisionShape:
    return VisionShape(
        hidden=config.hidden_size,
        layers=config.depth,
        heads=config.num_heads,
        mlp=config.intermediate_size,
        patch=config.patch_size,
        merge=config.spatial_merge_size,
        temporal=config.temporal_patch_size,
        gated_mlp=hasattr(config, "window_size"),
        deepstack=len(getattr(config, "deepstack_visual_indexes", None) or []),
    )
