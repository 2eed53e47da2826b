"""Which sample stands at which place of the stream: pure functions of (seed, iteration).

Nothing here reads data, so a position is an integer, and any number of ranks or workers sees the
same stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np


@dataclass(frozen=True, slots=True)
class Place:
    """One place of the stream: the ``ordinal``-th prompt of task number ``task``.

    Example: ``Place(index=81, task=1, ordinal=40)`` is the 82nd prompt of the run, the 41st of task
    1.
    """

    index: int
    task: int
    ordinal: int


def quotas(shares: Sequence[float], prompts: int) -> list[int]:
    """Share ``prompts`` out by largest remainder; ties go to the first task.

    Example: ``quotas([0.5, 0.3, 0.2], 8) == [4, 2, 2]``.
    """
    total = sum(shares)
    # Rounded, so that 0.1 + 0.2 has no remainder that 0.3 has not.
    exact = [round(share / total * prompts, 9) for share in shares]
    counts = [int(x) for x in exact]
    by_remainder = sorted(range(len(shares)), key=lambda k: (counts[k] - exact[k], k))
    for k in by_remainder[: prompts - sum(counts)]:
        counts[k] += 1
    return counts


def batch_places(
    shares: Sequence[float], prompts_per_iteration: int, iteration: int
) -> list[Place]:
    """Places of one iteration's batch, over all ranks, tasks interleaved.

    Counts are differences of cumulative quotas, so that no task drifts from its share by as much as
    a prompt.
    """
    done = quotas(shares, prompts_per_iteration * iteration)
    after = quotas(shares, prompts_per_iteration * (iteration + 1))
    places = [
        (task, ordinal)
        for task, (start, stop) in enumerate(zip(done, after, strict=True))
        for ordinal in range(start, stop)
    ]
    # Deal the tasks out evenly over the batch, so that every rank gets every task's share.
    places.sort(key=lambda p: ((p[1] - done[p[0]] + 0.5) / (after[p[0]] - done[p[0]]), p[0]))
    start = prompts_per_iteration * iteration
    return [Place(start + i, task, ordinal) for i, (task, ordinal) in enumerate(places)]


def sample_number(seed: int, task: int, ordinal: int, size: int, attempt: int = 0) -> int:
    """Which of a task's ``size`` samples stands at ``ordinal``: a new permutation every epoch.

    ``attempt`` counts the samples that could not be used at this place; each takes another
    permutation.
    """
    epoch, within = divmod(ordinal, size)
    return int(_permutation(seed, task, epoch, size, attempt)[within])


@lru_cache(maxsize=64)
def _permutation(seed: int, task: int, epoch: int, size: int, attempt: int) -> np.ndarray:
    return np.random.default_rng([seed, task, epoch, attempt]).permutation(size)
