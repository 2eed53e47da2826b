"""How sure a score is: standard errors and bootstrap intervals over clusters, paired tests.

Samples of one prompt, and variants of one problem, are not independent: they form a cluster, and
clusters are what is resampled. Shape letters: C clusters.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
RESAMPLES = 2000
_CHUNK = 4_000_000  # drawn numbers held at a time


def cluster_sums(
    values: Sequence[float], weights: Sequence[float], clusters: Sequence[Hashable]
) -> tuple[Floats, Floats]:
    """Sum values and weights within each cluster; clusters in the order they first appear."""
    places: dict[Hashable, int] = {}
    place = [places.setdefault(cluster, len(places)) for cluster in clusters]
    sums = [np.zeros(len(places)), np.zeros(len(places))]
    for total, part in zip(sums, (values, weights), strict=True):
        np.add.at(total, place, part)
    return sums[0], sums[1]


def clustered_stderr(value_C: Floats, weight_C: Floats) -> float:
    """Standard error of ``sum(value) / sum(weight)``; NaN below two clusters.

    The usual cluster-robust ("sandwich") form with the factor C / (C - 1): for clusters of one row
    and weight 1 it is the sample standard deviation over sqrt(n).
    """
    count = len(value_C)
    if count < 2:
        return math.nan
    residual_C = value_C - value_C.sum() / weight_C.sum() * weight_C
    return float(math.sqrt(count / (count - 1) * (residual_C**2).sum()) / weight_C.sum())


def bootstrap_interval(
    value_C: Floats, weight_C: Floats, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """95 % percentile interval of ``sum(value) / sum(weight)``, resampling whole clusters.

    The same numbers always give the same interval. NaN below two clusters.
    """
    count = len(value_C)
    if count < 2:
        return math.nan, math.nan
    rng = np.random.default_rng(seed)
    ratios = []
    rows = max(1, _CHUNK // count)
    for start in range(0, resamples, rows):
        drawn = rng.integers(0, count, (min(rows, resamples - start), count))
        ratios.append(value_C[drawn].sum(1) / weight_C[drawn].sum(1))
    low, high = np.percentile(np.concatenate(ratios), [2.5, 97.5])
    return float(low), float(high)


def mcnemar_exact(gained: int, lost: int) -> float:
    """Two-sided exact p of McNemar's test: the chance of so uneven a split of the changed items.

    Twice the smaller tail of Binomial(gained + lost, 1/2), at most 1; 1 when nothing changed.
    """
    count = gained + lost
    tail = sum(math.comb(count, i) for i in range(min(gained, lost) + 1))
    return float(min(1.0, 2 * tail / 2**count))
