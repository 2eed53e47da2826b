"""Load a Qwen-VL model and its processor; every way this can go wrong gets a readable error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor

from sapo_vl.policy.config import PolicyConfig

# Families whose forward takes mm_encoder_outputs and 3-row M-RoPE positions, as policy.py uses
# them.
FAMILIES = ("qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")


def load_processor(path: str) -> Any:
    """Load the processor (tokenizer, image and video processors, chat template) of a model.

    Raises:
        FileNotFoundError: the folder is missing or has no processor.
    """
    _require_folder(path)
    try:
        processor = AutoProcessor.from_pretrained(path)
    except (OSError, ValueError, TypeError) as error:
        raise FileNotFoundError(
            f"{path} has no usable processor (processor_config.json, tokenizer.json, chat template): "
            f"{_first_line(error)}. Copy these files from the model that the weights come from."
        ) from error
    if not hasattr(processor, "image_processor"):
        raise FileNotFoundError(
            f"{path} has a tokenizer but no image processor; "
            "copy processor_config.json (or preprocessor_config.json) from the original model."
        )
    if processor.chat_template is None:
        raise FileNotFoundError(
            f"{path} has no chat template; copy chat_template.jinja from the original model."
        )
    return processor


def load_model(config: PolicyConfig) -> nn.Module:
    """Load (or draw) the weights of ``config.path``, in training mode, on the current default device.

    Raises:
        FileNotFoundError: the folder or its weights are missing.
        ValueError: the model is of a family that is not supported.
    """
    _require_folder(config.path)
    hf_config = AutoConfig.from_pretrained(config.path)
    if hf_config.model_type not in FAMILIES:
        raise ValueError(
            f"{config.path} is a {hf_config.model_type!r} model; supported families: {', '.join(FAMILIES)}"
        )
    options = {"dtype": getattr(torch, config.dtype), "attn_implementation": config.attention}
    if config.weights == "random":
        model = AutoModelForImageTextToText.from_config(hf_config, **options)
    else:
        try:
            model = AutoModelForImageTextToText.from_pretrained(config.path, **options)
        except OSError as error:
            raise FileNotFoundError(
                f"{config.path} has no weights (model.safetensors): {_first_line(error)}. "
                "For new random weights set policy.weights: random."
            ) from error
    if config.gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()  # from_pretrained returns evaluation mode, and fit no longer changes it
    return model


def _require_folder(path: str) -> None:
    looks_local = path.startswith((".", "/", "~")) or path.count("/") != 1
    if looks_local and not Path(path).expanduser().is_dir():
        raise FileNotFoundError(
            f"policy.path: no folder {path!r}. Give a local Hugging Face folder or a hub name (owner/name)."
        )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
