"""Small model folders of every family, in the published layout, and prompts for them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import PreTrainedTokenizerFast

from sapo_vl.policy.build import build_model, train_tokenizer
from sapo_vl.types import Prompt, PromptBatch, PromptInputs

FAMILIES = ("qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5")
VOCAB_SIZE = 320
PADDED_VOCAB_SIZE = 336  # the published embeddings are larger than their tokenizers, too
MEDIA = (
    "pixel_values",
    "image_grid_thw",
    "pixel_values_videos",
    "video_grid_thw",
    "second_per_grid_ts",
)
TEXTS = [
    f"How many {shape} are {colour}? The answer is {number}, it is {side} of the {other}."
    for shape, other in (("circles", "star"), ("squares", "ring"), ("triangles", "bar"))
    for colour in ("red", "green", "blue")
    for number in range(10)
    for side in ("left", "right")
]

TEXT = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,  # DeepStack feeds the first two
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": PADDED_VOCAB_SIZE,
    "max_position_embeddings": 4096,
    "initializer_range": 0.1,  # large enough that every token and image changes the logits
}
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]}
INTERLEAVED = {**ROPE, "mrope_interleaved": True}
VISION = {
    "depth": 2,
    "hidden_size": 32,
    "num_heads": 2,
    "intermediate_size": 48,
    "patch_size": 8,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 64,
    "initializer_range": 0.1,
}
LEARNED_POSITIONS = {"num_position_embeddings": 64}
DEEPSTACK = {"depth": 3, "deepstack_visual_indexes": [0, 1]}
LINEAR_ATTENTION = {
    "layer_types": ["linear_attention", "linear_attention", "full_attention"],
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 48,
    "decoder_sparse_step": 1,
}


def architecture(family: str) -> dict[str, Any]:
    """The contents of a small config.json of ``family``; Qwen3-VL ties its embedding."""
    text, vision, tied = dict(TEXT), dict(VISION), False
    if family == "qwen2_5_vl":
        text |= {"rope_parameters": ROPE}
        vision |= {"window_size": 32, "fullatt_block_indexes": [1], "tokens_per_second": 2}
    elif family == "qwen3_vl":
        text |= {"rope_parameters": INTERLEAVED, "head_dim": 16}
        vision |= LEARNED_POSITIONS | DEEPSTACK
        tied = True
    elif family == "qwen3_vl_moe":
        text |= {"rope_parameters": INTERLEAVED, "head_dim": 16} | EXPERTS
        vision |= LEARNED_POSITIONS | DEEPSTACK
    elif family == "qwen3_5":
        text |= {"rope_parameters": {**INTERLEAVED, "partial_rotary_factor": 0.5}, "head_dim": 32}
        text |= LINEAR_ATTENTION
        vision |= LEARNED_POSITIONS
    else:
        raise ValueError(f"no small architecture for {family!r}")
    text["tie_word_embeddings"] = tied
    return {
        "model_type": family,
        "tie_word_embeddings": tied,
        "text_config": text,
        "vision_config": vision,
    }


def small_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer trained on the spot; about 0.1 s."""
    return train_tokenizer(TEXTS, VOCAB_SIZE)


def build_folder(family: str, folder: Path, tokenizer: Any = None, **text_config: Any) -> Path:
    """Write a small model folder of ``family``; ``text_config`` overrides single values."""
    content = architecture(family)
    content["text_config"] |= text_config
    build_model(
        content, tokenizer or small_tokenizer(), folder, min_pixels=16 * 16, max_pixels=128 * 128
    )
    return folder


def picture(width: int, height: int, name: str = "") -> Image.Image:
    """A picture of coloured noise, the same for the same arguments."""
    generator = np.random.default_rng(zlib.crc32(f"{width} {height} {name}".encode()))
    return Image.fromarray(generator.integers(0, 256, (height, width, 3), dtype=np.uint8))


def encode(
    processor: Any,
    text: str,
    images: Sequence[Image.Image] = (),
    videos: Sequence[np.ndarray] = (),
) -> PromptInputs:
    """One question about ``images`` and ``videos`` as the model takes it."""
    content: list[dict[str, str]] = [{"type": "image"}] * len(images)
    content += [{"type": "video"}] * len(videos)
    content.append({"type": "text", "text": text})
    chat = processor.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    output = processor(
        text=[chat],
        images=list(images) or None,
        videos=list(videos) or None,
        return_tensors="pt",
        **({"do_sample_frames": False} if videos else {}),
    )
    return PromptInputs(
        input_ids_S=output["input_ids"][0],
        mm_token_type_ids_S=output["mm_token_type_ids"][0],
        media={key: torch.as_tensor(output[key]) for key in MEDIA if key in output},
    )


def mixed_prompts(processor: Any) -> list[PromptInputs]:
    """Prompts of four lengths: one picture, none, two of different sizes, one wide."""
    return [
        encode(processor, "How many circles are red?", [picture(32, 32)]),
        encode(processor, "How many squares are there? The answer"),
        encode(processor, "Which is left of the ring?", [picture(48, 32), picture(32, 64)]),
        encode(processor, "blue?", [picture(96, 32)]),
    ]


def prompt_batch(inputs: Sequence[PromptInputs], indices: Sequence[int]) -> PromptBatch:
    """Prompts at the given places of a run's stream."""
    prompts = [Prompt(reference="1", task="count", index=index) for index in indices]
    return PromptBatch(prompts, inputs, ["count"])
