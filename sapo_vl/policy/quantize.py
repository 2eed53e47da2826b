"""4-bit base weights (QLoRA), by bitsandbytes through transformers."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
from transformers import BitsAndBytesConfig

# The tower is small and its features feed every token; logits want the head's full precision.
NOT_QUANTIZED = [r".*\.visual", "lm_head"]  # transformers matches from the start of a name


def quantization_config(kind: str, dtype: torch.dtype, model_type: str) -> Any:
    """What transformers is told to hold the language model in 4 bits.

    Raises:
        ImportError: bitsandbytes is missing.
        ValueError: a mixture-of-experts model.
    """
    if find_spec("bitsandbytes") is None:
        raise ImportError(
            f"policy.quantize: {kind} needs bitsandbytes, which is not installed; "
            'pip install "sapo-vl[qlora]"'
        )
    if model_type.endswith("_moe"):
        raise ValueError(
            f"policy.quantize: {kind} cannot hold the packed experts of a {model_type} model, most "
            "of its weights: bitsandbytes quantizes linear layers alone. Leave policy.quantize out."
        )
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=kind,
        bnb_4bit_compute_dtype=dtype,
        bnb_4bit_use_double_quant=True,
        llm_int8_skip_modules=NOT_QUANTIZED,
    )
