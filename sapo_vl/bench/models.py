"""Random-weight Qwen2.5-VL and Qwen3-VL models of a given shape, as folders both sides load.

The tokenizer has no merges, so that a character is a token and a prompt has exactly the length
asked for; names that no text contains fill it up to the model's vocabulary. (A smaller tokenizer
would make the policy ban the rest of the vocabulary, and TRL does not.)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sapo_vl.bench.cases import ModelSpec
from sapo_vl.policy.build import SPECIAL_TOKENS, build_model, wrap_tokenizer

HEAD_DIM = 32
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6]}
PATCH = 16
MERGE = 2
TOKEN_PIXELS = PATCH * MERGE  # side of the square that one image token stands for
# Larger than the usual 0.02, so that every token and every picture changes the log-probs and the
# comparison of the two sides says something.
INITIALIZER_RANGE = 0.1


def build_folder(spec: ModelSpec, folder: Path) -> int:
    """Write the model of ``spec`` with its tokenizer and processor; returns the parameter count."""
    return build_model(
        _architecture(spec),
        character_tokenizer(spec.vocabulary),
        folder,
        min_pixels=TOKEN_PIXELS**2,
        max_pixels=(64 * TOKEN_PIXELS) ** 2,
    )


def character_tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer of exactly ``vocabulary`` tokens, a byte each as far as text goes.

    Raises:
        ValueError: fewer tokens than there are bytes and special tokens.
    """
    known = [*SPECIAL_TOKENS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    if vocabulary < len(known):
        raise ValueError(f"a vocabulary of {vocabulary} is too small; it needs {len(known)}")
    filling = (f"<filling{number}>" for number in range(vocabulary - len(known)))
    ids = {token: number for number, token in enumerate([*known, *filling])}
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return wrap_tokenizer(tokenizer)


def _architecture(spec: ModelSpec) -> dict[str, Any]:
    heads = max(2, spec.hidden // HEAD_DIM)
    text: dict[str, Any] = {
        "hidden_size": spec.hidden,
        "intermediate_size": 4 * spec.hidden,
        "num_hidden_layers": spec.layers,
        "num_attention_heads": heads,
        "num_key_value_heads": max(1, heads // 4),
        "head_dim": HEAD_DIM,
        "vocab_size": spec.vocabulary,
        "max_position_embeddings": 8192,
        "initializer_range": INITIALIZER_RANGE,
        "tie_word_embeddings": True,  # as in the small published models
        "rope_parameters": dict(ROPE),
    }
    vision: dict[str, Any] = {
        "depth": spec.layers,
        "hidden_size": spec.hidden,
        "num_heads": heads,
        "intermediate_size": 2 * spec.hidden,
        "patch_size": PATCH,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": 2,
        "out_hidden_size": spec.hidden,
        "initializer_range": INITIALIZER_RANGE,
    }
    if spec.family == "qwen2_5_vl":
        del text["head_dim"]  # not of this family
        vision |= {"window_size": 4 * TOKEN_PIXELS, "fullatt_block_indexes": [spec.layers - 1]}
    elif spec.family == "qwen3_vl":
        text["rope_parameters"]["mrope_interleaved"] = True
        deepstack = list(range(min(3, spec.layers)))
        vision |= {"num_position_embeddings": 48**2, "deepstack_visual_indexes": deepstack}
    else:
        raise ValueError(f"family {spec.family!r} is not one of qwen2_5_vl, qwen3_vl")
    return {
        "model_type": spec.family,
        "tie_word_embeddings": True,
        "text_config": text,
        "vision_config": vision,
    }
