"""The shape of a model without its weights: published ones by hub name, others from their folder.

``architectures/*.json`` hold the published ``config.json`` values with the number of parameters
that transformers builds from them, so that nothing has to be fetched.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForImageTextToText

from sapo_vl.policy.loading import load_config


@cache
def _published() -> dict[str, dict[str, Any]]:
    folder = files("sapo_vl.plan") / "architectures"
    contents = [json.loads(file.read_text(encoding="utf-8")) for file in folder.iterdir()]
    return {content["name"]: content for content in contents}


def published_names() -> list[str]:
    """Hub names whose architecture is known without a network."""
    return sorted(_published())


def published_parameters(name: str) -> int:
    """Parameters of a published model: a tied embedding once, no multi-token prediction."""
    return int(_published()[name]["parameters"])


def load_architecture(path: str, key: str = "model.policy.path") -> Any:
    """The transformers config of a model folder, or of a published model by its hub name.

    Args:
        path: the folder or name.
        key: of the configuration that said so, for the error.

    Raises:
        FileNotFoundError: neither a folder with a config.json nor a known name.
        ValueError: a folder of an unsupported family.
    """
    if Path(path).is_dir():
        return load_config(path)
    if path not in _published():
        raise FileNotFoundError(
            f"{key} is {path!r}: no such folder, and no published architecture of that "
            f"name. Give a folder with a config.json, or one of {', '.join(published_names())}."
        )
    return AutoConfig.for_model(**_published()[path]["config"])


def meta_model(config: Any) -> Any:
    """The model with parameters that have shapes and no memory."""
    with torch.device("meta"):
        return AutoModelForImageTextToText.from_config(config)
