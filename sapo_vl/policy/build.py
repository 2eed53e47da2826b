"""Make a new model folder from a YAML file: architecture with random weights, tokenizer, processor.

The folder has the layout of a published Qwen checkpoint, so everything that reads one reads the
other. Used where no weights can be had: the quickstart and the tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    PreTrainedTokenizerFast,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

from sapo_vl.policy.published import save_published

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)

# ChatML with the vision placeholders of Qwen-VL.
CHAT_TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string -%}
{{ message.content }}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'image' -%}<|vision_start|><|image_pad|><|vision_end|>
{%- elif part.type == 'video' -%}<|vision_start|><|video_pad|><|vision_end|>
{%- else -%}{{ part.text }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}"""

# Words, numbers digit by digit, punctuation, blanks: the split rule of the Qwen tokenizers.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

PROCESSORS = {
    "qwen2_5_vl": (Qwen2_5_VLProcessor, Qwen2VLVideoProcessor),
    "qwen3_vl": (Qwen3VLProcessor, Qwen3VLVideoProcessor),
    "qwen3_vl_moe": (Qwen3VLProcessor, Qwen3VLVideoProcessor),
    "qwen3_5": (Qwen3VLProcessor, Qwen3VLVideoProcessor),
    "qwen3_5_moe": (Qwen3VLProcessor, Qwen3VLVideoProcessor),
}


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer with Qwen's split rule and special tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return wrap_tokenizer(tokenizer)


def wrap_tokenizer(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    """Give a tokenizer that holds Qwen's special tokens their roles and the chat template."""
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens={
            "image_token": "<|image_pad|>",
            "video_token": "<|video_pad|>",
            "vision_start_token": "<|vision_start|>",
            "vision_end_token": "<|vision_end|>",
        },
        chat_template=CHAT_TEMPLATE,
    )


def build_model(
    architecture: Mapping[str, Any],
    tokenizer: PreTrainedTokenizerFast,
    folder: str | Path,
    *,
    min_pixels: int = 65536,
    max_pixels: int = 16777216,
    seed: int = 0,
) -> int:
    """Write a folder with random weights, tokenizer and processor; returns the parameter count.

    Args:
        architecture: the contents of a config.json; ids of special tokens and the vocabulary size
            are filled in from the tokenizer.
        tokenizer: with Qwen's special tokens and a chat template.
        folder: where to write; made if missing.
        min_pixels: the image processor's least pixels an image.
        max_pixels: the image processor's most pixels an image.
        seed: of the random weights.

    Raises:
        ValueError: the architecture's model_type is not supported.
    """
    model_type = architecture.get("model_type", "")
    if model_type not in PROCESSORS:
        raise ValueError(f"model_type {model_type!r} is not one of {', '.join(PROCESSORS)}")
    config = AutoConfig.for_model(**_with_token_ids(architecture, tokenizer))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    save_published(model, folder)

    _processor(config, tokenizer, min_pixels, max_pixels).save_pretrained(folder)
    return sum(p.numel() for p in model.parameters())


def _processor(
    config: Any, tokenizer: PreTrainedTokenizerFast, min_pixels: int, max_pixels: int
) -> Any:
    processor_class, video_class = PROCESSORS[config.model_type]
    vision = config.vision_config
    pixels: dict[str, Any] = {
        "size": {"shortest_edge": min_pixels, "longest_edge": max_pixels},
        "patch_size": vision.patch_size,
        "merge_size": vision.spatial_merge_size,
        "temporal_patch_size": vision.temporal_patch_size,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
    }
    return processor_class(
        image_processor=Qwen2VLImageProcessor(**pixels),
        video_processor=video_class(**pixels),
        tokenizer=tokenizer,
        chat_template=tokenizer.chat_template,
    )


def _with_token_ids(
    architecture: Mapping[str, Any], tokenizer: PreTrainedTokenizerFast
) -> dict[str, Any]:
    ids = {
        "image_token_id": "<|image_pad|>",
        "video_token_id": "<|video_pad|>",
        "vision_start_token_id": "<|vision_start|>",
        "vision_end_token_id": "<|vision_end|>",
    }
    filled = dict(architecture)
    filled.update({key: tokenizer.convert_tokens_to_ids(token) for key, token in ids.items()})
    text = dict(filled["text_config"])
    text.setdefault("vocab_size", len(tokenizer))
    text["bos_token_id"] = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    text["eos_token_id"] = tokenizer.eos_token_id
    text["pad_token_id"] = tokenizer.pad_token_id
    if text["vocab_size"] < len(tokenizer):
        raise ValueError(
            f"text_config.vocab_size is {text['vocab_size']}; "
            f"the tokenizer has {len(tokenizer)} tokens"
        )
    filled["text_config"] = text
    return filled
