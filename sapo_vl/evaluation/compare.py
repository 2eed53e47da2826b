"""Two tests of the same items, compared item by item."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sapo_vl.evaluation.intervals import (
    bootstrap_interval,
    cluster_sums,
    clustered_stderr,
    mcnemar_exact,
)

RIGHT = 0.5  # a prompt counts as right when at least this share of its samples' score was given


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemScore:
    """One prompt under one sampling: its mean score, and the problem it is a variant of."""

    score: float
    problem: Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """What a comparison of two tests comes to.

    ``difference`` is second minus first; ``low`` and ``high`` its 95 % paired bootstrap interval
    over problems; ``p`` that of McNemar's exact test on the items that became right or wrong.
    """

    n: int
    first: float
    second: float
    difference: float
    stderr: float
    low: float
    high: float
    gained: tuple[Hashable, ...]
    lost: tuple[Hashable, ...]
    p: float


def compare_items(
    first: Mapping[Hashable, ItemScore], second: Mapping[Hashable, ItemScore], *, seed: int = 0
) -> Paired:
    """Compare the scores of two tests on the same items.

    Raises:
        ValueError: the tests do not have the same items, or none.
    """
    only = [sorted(map(str, a.keys() - b.keys())) for a, b in ((first, second), (second, first))]
    if only[0] or only[1] or not first:
        raise ValueError(f"the items differ: {different_items(*only)}")
    names = list(first)
    changes = [second[name].score - first[name].score for name in names]
    sums = cluster_sums(changes, [1.0] * len(names), [first[name].problem for name in names])
    low, high = bootstrap_interval(*sums, seed=seed)
    before = {name: first[name].score >= RIGHT for name in names}
    after = {name: second[name].score >= RIGHT for name in names}
    gained = tuple(name for name in names if after[name] and not before[name])
    lost = tuple(name for name in names if before[name] and not after[name])
    return Paired(
        n=len(names),
        first=float(np.mean([first[name].score for name in names])),
        second=float(np.mean([second[name].score for name in names])),
        difference=math.fsum(changes) / len(names),
        stderr=clustered_stderr(*sums),
        low=low,
        high=high,
        gained=gained,
        lost=lost,
        p=mcnemar_exact(len(gained), len(lost)),
    )


def different_items(only_first: Sequence[str], only_second: Sequence[str]) -> str:
    """Say in a sentence which items two tests do not share."""
    parts = [
        f"{len(names)} only in the {which} ({', '.join(names[:3])}{', ...' if names[3:] else ''})"
        for which, names in (("first", only_first), ("second", only_second))
        if names
    ]
    return "; ".join(parts) or "there are none"
