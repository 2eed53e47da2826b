"""LoRA adapters on a loaded model: peft's layers, put in place, so that module paths stay."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, get_args

import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.tuners_utils import BaseTunerLayer, cast_adapter_dtype
from torch import nn

from sapo_vl.policy.config import AdapterConfig, Part
from sapo_vl.policy.parts import part_of

NAME = "default"  # peft's own name of an only adapter
HEAD = "lm_head"
EXPERTS = ".experts."  # a mixture-of-experts layer keeps its weights in one parameter


def add_adapters(model: nn.Module, config: AdapterConfig, frozen: Iterable[Part] = ()) -> None:
    """Freeze the model and give it adapters that change nothing yet.

    Raises:
        ValueError: a rank below 1, an unknown part or target, the head as a target, or a part
            named in ``frozen``.
    """
    inject_adapter_in_model(peft_config(model, config, frozen), model, adapter_name=NAME)
    hold_in_float32(model)


def peft_config(model: nn.Module, config: AdapterConfig, frozen: Iterable[Part] = ()) -> LoraConfig:
    """What peft is told: the same settings, and the layers of ``model`` by name."""
    _check(config, set(frozen))
    layers = _layers(model, config.parts)
    experts = _experts(model) if "language" in config.parts else set()
    if config.targets == "all-linear":
        chosen, packed = layers, []
    else:
        known = {_leaf(name) for name in layers} | experts
        unknown = sorted(set(config.targets) - known)
        if unknown or not config.targets:
            raise ValueError(
                f"policy.lora.targets: {unknown} name no layer of {config.parts}; "
                f"known: all-linear, or some of {sorted(known)}"
            )
        chosen = [name for name in layers if _leaf(name) in config.targets]
        packed = [f"{EXPERTS[1:]}{name}" for name in config.targets if name in experts]
    return LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        target_modules=chosen,
        target_parameters=packed or None,
        use_rslora=config.rslora,
    )


@contextmanager
def adapters_off(model: nn.Module) -> Iterator[None]:
    """The base model for the time of a ``with`` block."""
    layers = adapter_layers(model)
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


def adapter_layers(model: nn.Module) -> list[Any]:
    """Peft's layers, each around a layer of the base model."""
    return [module for module in model.modules() if isinstance(module, BaseTunerLayer)]


def hold_in_float32(model: nn.Module) -> None:
    """Hold adapters in float32, whatever the base is in, as peft does.

    In bfloat16 an optimizer's small steps would be rounded away. DeepSpeed keeps float32 copies of
    its own, and a parameter that ZeRO-3 has split must keep its dtype.
    """
    if not any(hasattr(parameter, "ds_id") for parameter in model.parameters()):
        cast_adapter_dtype(model, NAME)


def float32_adapters(model: nn.Module) -> list[nn.Parameter]:
    """Adapters that are held in float32; none where ZeRO-3 has split the model."""
    if any(hasattr(parameter, "ds_id") for parameter in model.parameters()):
        return []
    named = model.named_parameters()
    return [p for name, p in named if ".lora_" in name and p.dtype == torch.float32]


def base_fingerprint(model: nn.Module) -> int | None:
    """Number that tells one frozen base from another, from a few values of every tensor.

    None where ZeRO-3 has split the tensors over ranks, or this rank has not loaded them (FSDP2).
    """
    frozen = [p for p in model.parameters() if not p.requires_grad]
    if any(hasattr(p, "ds_id") or p.is_meta for p in frozen):
        return None
    crc = 0
    for parameter in frozen:
        few = parameter.detach().flatten()[:16].cpu().contiguous()
        crc = zlib.crc32(few.view(torch.uint8).numpy().tobytes(), crc)
    return crc


def _check(config: AdapterConfig, frozen: set[Part]) -> None:
    if config.rank < 1:
        raise ValueError(f"policy.lora.rank is {config.rank}; it must be at least 1")
    if config.targets != "all-linear" and HEAD in config.targets:
        raise ValueError(
            f"policy.lora.targets names {HEAD}, which gets no adapter: smaller models tie it to "
            "the embedding, which an adapter would change as well, and log-probs are computed in "
            "chunks from the head's own weight. Take it out."
        )
    known = get_args(Part)
    unknown = sorted(set(config.parts) - set(known))
    if unknown or not config.parts:
        raise ValueError(
            f"policy.lora.parts: {config.parts}; it takes one or more of {list(known)}"
        )
    both = sorted(set(config.parts) & frozen)
    if both:
        raise ValueError(
            f"policy.freeze and policy.lora.parts both name {both}. Adapters train a part whose "
            "own weights stay frozen: take it out of policy.freeze, or out of policy.lora.parts."
        )


def _layers(model: nn.Module, parts: Iterable[Part]) -> list[str]:
    """Names of the linear layers of ``parts``; the head is none of them."""
    head = model.get_output_embeddings()  # type: ignore[operator]
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module is not head and part_of(name + ".") in parts
    ]


def _experts(model: nn.Module) -> set[str]:
    """Last names of the packed experts' weights."""
    return {_leaf(name) for name, _ in model.named_parameters() if EXPERTS in name}


def _leaf(name: str) -> str:
    return name.rsplit(".", 1)[-1]
