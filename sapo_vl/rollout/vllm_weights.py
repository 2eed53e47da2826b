"""The policy's weights as a published checkpoint has them, whatever the strategy did to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from sapo_vl.policy import Policy
from sapo_vl.policy.lora import NAME, adapter_layers
from sapo_vl.strategies import gathered


def published_state(policy: Policy, dtype: torch.dtype, *, keep: bool) -> dict[str, Tensor]:
    """Every weight once, on the CPU, with LoRA adapters added in; tied ones under one name.

    Weights that ZeRO-3 or FSDP2 has split are gathered one after the other, so that no GPU holds
    more than one of them at a time. Every rank has to call this; those that do not ``keep`` get an
    empty dictionary.

    Args:
        policy: as it is trained.
        dtype: of the tensors returned.
        keep: whether this rank needs them.

    Raises:
        ValueError: the base weights are quantized.
    """
    if policy.config.quantize is not None:
        raise ValueError(
            f"policy.quantize: {policy.config.quantize}: adapters on quantized weights cannot be "
            "handed to a vLLM server. Take policy.quantize out, or sample in process "
            "(model.rollout: sapo_vl.rollout.Sampler)."
        )
    state = {}
    with torch.no_grad():
        for name, parameter, adapters in _weights(policy.model):
            parts = [p for layer in adapters for p in _factors(layer)]
            split = isinstance(parameter, DTensor)  # by FSDP2: whole by a call of every rank
            with gathered([parameter, *parts]):
                if keep or split:
                    value = _with_adapters(parameter, adapters)
                    value = value.full_tensor() if isinstance(value, DTensor) else value
                if keep:
                    state[name] = value.to("cpu", dtype, copy=True)
    return state


def _weights(model: Any) -> Iterator[tuple[str, nn.Parameter, list[Any]]]:
    """Name without peft's layers, parameter, and the adapters on it."""
    adapters: dict[int, list[Any]] = {}
    for layer in adapter_layers(model):
        adapters.setdefault(id(_target(layer)), []).append(layer)
    for name, parameter in model.named_parameters():
        if ".lora_" not in name:
            yield name.replace(".base_layer", ""), parameter, adapters.get(id(parameter), [])


def _target(layer: Any) -> nn.Parameter:
    """The one parameter that a layer of peft's changes."""
    name = getattr(layer, "parameter_name", "weight")
    parameter: nn.Parameter = getattr(layer.get_base_layer(), name)
    return parameter


def _factors(layer: Any) -> list[nn.Parameter]:
    return [layer.lora_A[NAME].weight, layer.lora_B[NAME].weight]


def _with_adapters(parameter: nn.Parameter, adapters: list[Any]) -> Tensor:
    """The sum in float32, to be rounded once."""
    value = parameter.detach()
    for layer in adapters:
        value = value.float() + layer.get_delta_weight(NAME).float()
    return value


def fingerprint(policy: Policy) -> tuple[int, ...]:
    """A number for each trainable weight, of this rank's share of it, that changes with it."""
    if isinstance(policy, FSDPModule):
        policy.reshard()  # without a backward pass FSDP2 leaves the last weights it used whole
    return tuple(
        _sum_of_bits(_own_share(parameter))
        for parameter in policy.model.parameters()
        if parameter.requires_grad
    )


def _own_share(parameter: Any) -> Tensor:
    share = getattr(parameter, "ds_tensor", parameter)
    return share.to_local() if isinstance(share, DTensor) else share


def _sum_of_bits(value: Tensor) -> int:
    bits = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[value.element_size()]
    return int(value.detach().reshape(-1).view(bits).sum(dtype=torch.int64))
