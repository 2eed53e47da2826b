"""Every number of a test: all metrics, by category, with the settings that made them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sapo_vl.report.records import Evaluation
from sapo_vl.report.scale import DASH, percent


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRow:
    """One score; ``category`` and ``value`` are empty where it is that of the whole task."""

    task: str
    sampling: str
    metric: str
    category: str
    value: str
    mean: float
    stderr: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """A table as the page shows it."""

    title: str
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def score_rows(record: Mapping[str, Any]) -> list[ScoreRow]:
    """All scores of a metrics.json, tasks first, then all tasks together."""
    headlines = [(f"{name} (headline)", scores) for name, scores in _items(record, "headlines")]
    everything = ("all", record.get("all", {}))
    return [
        row
        for task, samplings in [*_items(record, "tasks"), *headlines, everything]
        for sampling, scores in samplings.items()
        for row in _rows(scores, task, sampling)
    ]


def _rows(scores: Mapping[str, Any], task: str, sampling: str) -> Iterator[ScoreRow]:
    for metric, score in _items(scores, "metrics"):
        yield _row(score, task, sampling, metric, "", "")
    for category, values in _items(scores, "categories"):
        for value, metrics in values.items():
            for metric, score in metrics.items():
                yield _row(score, task, sampling, metric, category, value)


def provenance(settings: Mapping[str, Any], task: str, sampling: str) -> dict[str, str]:
    """What made a score, each in one text: what a table of scores repeats in every row."""
    data = settings.get("data") or {}
    about = data.get("tasks", {}).get(task, {})
    versions = settings.get("versions", {})
    return {
        "template": about.get("template", ""),
        "verifier": verifier_text(about.get("verifier"), versions.get("sapo-vl", "")),
        "pixels": f"{data['min_pixels']}-{data['max_pixels']}" if data else "",
        "sampling_settings": _pairs(settings.get("samplings", {}).get(sampling, {})),
        "seed": str(settings.get("seed", "")),
        "model": str(settings.get("model", "")),
        "model_sha256": settings.get("model_sha256") or "",
        "dtype": settings.get("dtype", ""),
        "versions": _pairs(versions),
    }


def verifier_text(verifier: Mapping[str, Any] | None, version: str) -> str:
    """A verifier as class(settings) of which version."""
    if not verifier:
        return ""
    options = {name: value for name, value in verifier.items() if name != "class"}
    inside = ", ".join(f"{name}={json.dumps(value)}" for name, value in options.items())
    return f"{verifier['class']}({inside}), sapo-vl {version}"


def make_breakdowns(tests: Sequence[Evaluation]) -> list[Breakdown]:
    """Tables of every test: all metrics; one a category; what was counted."""
    return [table for test in tests if test.record for table in _tables(test, len(tests) > 1)]


def _tables(test: Evaluation, named: bool) -> Iterator[Breakdown]:
    prefix = f"{test.name}: " if named else ""
    rows = score_rows(test.record)
    yield from _whole(test, [row for row in rows if not row.category], prefix)
    yield from _by_category([row for row in rows if row.category], prefix)
    yield from _counted(test.record, prefix)


def _whole(test: Evaluation, rows: Sequence[ScoreRow], prefix: str) -> Iterator[Breakdown]:
    if rows:
        names = ("Task", "Sampling", "Metric", "Score", "95% interval", "n", "Verifier")
        cells = tuple(
            (
                *(row.task, row.sampling, row.metric, *_cells(row)),
                provenance(test.settings, row.task, row.sampling)["verifier"],
            )
            for row in rows
        )
        yield Breakdown(title=f"{prefix}Every metric", names=names, rows=cells)


def _by_category(rows: Sequence[ScoreRow], prefix: str) -> Iterator[Breakdown]:
    for task, category in dict.fromkeys((row.task, row.category) for row in rows):
        names = (category, "Sampling", "Metric", "Score", "95% interval", "n")
        part = [row for row in rows if (row.task, row.category) == (task, category)]
        cells = tuple((r.value or DASH, r.sampling, r.metric, *_cells(r)) for r in part)
        yield Breakdown(title=f"{prefix}{task} by {category}", names=names, rows=cells)


def _counted(record: Mapping[str, Any], prefix: str) -> Iterator[Breakdown]:
    counts = [
        (task, sampling, _pairs({k: n for k, n in _items(scores, "counts") if n}))
        for task, samplings in _items(record, "tasks")
        for sampling, scores in samplings.items()
        if "counts" in scores
    ]
    if counts:
        skipped = {why: n for why, n in _items(record, "skipped") if n}
        lines = (*counts, ("samples left out", "", _pairs(skipped) or "none"))
        title = f"{prefix}Samples and verdicts"
        yield Breakdown(title=title, names=("Task", "Sampling", "Counted"), rows=lines)


def _cells(row: ScoreRow) -> tuple[str, str, str]:
    interval = DASH
    if math.isfinite(row.low):
        interval = f"{percent(row.low)} to {percent(row.high)}"
    return percent(row.mean), interval, str(row.n)


def _row(score: Mapping[str, Any], *names: str) -> ScoreRow:
    task, sampling, metric, category, value = names
    return ScoreRow(
        task=task,
        sampling=sampling,
        metric=metric,
        category=category,
        value=value,
        n=int(score["n"]),
        **{name: _number(score[name]) for name in ("mean", "stderr", "low", "high")},
    )


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _items(record: Mapping[str, Any], name: str) -> list[tuple[str, Any]]:
    part = record.get(name)
    return list(part.items()) if isinstance(part, Mapping) else []


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
