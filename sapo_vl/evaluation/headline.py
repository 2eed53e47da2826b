"""A benchmark's one number where it is made of several tasks: the mean over them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_Z95 = 1.96


def mean_of_tasks(scores: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Average the scores of tasks under one sampling, every task counting the same.

    Args:
        scores: task -> scores as `Scoreboard.compute` gives them.

    Returns the scores of the first task's first metric, ``metrics`` (those that all tasks have) and
    ``tasks`` (their names). Standard errors are joined as those of independent tasks, the interval
    is the normal one; ``n`` is the sum.
    """
    parts = list(scores.values())
    shared = [name for name in parts[0]["metrics"] if all(name in p["metrics"] for p in parts)]
    metrics = {name: _mean([part["metrics"][name] for part in parts]) for name in shared}
    first = parts[0]["metric"]
    if first not in metrics:  # tasks that are scored in unlike ways: each by its own first metric
        metrics[first] = _mean([part["metrics"][part["metric"]] for part in parts])
    return {"metric": first, **metrics[first], "metrics": metrics, "tasks": list(scores)}


def _mean(scores: list[Mapping[str, float]]) -> dict[str, float]:
    mean = math.fsum(score["mean"] for score in scores) / len(scores)
    stderr = math.hypot(*(score["stderr"] for score in scores)) / len(scores)
    low, high = mean - _Z95 * stderr, mean + _Z95 * stderr
    n = sum(int(score["n"]) for score in scores)
    return {"mean": mean, "stderr": stderr, "low": low, "high": high, "n": n}
