"""Load a Qwen-VL model; every way this can go wrong gets a readable error."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import AutoConfig, AutoModelForImageTextToText, GenerationConfig

from sapo_vl.policy.config import PolicyConfig
from sapo_vl.policy.lora import add_adapters
from sapo_vl.policy.parts import freeze
from sapo_vl.policy.quantize import quantization_config
from sapo_vl.processor import first_line, require_folder

# Families whose forward takes mm_encoder_outputs and 3-row M-RoPE positions, as policy.py uses
# them.
FAMILIES = ("qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")


def load_config(path: str) -> Any:
    """Load the config.json of a model.

    Raises:
        FileNotFoundError: the folder is missing or has no config.json.
        ValueError: the model is of a family that is not supported.
    """
    require_folder(path)
    try:
        config = AutoConfig.from_pretrained(path)
    except OSError as error:
        if not Path(path).is_dir():  # owner/name: a hub name, or a folder mistyped
            raise FileNotFoundError(
                f"no model folder {path!r}, and no such model on the hub: {first_line(error)}. "
                "Give a local Hugging Face folder or a hub name (owner/name) within reach."
            ) from error
        raise FileNotFoundError(
            f"{path} has no usable config.json: {first_line(error)}. "
            "Copy it from the model that the weights come from."
        ) from error
    except ValueError as error:  # no model_type, or one that transformers does not know
        raise ValueError(
            f"{path}: its config.json does not say what model this is: {first_line(error)} "
            f"Give the folder of a model of a supported family: {', '.join(FAMILIES)}."
        ) from error
    if config.model_type not in FAMILIES:
        raise ValueError(
            f"{path} is a {config.model_type!r} model. "
            f"Give the folder of a model of a supported family: {', '.join(FAMILIES)}."
        )
    return config


def load_model(config: PolicyConfig) -> nn.Module:
    """Load the model to train: weights, adapters, what is frozen; in training mode.

    Raises:
        FileNotFoundError: the folder or its weights are missing or unreadable.
        ImportError: ``quantize`` without bitsandbytes.
        ValueError: the model is of a family that is not supported, the weights are of another, or
            ``freeze``, ``lora`` and ``quantize`` do not go together.
    """
    model = load_base(config)
    if config.lora is None:
        freeze(model, config.freeze)
    else:
        add_adapters(model, config.lora, config.freeze)
    if config.gradient_checkpointing:
        model.activation_checkpointing_enable({"use_reentrant": False})
    model.train()  # from_pretrained returns evaluation mode, and fit no longer changes it
    return model


def load_base(config: PolicyConfig) -> Any:
    """Load (or draw) the weights of ``config.path`` on the default device, without adapters.

    On the meta device nothing is read: what comes has the shapes alone.

    Raises:
        FileNotFoundError: the folder or its weights are missing or unreadable.
        ImportError: ``quantize`` without bitsandbytes.
        ValueError: the model is of a family that is not supported, the weights are of another, or
            ``quantize``, ``lora`` and ``weights`` do not go together.
    """
    hf_config = load_config(config.path)
    dtype = getattr(torch, config.dtype)
    options: dict[str, Any] = {"dtype": dtype, "attn_implementation": config.attention}
    if config.lora is not None and config.weights == "random":
        raise ValueError(
            "policy.lora needs policy.weights: pretrained. Checkpoints hold adapters alone, and "
            "random weights could not be had again; save them to a folder first."
        )
    if config.quantize is not None:
        if config.lora is None:
            raise ValueError(
                f"policy.quantize: {config.quantize} needs policy.lora: quantized weights do not "
                "train"
            )
        options["quantization_config"] = quantization_config(
            config.quantize, dtype, hf_config.model_type
        )
    if config.weights == "random":
        return AutoModelForImageTextToText.from_config(hf_config, **options)
    if torch.get_default_device().type == "meta":
        return _without_weights(config.path, hf_config, options)
    return _load_weights(config.path, options)


def _without_weights(path: str, hf_config: Any, options: dict[str, Any]) -> Any:
    model = AutoModelForImageTextToText.from_config(hf_config, **options)
    with suppress(OSError):  # a folder needs no generation_config.json
        model.generation_config = GenerationConfig.from_pretrained(path)
    return model


def _load_weights(path: str, options: dict[str, Any]) -> Any:
    try:
        loaded: Any = AutoModelForImageTextToText.from_pretrained(
            path, output_loading_info=True, ignore_mismatched_sizes=True, **options
        )
    except (OSError, SafetensorError) as error:
        raise FileNotFoundError(
            f"{path} has no usable weights (model.safetensors): {first_line(error)}. "
            "Copy them again, or set policy.weights: random for new random ones."
        ) from error
    model, report = loaded
    # transformers gives both random values and a warning.
    missing = sorted(report["missing_keys"])
    mismatched = sorted(str(name) for name, *_ in report["mismatched_keys"])
    if missing or mismatched:
        raise ValueError(
            f"{path}: its weights do not fit its config.json: {len(missing)} tensors are missing "
            f"and {len(mismatched)} have another shape, first {(missing + mismatched)[0]}. "
            "Take both from the same model."
        )
    return model
