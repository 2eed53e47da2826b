"""summary.json: what a run of cold start, SAPO and two tests came to, in one small file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sapo_vl.report.load import load_evaluation, load_stage
from sapo_vl.report.records import Evaluation, Sample, Series, Stage

SAMPLING = "avg4"  # the sampled score that before and after are compared by
RESAMPLES = 10_000


def summarize(run: Path, seconds: Mapping[str, float], seed: int) -> dict[str, Any]:
    """Read ``run/{cold_start,sapo,test/cold_start,test/sapo}`` and sum them up.

    The interval of the gain is a paired bootstrap over the test prompts, both models' answers to
    a prompt kept together.

    Raises:
        ValueError: the run is not complete; the message names what is missing.
    """
    sapo = load_stage("sapo", run / "sapo")
    before = load_evaluation("cold_start", run / "test/cold_start")
    after = load_evaluation("sapo", run / "test/sapo")
    problems = [f"test/{e.name}: {p}" for e in (before, after) for p in e.problems]
    problems += [f"sapo: {p}" for p in sapo.problems if "metrics.csv" in p]
    if problems:
        raise ValueError(f"{run} is not a complete run: {' '.join(problems)}")
    gains = paired_gains(before.samples, after.samples)
    low, high = bootstrap_interval(gains, seed)
    scores = {
        task: {
            "cold_start_avg4": before.tasks[task][SAMPLING].mean,
            "sapo_avg4": after.tasks[task][SAMPLING].mean,
            "cold_start_greedy": before.tasks[task]["greedy"].mean,
            "sapo_greedy": after.tasks[task]["greedy"].mean,
            "n": after.tasks[task][SAMPLING].n,
        }
        for task in sorted(after.tasks)
    }
    return {
        "seed": seed,
        "model_parameters": count_parameters(run / "sapo/hf"),
        "seconds": dict(seconds),
        "tasks": scores,
        "n": len(gains),
        "accuracy_cold_start": before.overall[SAMPLING].mean,
        "accuracy_sapo": after.overall[SAMPLING].mean,
        "accuracy_gain": float(np.mean(gains)),
        "accuracy_gain_ci95": [low, high],
        "greedy_cold_start": before.overall["greedy"].mean,
        "greedy_sapo": after.overall["greedy"].mean,
        **_training(sapo),
        "settings": {"cold_start": before.settings, "sapo": after.settings},
    }


def paired_gains(before: Sequence[Sample], after: Sequence[Sample]) -> list[float]:
    """Change of the mean sampled score of every prompt that both tests answered."""

    def means(samples: Sequence[Sample]) -> dict[str, float]:
        return {
            s.key: float(np.mean([r.score for r in s.responses]))
            for s in samples
            if s.sampling == SAMPLING
        }

    first, second = means(before), means(after)
    return [second[key] - first[key] for key in first if key in second]


def bootstrap_interval(values: Sequence[float], seed: int) -> tuple[float, float]:
    """95 % percentile interval of the mean by resampling ``values``."""
    rng = np.random.default_rng(seed)
    data = np.asarray(values)
    means = [data[rng.integers(0, len(data), len(data))].mean() for _ in range(RESAMPLES)]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def table(before: Evaluation, after: Evaluation) -> str:
    """Before/after table of two tests as plain text, a line a task."""
    lines = [
        f"{'task':<20}{'n':>6}{'cold start':>14}{'SAPO':>8}{'cold start':>14}{'SAPO':>8}",
        f"{'':<26}{'avg@4':>14}{'avg@4':>8}{'greedy':>14}{'greedy':>8}",
    ]
    rows = [(name, before.tasks[name], after.tasks[name]) for name in sorted(after.tasks)]
    for name, first, second in [*rows, ("all", before.overall, after.overall)]:
        cells = [first[SAMPLING], second[SAMPLING], first["greedy"], second["greedy"]]
        texts = [f"{cell.mean:.1%}" for cell in cells]
        lines.append(
            f"{name:<20}{cells[0].n:>6}{texts[0]:>14}{texts[1]:>8}{texts[2]:>14}{texts[3]:>8}"
        )
    return "\n".join(lines)


def _training(stage: Stage) -> dict[str, Any]:
    """What the SAPO stage's metrics come to."""
    metrics = stage.metrics
    entropy = metrics.get("policy/entropy", Series()).values
    return {
        "gate": {
            "weight_mean_pos": _mean(metrics, "gate/weight_mean_pos"),
            "weight_mean_neg": _mean(metrics, "gate/weight_mean_neg"),
            "under_half_share": _mean(metrics, "gate/under_half_share"),
            "first_update_error": _largest(metrics, "gate/first_update_error"),
        },
        "entropy": {"first": entropy[0], "last": entropy[-1]} if entropy else {},
        "ratio_abs_log_p99": _mean(metrics, "gate/abs_log_ratio_p99"),
        "ratio_abs_log_max": _largest(metrics, "gate/abs_log_ratio_max"),
        "iterations": len(entropy),
        "updates": _updates(stage),
        "tokens_per_second": _mean(metrics, "time/tokens_per_second"),
    }


def _mean(metrics: Mapping[str, Series], name: str) -> float | None:
    values = metrics.get(name, Series()).values
    return math.fsum(values) / len(values) if values else None


def _largest(metrics: Mapping[str, Series], name: str) -> float | None:
    return max(metrics.get(name, Series()).values, default=None)


def _updates(stage: Stage) -> int | None:
    values = stage.metrics.get("policy/updates", Series()).values
    return int(values[-1]) if values else None


def count_parameters(folder: Path) -> int:
    """Parameters of an exported model, a tied embedding once, read from the file's header."""
    total = 0
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        shapes = [v["shape"] for k, v in header.items() if k != "__metadata__"]
        total += sum(math.prod(shape) for shape in shapes)
    if not total:
        raise ValueError(f"{folder} holds no model.safetensors; did training finish?")
    return total
