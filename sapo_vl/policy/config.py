"""What a user says about the policy in YAML."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Part = Literal["vision", "merger", "language"]
Dtype = Literal["float32", "bfloat16", "float16"]


@dataclass(frozen=True, kw_only=True)
class PolicyConfig:
    """The model to train: where its weights are, which parts stay frozen, how it is run.

    Args:
        path: a local folder in Hugging Face layout (weights, config and processor), or a hub name.
        weights: "pretrained" loads the weights; "random" draws new ones from the folder's config.
        freeze: parts that stay as they are: "vision" (tower), "merger" (projector), "language".
        dtype: the dtype the weights are held in.
        attention: the attention implementation of transformers ("sdpa", "eager",
            "flash_attention_2").
        share_prefix: compute each image and prompt once per group instead of once per response. The
            numbers are the same; models whose layers cannot share fall back by themselves.
        head_chunk_tokens: response positions per pass through the language-model head; bounds
            memory.
        gradient_checkpointing: recompute activations in the backward pass.
    """

    path: str
    weights: Literal["pretrained", "random"] = "pretrained"
    freeze: list[Part] = field(default_factory=list)
    dtype: Dtype = "float32"
    attention: str = "sdpa"
    share_prefix: bool = True
    head_chunk_tokens: int = 8192
    gradient_checkpointing: bool = False
