"""What a user says about the policy in YAML."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Part = Literal["vision", "merger", "language"]
Dtype = Literal["float32", "bfloat16", "float16"]


@dataclass(frozen=True, kw_only=True)
class AdapterConfig:
    """LoRA adapters (arXiv 2106.09685), made and run by peft, held in float32.

    There is no dropout: it would sample from one function and train another, and the ratio would
    not be 1 before the first update.

    Args:
        rank: the inner size of an adapter.
        alpha: its output is scaled by alpha / rank.
        targets: "all-linear", every linear layer of ``parts`` but the head; or names of layers, as
            [q_proj, v_proj]. Packed experts of a mixture-of-experts model are parameters, not
            layers: they get adapters only where named ([gate_up_proj, down_proj]), and each pass
            then builds their changed weights anew.
        parts: the parts that get adapters: "vision" (tower), "merger" (projector), "language".
        rslora: scale by alpha / sqrt(rank) instead (arXiv 2312.03732).
    """

    rank: int = 32
    alpha: int = 64
    targets: list[str] | Literal["all-linear"] = "all-linear"
    parts: list[Part] = field(default_factory=lambda: ["language"])
    rslora: bool = False


@dataclass(frozen=True, kw_only=True)
class PolicyConfig:
    """The model to train: where its weights are, which parts stay frozen, how it is run.

    Args:
        path: a local folder in Hugging Face layout (weights, config and processor), or a hub name.
        weights: "pretrained" loads the weights; "random" draws new ones from the folder's config.
        freeze: parts that stay as they are: "vision" (tower), "merger" (projector), "language".
            With ``lora`` the whole model does, and a part named here must get no adapters.
        lora: train adapters instead of the model's own weights.
        quantize: hold the language model's linear layers in 4 bits ("nf4", "fp4"; bitsandbytes),
            which takes ``lora`` (QLoRA, arXiv 2305.14314). They are computed with in ``dtype``.
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
    lora: AdapterConfig | None = None
    quantize: Literal["nf4", "fp4"] | None = None
    dtype: Dtype = "float32"
    attention: str = "sdpa"
    share_prefix: bool = True
    head_chunk_tokens: int = 8192
    gradient_checkpointing: bool = False
