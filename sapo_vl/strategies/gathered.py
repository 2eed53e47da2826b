"""Some parameters whole, where ZeRO-3 has split them over ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def gathered(parameters: Sequence[Any]) -> Iterator[None]:
    """Context in which these parameters are whole on every rank; every rank enters and leaves it.

    For reading: no gradient, and what is written to them is lost. Parameters that are whole
    already, under any strategy, are left alone.
    """
    status = [getattr(p, "ds_status", None) for p in parameters]
    split = [p for p, s in zip(parameters, status, strict=True) if s and s.name == "NOT_AVAILABLE"]
    if not split:
        yield
        return
    import deepspeed

    # Tensors made in inference mode could not be trained on afterwards.
    with torch.inference_mode(False), torch.no_grad(), deepspeed.zero.GatheredParameters(split):
        yield
