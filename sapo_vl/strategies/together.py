"""What one rank fails at by itself ends all of them: nobody is left to wait for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

log = logging.getLogger(__name__)


@contextmanager
def together(strategy: Any) -> Iterator[None]:
    """Context for what a rank does without the others; where one fails in it, every rank raises.

    Ranks tell each other as they leave, which makes it a barrier, too: every rank has to enter and
    leave it, and inside no rank may wait for another.

    Raises:
        RuntimeError: another rank failed; says which, and by what. A rank's own error is raised as
            it is, with a note.
    """
    ranks = getattr(strategy, "world_size", 1)
    if ranks == 1:
        yield
        return
    rank = strategy.global_rank
    own: Exception | None = None
    try:
        yield
    except Exception as error:
        own = error
        own.add_note(f"on rank {rank} of {ranks}, which ends the others")
        log.error("rank %d failed, the others end when they come here: %s", rank, _said(own))
    nobody = torch.tensor(float(ranks), dtype=torch.float32, device=strategy.root_device)
    first = int(strategy.reduce(nobody if own is None else nobody * 0 + rank, reduce_op="min"))
    if first < ranks:
        message = strategy.broadcast(None if own is None else _said(own), src=first)
        raise own or RuntimeError(f"rank {first} of {ranks} failed: {message}")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
