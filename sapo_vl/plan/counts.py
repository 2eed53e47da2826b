"""How many numbers a run holds and how many it trains: frozen parts, LoRA, 4-bit weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from sapo_vl.policy.config import Part
from sapo_vl.policy.parts import PartSize, freeze, part_of, part_sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """What LoRA adapts: ``Adapters(rank=32, targets=None, parts=("language",))``."""

    rank: int
    targets: tuple[str, ...] | None = None  # names of layers; None: every linear one but the head
    parts: tuple[Part, ...] = ("language",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Parameters of a model, of its adapters, and of a frozen model beside it."""

    parts: tuple[PartSize, ...]
    adapters: int = 0
    quantized: int = 0  # of the total, held in 4 bits
    reference: int = 0  # of the second model that a KL penalty takes
    largest_layer: int = 0  # most parameters of one decoder layer or embedding: gathered together
    largest_block: int = 0  # most of one decoder layer
    rest: int = 0  # outside of all decoder layers and vision blocks

    @property
    def total(self) -> int:
        """Parameters of the model itself."""
        return sum(part.total for part in self.parts)

    @property
    def trainable(self) -> int:
        """Parameters with a gradient: the adapters, or what is not frozen."""
        return self.adapters or sum(part.trainable for part in self.parts)


def count(
    model: nn.Module,
    frozen: Sequence[Part] = (),
    adapters: Adapters | None = None,
    *,
    quantize: bool = False,
) -> Counts:
    """Count a model's parameters; with ``adapters`` those alone train."""
    freeze(model, frozen)
    return Counts(
        parts=tuple(part_sizes(model)),
        adapters=adapter_parameters(model, adapters) if adapters else 0,
        quantized=_linear_of_language(model) if quantize else 0,
        largest_layer=largest_layer(model),
        largest_block=max(_size(layer) for layer in _text_layers(model)),
        rest=_size(model) - sum(map(_size, (*_text_layers(model), *_vision_blocks(model)))),
    )


def adapter_parameters(model: nn.Module, adapters: Adapters) -> int:
    """Parameters that LoRA adds: rank x (inputs + outputs) of each adapted linear layer.

    Source: LoRA (arXiv 2106.09685), section 4.1: W + B A with A [rank, in] and B [out, rank].
    """
    found = 0
    for name, layer in model.named_modules():
        if not isinstance(layer, nn.Linear) or part_of(f"{name}.") not in adapters.parts:
            continue
        leaf = name.rsplit(".", 1)[-1]
        if leaf in adapters.targets if adapters.targets else leaf != "lm_head":
            found += adapters.rank * (layer.in_features + layer.out_features)
    return found


def largest_layer(model: Any) -> int:
    """Parameters of the largest module that ZeRO-3 gathers at a time: a layer or an embedding."""
    pieces = [*_text_layers(model), model.model.language_model.embed_tokens]
    return max(map(_size, pieces))


def _text_layers(model: Any) -> Iterable[nn.Module]:
    layers: Iterable[nn.Module] = model.model.language_model.layers
    return layers


def _vision_blocks(model: Any) -> Iterable[nn.Module]:
    blocks: Iterable[nn.Module] = model.model.visual.blocks
    return blocks


def _size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def _linear_of_language(model: nn.Module) -> int:
    """Weights that 4-bit quantization takes: the language model's linear layers, not the head."""
    return sum(
        layer.weight.numel()
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear)
        and part_of(f"{name}.") == "language"
        and "lm_head" not in name
    )


def weighted_bits(quantized: int) -> int:
    """Bytes of 4-bit weights: half a byte each and a float32 scale for every 64.

    Source: bitsandbytes ``functional.quantize_4bit``, blocksize 64; an estimate.
    """
    return quantized // 2 + quantized * 4 // 64


__all__ = [
    "Adapters",
    "Counts",
    "adapter_parameters",
    "count",
    "largest_layer",
    "weighted_bits",
]
