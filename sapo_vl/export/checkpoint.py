"""Open a training checkpoint without reading its weights, and without running anything in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch

from sapo_vl.export.safe_load import load
from sapo_vl.export.zero import ZERO_FILES, open_zero
from sapo_vl.policy.config import AdapterConfig, PolicyConfig

PREFIX = "policy.model."  # the Hugging Face model inside a module


class Weight(Protocol):
    """A tensor, or one that is put together from its shards when asked for."""

    def contiguous(self) -> torch.Tensor:
        """The whole tensor."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a training run saved of its model."""

    config: PolicyConfig
    dtype: torch.dtype  # that the run computed with
    weights: Mapping[str, Weight]  # by the names of the model in memory, adapters included


def open_checkpoint(path: str | Path, base: str | None = None) -> Checkpoint:
    """Open a Lightning checkpoint file or a DeepSpeed checkpoint folder (ZeRO 1, 2, 3).

    Args:
        path: of the file or the folder.
        base: the model folder that the run started from, where it is no longer where it was.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a checkpoint of this package, or one that could only be read by running it.
    """
    path = Path(path)
    if path.is_dir():
        content, weights = open_zero(path)
    elif path.is_file():
        content = load(path)
        weights = content.get("state_dict", {})
    else:
        raise FileNotFoundError(f"no checkpoint {str(path)!r}")
    weights = {k.removeprefix(PREFIX): v for k, v in weights.items() if k.startswith(PREFIX)}
    if not weights:
        raise ValueError(
            f"{path} holds no weights of a policy. Give a checkpoint of `sapo-vl fit` (.ckpt), or "
            f"the folder that DeepSpeed wrote ({', '.join(ZERO_FILES)})."
        )
    record = content.get("policy", {})
    config = _config(record.get("config"), base, path)
    dtype = getattr(torch, record.get("dtype", config.dtype))
    return Checkpoint(config, dtype, weights)


def _config(saved: dict[str, Any] | None, base: str | None, path: Path) -> PolicyConfig:
    if saved is None:
        if base is None:
            raise ValueError(
                f"{path} does not say which model folder its run started from (an early version "
                "wrote it): name that folder with --base"
            )
        return PolicyConfig(path=base)
    lora = saved["lora"]
    config = PolicyConfig(**saved | {"lora": lora and AdapterConfig(**lora)})
    return config if base is None else replace(config, path=base)
