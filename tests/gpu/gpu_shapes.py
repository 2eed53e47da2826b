"""Folders with a published model's shape and no weights: those are drawn on the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from models import VOCAB_SIZE, build_folder, small_tokenizer
from transformers import AutoConfig, AutoProcessor

QWEN2_5_VL_3B: dict[str, Any] = {
    "model_type": "qwen2_5_vl",
    "tie_word_embeddings": True,
    "text_config": {
        "hidden_size": 2048,
        "intermediate_size": 11008,
        "num_hidden_layers": 36,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "vocab_size": 151936,
        "max_position_embeddings": 128000,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1000000.0,
            "mrope_section": [16, 24, 24],
        },
        "tie_word_embeddings": True,
    },
    "vision_config": {
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "window_size": 112,
        "fullatt_block_indexes": [7, 15, 23, 31],
        "out_hidden_size": 2048,
        "tokens_per_second": 2,
    },
}
QWEN3_VL_4B: dict[str, Any] = {
    "model_type": "qwen3_vl",
    "tie_word_embeddings": True,
    "text_config": {
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "max_position_embeddings": 262144,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 5000000.0,
            "mrope_section": [24, 20, 20],
            "mrope_interleaved": True,
        },
        "tie_word_embeddings": True,
    },
    "vision_config": {
        "depth": 24,
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_heads": 16,
        "deepstack_visual_indexes": [5, 11, 17],
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "num_position_embeddings": 2304,
        "out_hidden_size": 2560,
    },
}
SHAPES = {"qwen2_5_vl_3b": QWEN2_5_VL_3B, "qwen3_vl_4b": QWEN3_VL_4B}
PARAMETERS = {"qwen2_5_vl_3b": 3_754_622_976, "qwen3_vl_4b": 4_437_815_808}  # the published ones


def shape_folder(name: str, folder: Path) -> Path:
    """A folder with the config of ``name`` and a small tokenizer; weights: random is needed."""
    content = {key: dict(v) if isinstance(v, dict) else v for key, v in SHAPES[name].items()}
    small = build_folder(content["model_type"], folder.with_name(f"{folder.name}-small"))
    ids = AutoConfig.from_pretrained(small)
    for key in ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"):
        content[key] = getattr(ids, key)
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        content["text_config"][key] = getattr(ids.text_config, key)
    AutoConfig.for_model(**content).save_pretrained(folder)
    processor = AutoProcessor.from_pretrained(small)
    for part in (processor.image_processor, processor.video_processor):
        part.patch_size = content["vision_config"]["patch_size"]
        part.size = {"shortest_edge": 28 * 28, "longest_edge": 2048 * 2048}
    processor.save_pretrained(folder)
    assert len(small_tokenizer()) <= VOCAB_SIZE
    return folder
