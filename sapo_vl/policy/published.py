"""Write a model with the names and shapes of the published checkpoints, which vLLM reads too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

# Published as [experts, in, out]. transformers 5 holds them as [experts, out, in], reads both and
# writes what it holds.
TRANSPOSED = {
    "qwen3_vl_moe": (".mlp.experts.gate_up_proj", ".mlp.experts.down_proj"),
}


def save_published(
    model: Any,
    folder: str | Path,
    max_shard_size: str = "5GB",
    state: Mapping[str, Tensor] | None = None,
) -> None:
    """Write weights, config.json and generation_config.json to ``folder``.

    ``state`` takes the place of the model's own weights, under the model's own names.
    """
    turned = TRANSPOSED.get(model.config.model_type, ())
    given = model.state_dict() if state is None else state
    written = {
        name: value.transpose(1, 2) if name.endswith(turned) and not _square(value) else value
        for name, value in given.items()
    }
    # For these transformers has no other change of layout, and it would turn them back.
    original = not turned
    model.save_pretrained(
        folder, state_dict=written, max_shard_size=max_shard_size, save_original_format=original
    )


def _square(experts: Tensor) -> bool:
    """Whether transformers, which goes by the shape, would read them as they are."""
    return experts.shape[1] == experts.shape[2]
