"""Which sample stands at which place of the stream: pure functions of (seed, iteration).

Nothing here reads data, so a position is an integer, and any number of ranks or workers sees the
same stream.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
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


def counts_after(shares: Sequence[float], prompts_per_iteration: int, iterations: int) -> list[int]:
    """Prompts of each task in the first ``iterations`` iterations together.

    Every iteration holds a task's share of it rounded down or up, and every total is off by less
    than one prompt, however long the run and however small the share.

    Example: ``counts_after([0.5, 0.3, 0.2], 8, 1) == [4, 2, 2]``.
    """
    return _plan(tuple(shares), prompts_per_iteration).after(iterations)


def batch_places(
    shares: Sequence[float], prompts_per_iteration: int, iteration: int
) -> list[Place]:
    """Places of one iteration's batch, over all ranks.

    The tasks are dealt out evenly over the batch, so that any stretch of it, such as one rank's
    part, holds every task's share.
    """
    done = counts_after(shares, prompts_per_iteration, iteration)
    after = counts_after(shares, prompts_per_iteration, iteration + 1)
    places = [
        (task, ordinal)
        for task, (start, stop) in enumerate(zip(done, after, strict=True))
        for ordinal in range(start, stop)
    ]
    places.sort(key=lambda p: ((p[1] - done[p[0]] + 0.5) / (after[p[0]] - done[p[0]]), p[0]))
    start = prompts_per_iteration * iteration
    return [Place(start + i, task, ordinal) for i, (task, ordinal) in enumerate(places)]


def sample_number(seed: int, task: int, ordinal: int, size: int, attempt: int = 0) -> int:
    """Which of a task's ``size`` samples stands at ``ordinal``: a new permutation every epoch.

    ``attempt`` counts the samples that could not be used at this place; each is replaced by one
    drawn at random.
    """
    if attempt:
        return int(np.random.default_rng([seed, task, ordinal, attempt]).integers(size))
    epoch, within = divmod(ordinal, size)
    return int(_permutation(seed, task, epoch, size)[within])


@lru_cache(maxsize=64)
def _permutation(seed: int, task: int, epoch: int, size: int) -> np.ndarray:
    return np.random.default_rng([seed, task, epoch]).permutation(size)


class _Plan:
    """Counts of every task, iteration after iteration.

    A task's share of an iteration is x = whole + rest prompts. The whole ones are given every time;
    which tasks get one more is a problem of fair scheduling: sum(rest) machines, one unit of work
    for each task at most, shares of time ``rest``. Algorithm PD2 of Anderson and Srinivasan (Mixed
    Pfair/ERfair scheduling, 2004) solves it with errors below one. Rounding the totals by largest
    remainder would not do: a task's total can then fall when the number of prompts rises.
    """

    def __init__(self, shares: tuple[float, ...], prompts: int) -> None:
        # Through text, since the decimals in a YAML file are meant: 0.1, 0.2 and 0.7 add up to 1.
        exact = [Fraction(str(share)) for share in shares]
        each = [prompts * share / sum(exact) for share in exact]
        self.whole = [int(x) for x in each]
        self.rest = [x - whole for x, whole in zip(each, self.whole, strict=True)]
        self.period = math.lcm(*(x.denominator for x in self.rest))
        self.extra = [[0] * len(each)]  # [t][task]: given above the whole ones, in t iterations

    def after(self, iterations: int) -> list[int]:
        periods, within = divmod(iterations, self.period)  # after each period all errors are 0
        while len(self.extra) <= within:
            self.extra.append(self._next(self.extra[-1], len(self.extra) - 1))
        return [
            whole * iterations + int(rest * self.period) * periods + extra
            for whole, rest, extra in zip(self.whole, self.rest, self.extra[within], strict=True)
        ]

    def _next(self, given: list[int], iteration: int) -> list[int]:
        due = [
            (*_urgency(rest, count), task)
            for task, (rest, count) in enumerate(zip(self.rest, given, strict=True))
            if rest and count * rest.denominator // rest.numerator <= iteration
        ]
        chosen = {task for *_, task in sorted(due)[: int(sum(self.rest))]}
        return [count + (task in chosen) for task, count in enumerate(given)]


def _urgency(rest: Fraction, given: int) -> tuple[int, bool, int]:
    """Sort key of a task's next unit, smallest first: its deadline, and PD2's two tie-breaks."""
    a, b = rest.numerator, rest.denominator
    deadline = _ceil((given + 1) * b, a)
    on_time = (given + 1) * b % a == 0  # the window of the unit after it begins at the deadline
    if on_time or 2 * a < b:
        return deadline, on_time, 0
    # Taking this unit late would force those after it into their last places, up to here.
    group_deadline = _ceil(_ceil(deadline * (b - a), b) * b, b - a)
    return deadline, on_time, -group_deadline


def _ceil(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


@lru_cache(maxsize=16)
def _plan(shares: tuple[float, ...], prompts: int) -> _Plan:
    return _Plan(shares, prompts)
