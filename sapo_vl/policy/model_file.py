"""Read a model YAML (configs/quickstart/model.yaml is one) and build the folder it describes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from sapo_vl.policy.build import build_model, train_tokenizer

FIELDS = {"architecture", "tokenizer", "min_pixels", "max_pixels", "seed"}
NEEDED = {
    "architecture": ("model_type", "text_config", "vision_config"),
    "tokenizer": ("vocab_size",),
}


def build_from_file(
    path: str | Path, texts: Iterable[str], folder: str | Path, seed: int | None = None
) -> int:
    """Train a tokenizer on ``texts`` and write the model of a YAML file; returns its size.

    ``seed`` stands in for that of the file.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a missing or unknown field.
    """
    content = _read(path)
    tokenizer = train_tokenizer(_repeated(texts), content["tokenizer"]["vocab_size"])
    options = {k: content[k] for k in ("min_pixels", "max_pixels", "seed") if k in content}
    if seed is not None:
        options["seed"] = seed
    return build_model(content["architecture"], tokenizer, folder, **options)


def _read(path: str | Path) -> dict[str, Any]:
    with Path(path).open(encoding="utf-8") as file:
        content: Any = yaml.safe_load(file)
    if not isinstance(content, dict):
        raise ValueError(f"{path}: not a mapping; a model file has {sorted(FIELDS)}")
    unknown = set(content) - FIELDS
    if unknown:
        raise ValueError(f"{path}: unknown {sorted(unknown)}; a model file has {sorted(FIELDS)}")
    for field, needed in NEEDED.items():
        if field not in content:
            raise ValueError(f"{path}: {field} is missing")
        for key in needed:
            if key not in content[field]:
                raise ValueError(f"{path}: {field}.{key} is missing")
    return content


def _repeated(texts: Iterable[str]) -> Iterator[str]:
    """The texts and the words every chat holds."""
    yield from texts
    yield from ["user", "assistant", "system"] * 10
