"""Read a file of torch.save's without running anything in it."""

from __future__ import annotations

from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch


def load(path: Path) -> dict[str, Any]:
    """Map a file that torch.save wrote into memory; tensors are read when they are used.

    Raises:
        ValueError: another kind of file, or one with objects in it that would have to be run.
    """
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (RuntimeError, UnpicklingError, EOFError, ValueError) as error:
        raise ValueError(
            f"{path} is no checkpoint that can be read safely: {str(error).splitlines()[0]} "
            "It is cut short or of another kind, or it holds objects besides tensors and plain "
            "values; those are never unpickled."
        ) from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is no checkpoint: it holds a {type(content).__name__}")
    return content
