"""Shards of made photos, and a processor to read them with."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image
from webdataset import TarWriter

from sapo_vl.policy.build import build_model, train_tokenizer

QUESTION = "How many shapes are red?"
ARCHITECTURE = {  # as small as can be: only its processor is used
    "model_type": "qwen3_vl",
    "text_config": {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "rope_parameters": {"rope_type": "default", "mrope_section": [2, 1, 1]},
    },
    "vision_config": {
        "depth": 1,
        "hidden_size": 16,
        "num_heads": 2,
        "intermediate_size": 16,
        "patch_size": 16,
        "deepstack_visual_indexes": [0],
        "out_hidden_size": 16,
        "num_position_embeddings": 16,
    },
}


def build_processor(folder: Path) -> str:
    """Make a model folder with a processor of published size; gives its path."""
    build_model(ARCHITECTURE, train_tokenizer([QUESTION] * 50, 400), folder)
    return str(folder)


def write_samples(folder: Path, count: int, size: int) -> str:
    """Write shards of JPEG photos (blurred noise); gives their pattern."""
    generator = np.random.default_rng(0)
    for start in range(0, count, 32):
        with TarWriter(str(folder / f"photo-{start // 32:06d}.tar"), encoder=False) as tar:
            for number in range(start, min(start + 32, count)):
                coarse = generator.integers(0, 256, (size // 8, size // 8, 3), dtype=np.uint8)
                buffer = BytesIO()
                Image.fromarray(coarse).resize((size, size)).save(buffer, "JPEG", quality=90)
                row = json.dumps({"question": QUESTION, "answer": str(number)}).encode()
                tar.write({"__key__": f"{number:06d}", "json": row, "jpg": buffer.getvalue()})
    return str(folder / "photo-*.tar")
