"""What tests of the export share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForImageTextToText, AutoProcessor


def loaded(folder: Path) -> Any:
    """The model of a folder that transformers reads as a whole, processor included."""
    processor = AutoProcessor.from_pretrained(folder)
    assert processor.chat_template
    model, report = AutoModelForImageTextToText.from_pretrained(folder, output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model


def merged_by_hand(weights: dict[str, Tensor], scale: float) -> dict[str, Tensor]:
    """W + scale * B A for each adapted layer; the others as they are."""
    merged = {}
    for name, value in weights.items():
        if ".lora_" in name:
            continue
        layer, wrapped, last = name.rpartition(".base_layer.")
        if wrapped and last == "weight":
            a, b = (weights[f"{layer}.lora_{x}.default.weight"] for x in "AB")
            value = (value.double() + scale * (b.double() @ a.double())).to(value.dtype)
        merged[name.replace(".base_layer.", ".")] = value
    assert torch.is_tensor(next(iter(merged.values())))
    return merged
