"""The Hugging Face model of a checkpoint, on the CPU, with one copy of each weight at most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn
from transformers import AutoModelForImageTextToText, GenerationConfig
from transformers.integrations import deepspeed as hf_deepspeed
from transformers.utils import logging as hf_logging

from sapo_vl.export.checkpoint import Checkpoint
from sapo_vl.policy.config import PolicyConfig
from sapo_vl.policy.loading import load_base, load_config
from sapo_vl.policy.lora import adapter_layers, add_adapters
from sapo_vl.policy.parts import part_of


def trained_model(checkpoint: Checkpoint, dtype: torch.dtype) -> Any:
    """The model as the run left it; with LoRA the adapters are merged into the weights.

    Weights that the checkpoint holds stay in its file (mapped into memory) unless the dtype
    changes. Those that it leaves out, since they did not train, come from the base model folder.

    Raises:
        FileNotFoundError: the base model folder is missing.
        ValueError: the checkpoint is of another architecture than the base model folder.
    """
    if checkpoint.config.lora is not None:
        model = adapted_model(checkpoint, dtype)
        merge(model)
        return model
    with _outside_zero3():
        model = _empty_model(checkpoint.config)
        absent = _names(model) - set(checkpoint.weights)
        if absent:
            _check_frozen(absent, checkpoint)
            model = load_base(replace(checkpoint.config, dtype=_name(dtype), weights="pretrained"))
        _fill(model, checkpoint, _names(model) - absent, dtype)
        return model


def adapted_model(checkpoint: Checkpoint, dtype: torch.dtype) -> Any:
    """The base model with the checkpoint's adapters on it, not merged."""
    config, lora = checkpoint.config, checkpoint.config.lora
    if lora is None:
        raise ValueError("the checkpoint has no adapters: its run trained the weights themselves")
    if config.quantize is None:
        config = replace(config, dtype=_name(dtype))
    with _outside_zero3():
        model = load_base(config)
        if config.quantize is not None:  # what the adapters were trained on top of
            model = model.dequantize().to(dtype)
        add_adapters(model, lora, config.freeze)
    adapters = {name for name, p in model.named_parameters() if p.requires_grad}
    _fill(model, checkpoint, adapters, torch.float32)
    return model


def merge(model: nn.Module) -> None:
    """Add every adapter to its layer's weight, in float32, rounded once; then take it away."""
    for layer in adapter_layers(model):
        weights = _targets(layer)
        dtypes = [weight.dtype for weight in weights]
        for weight in weights:
            weight.data = weight.data.float()
        layer.merge()
        for weight, dtype in zip(weights, dtypes, strict=True):
            weight.data = weight.data.to(dtype)
    parents = [m for m in model.modules() if not isinstance(m, BaseTunerLayer)]
    for parent in parents:
        for name, child in parent.named_children():
            if isinstance(child, BaseTunerLayer):  # around the layer, or around others of its kind
                setattr(parent, name, child.get_base_layer())


def _targets(layer: Any) -> list[nn.Parameter]:
    """The one parameter that a layer of peft's changes."""
    base = layer.get_base_layer()
    return [getattr(base, getattr(layer, "parameter_name", "weight"))]


def _empty_model(config: PolicyConfig) -> Any:
    """The architecture with its settings, names and tied weights, and no memory for weights."""
    hf_config = load_config(config.path)
    try:
        with _quiet():
            return AutoModelForImageTextToText.from_pretrained(config.path, device_map="meta")
    except OSError:  # a folder without weights serves as well: the run drew random ones
        with torch.device("meta"):
            model = AutoModelForImageTextToText.from_config(hf_config)
        model.generation_config = GenerationConfig.from_pretrained(config.path)
        return model


def _fill(
    model: nn.Module, checkpoint: Checkpoint, names: Iterable[str], dtype: torch.dtype
) -> None:
    """Put the checkpoint's weights in place of the model's, one after the other."""
    for name in sorted(names):
        if name not in checkpoint.weights:
            raise ValueError(
                f"the checkpoint has no {name!r}, which a model of "
                f"{checkpoint.config.path} needs: it is of another architecture"
            )
        value = checkpoint.weights[name].contiguous()
        old = model.get_parameter(name)
        if value.shape != old.shape:
            raise ValueError(
                f"{name!r} is {list(value.shape)} in the checkpoint and {list(old.shape)} in "
                f"{checkpoint.config.path}: another architecture, or policy.lora changed"
            )
        owner, _, last = name.rpartition(".")
        new = nn.Parameter(value.to(dtype), requires_grad=False)
        setattr(model.get_submodule(owner), last, new)
    model.tie_weights()  # type: ignore[operator]


def _check_frozen(absent: set[str], checkpoint: Checkpoint) -> None:
    """Only weights that did not train may be left out of a checkpoint."""
    trained = sorted(name for name in absent if part_of(name) not in checkpoint.config.freeze)
    if trained:
        raise ValueError(
            f"the checkpoint lacks {len(trained)} trained weights of a model of "
            f"{checkpoint.config.path}, first {trained[0]!r}: it is of another architecture"
        )


def _names(model: nn.Module) -> set[str]:
    """Parameter names, those of tied ones once."""
    return {name for name, _ in model.named_parameters()}


def _name(dtype: torch.dtype) -> Any:
    return str(dtype).removeprefix("torch.")


@contextmanager
def _outside_zero3() -> Iterator[None]:
    """Load whole weights even where a training run in this process splits every model it loads."""
    config = hf_deepspeed._hf_deepspeed_config_weak_ref
    hf_deepspeed.unset_hf_deepspeed_config()
    try:
        yield
    finally:
        hf_deepspeed._hf_deepspeed_config_weak_ref = config


@contextmanager
def _quiet() -> Iterator[None]:
    level = hf_logging.get_verbosity()
    hf_logging.set_verbosity_error()
    try:
        yield
    finally:
        hf_logging.set_verbosity(level)
