"""Which sample stands at which place of the stream: pure functions of (seed, iteration).

Nothing here reads data, so a position is an integer, and any number of ranks or workers sees the
same stream.

How exact the shares can be. A task's share of a batch is x = whole + rest prompts. Where all rests
are 0 every batch is exact. Else a batch holds x rounded down or up and the first b batches hold
x * b rounded down or up. Over any window of whole batches the error is below one prompt where the
tasks with a rest are two, or tasks of equal rests take turns until at most two rests are left; in
general only below two, and no rule can do better than one: if every window of a task is off by less
than one, its total less x * b stays within a range shorter than one, so the total is
ceil(x * b + c) for some c. Three such sequences with different rests r1 + r2 + r3 = 1 can add up to
N * b for all b only if the rests are 4/7, 2/7 and 1/7 (Fraenkel's conjecture, proven for three
sequences by Morikawa, 1985; up to six by Tijdeman, 2000). With shares 0.6, 0.25, 0.15 and 7 prompts
the rests are 0.2, 0.75, 0.05, and already the first 20 batches cannot be dealt out so. If rests
matter, choose ``prompts_per_iteration`` so that there are none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

LOOKED_AT = 500  # iterations


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


def worst_window(shares: Sequence[float], prompts_per_iteration: int) -> float:
    """Largest error of a task over any window of whole batches, in prompts.

    The counts repeat; where the repeat is longer than LOOKED_AT iterations, only these are seen.

    Example: ``worst_window([0.6, 0.25, 0.15], 7) == 1.4``; with 20 prompts it is 0.
    """
    plan = _plan(tuple(shares), prompts_per_iteration)
    errors = [
        [count - rate * t for count, rate in zip(plan.after(t), plan.rates, strict=True)]
        for t in range(min(math.lcm(*(r.denominator for r in plan.rates)), LOOKED_AT))
    ]
    return float(max(max(task) - min(task) for task in zip(*errors, strict=True)))


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


@dataclass(frozen=True, slots=True)
class _Turns:
    """A task, or several units of equal rests that take turns: an exact way to split prompts.

    If a window of the whole is off by less than one, so is that of each member, since the ceilings
    of x and of (the ceiling of m * x) / m are the same.
    """

    rate: Fraction  # prompts of an iteration
    task: int = -1
    members: tuple[_Turns, ...] = ()

    @property
    def whole(self) -> int:
        return int(self.rate)

    @property
    def rest(self) -> Fraction:
        return self.rate - int(self.rate)

    def split(self, iterations: int, extra: int, counts: list[int]) -> None:
        """Write into ``counts`` what ``extra`` prompts above the whole ones mean for each task."""
        count = self.whole * iterations + extra
        if not self.members:
            counts[self.task] = count
        for place, member in enumerate(self.members, start=1):
            member.split(iterations, (count - place) // len(self.members) + 1, counts)


def _pooled(units: list[_Turns]) -> list[_Turns]:
    """Join units of equal rests, small ones first, until all rests above 0 differ."""
    groups: dict[Fraction, list[_Turns]] = {}
    for unit in units:
        groups.setdefault(unit.rest, []).append(unit)
    equal = [rest for rest, group in groups.items() if rest and len(group) > 1]
    if not equal:
        return units
    rest = min(equal)
    joined = _Turns(len(groups[rest]) * rest, members=tuple(groups.pop(rest)))
    return _pooled([joined, *itertools.chain.from_iterable(groups.values())])


class _Plan:
    """Counts of every task, iteration after iteration.

    Where the totals, each rounded to the nearest number, add up after every iteration, they are
    taken: rests 2/5, 3/5 or 4/7, 2/7, 1/7. Else which units get one more than their whole prompts
    is a problem of fair scheduling: sum(rest) machines, one unit of work for each at most, shares
    of time ``rest``. Algorithm PD2 of Anderson and Srinivasan (Mixed Pfair/ERfair scheduling, 2004)
    solves it with errors below one. Rounding the totals by largest remainder would not do: a task's
    total can then fall when the number of prompts rises.
    """

    def __init__(self, shares: tuple[float, ...], prompts: int) -> None:
        # Through text, since the decimals in a YAML file are meant: 0.1, 0.2 and 0.7 add up to 1.
        exact = [Fraction(str(share)) for share in shares]
        self.rates = [prompts * share / sum(exact) for share in exact]
        self.units = _pooled([_Turns(rate, task) for task, rate in enumerate(self.rates)])
        self.rest = [unit.rest for unit in self.units]
        self.period = math.lcm(*(rest.denominator for rest in self.rest))
        self.extra = [[0] * len(self.units)]  # [t][unit]: given above the whole, in t iterations
        if self.period <= LOOKED_AT:
            self.extra = self._rounded() or self.extra

    def after(self, iterations: int) -> list[int]:
        periods, within = divmod(iterations, self.period)  # after each period all errors are 0
        while len(self.extra) <= within:
            self.extra.append(self._next(self.extra[-1], len(self.extra) - 1))
        counts = [0] * len(self.rates)
        for unit, extra in zip(self.units, self.extra[within], strict=True):
            more = int(unit.rest * self.period) * periods + extra
            unit.split(iterations, more, counts)
        return counts

    def _rounded(self) -> list[list[int]] | None:
        rows = []
        for t in range(self.period):
            rows.append([math.floor(rest * t + Fraction(1, 2)) for rest in self.rest])
            if sum(rows[t]) != sum(self.rest) * t:
                return None
        return rows

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
