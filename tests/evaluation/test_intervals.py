from __future__ import annotations

import math

import numpy as np
import pytest

from sapo_vl.evaluation.intervals import (
    bootstrap_interval,
    cluster_sums,
    clustered_stderr,
    mcnemar_exact,
)


def test_the_standard_error_is_that_of_a_regression_on_a_constant_with_clusters() -> None:
    rng = np.random.default_rng(0)
    clusters = rng.integers(0, 9, 60)
    values = rng.random(60) + 0.1 * clusters
    # Least squares with X = 1: the sandwich (X'X)^-1 (sum_c u_c u_c') (X'X)^-1, G / (G - 1).
    design = np.ones((60, 1))
    residual = values - values.mean()
    scores = np.stack([design[clusters == c].T @ residual[clusters == c] for c in range(9)])
    bread = np.linalg.inv(design.T @ design)
    sandwich = bread @ (scores.T @ scores) @ bread * 9 / 8
    got = clustered_stderr(*cluster_sums(values, np.ones(60), clusters.tolist()))
    assert got == pytest.approx(math.sqrt(sandwich[0, 0]))


def test_the_bootstrap_of_many_rows_agrees_with_the_normal_interval() -> None:
    values = np.random.default_rng(1).random(900)
    sums = cluster_sums(values, np.ones(900), range(900))
    low, high = bootstrap_interval(*sums)
    half = 1.96 * clustered_stderr(*sums)
    assert low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.1 * half)


@pytest.mark.parametrize(
    ("gained", "lost", "p"),
    # Binomial tables: P(X <= 1 | 10, 1/2) = 11 / 1024; 2 * (1 + 9 + 36) / 512; nothing changed.
    [(9, 1, 22 / 1024), (2, 7, 92 / 512), (0, 0, 1.0), (5, 5, 1.0)],
)
def test_mcnemar(gained: int, lost: int, p: float) -> None:
    assert mcnemar_exact(gained, lost) == pytest.approx(p)
