"""The headline and the before/after tables: numbers as words, and intervals as small plots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from sapo_vl.report.charts import interval_plot, share_bar
from sapo_vl.report.records import Evaluation, Score
from sapo_vl.report.scale import DASH, MINUS, percent, short

Z95 = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The run in one look: accuracies, the change in words, and facts as (name, value)."""

    before: str
    after: str
    change: str
    sentence: str
    facts: tuple[tuple[str, str], ...]
    time_bar: Markup
    time_parts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One task under one sampling; ``scores`` holds (value, interval) per test."""

    task: str
    n: str
    scores: tuple[tuple[str, str], ...]
    change: str
    change_interval: str
    direction: str
    plot: Markup
    total: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The scores of one sampling by task."""

    sampling: str
    rows: tuple[Row, ...]


def make_headline(tests: Sequence[Evaluation], summary: Mapping[str, Any]) -> Headline:
    """State the outcome, from ``summary`` where it has one, else from the first and last test."""
    before, after, gain, interval, n = _from_summary(summary) or _from_tests(tests)
    parts = [(str(k).replace("_", " "), v) for k, v in _numbers(summary.get("seconds")).items()]
    facts = _facts(summary, n)
    return Headline(
        before=percent(before),
        after=percent(after),
        change=points(gain),
        sentence=_sentence(before, after, gain, interval),
        facts=tuple(facts),
        time_bar=share_bar([v for _, v in parts], label="Share of each part in the total time"),
        time_parts=tuple((name, duration(value)) for name, value in parts),
    )


def make_tables(tests: Sequence[Evaluation]) -> list[Table]:
    """One table per sampling, sampled ones before greedy, with a row per task and one for all."""
    samplings: dict[str, None] = {}
    for test in tests:
        for scores in (test.overall, *test.tasks.values()):
            samplings.update(dict.fromkeys(scores))
    tables = []
    for sampling in sorted(samplings, key=lambda name: name == "greedy"):
        tasks = dict.fromkeys(task for test in tests for task in test.tasks)
        rows = [_row(task, [t.tasks.get(task, {}).get(sampling) for t in tests]) for task in tasks]
        overall = [t.overall.get(sampling) for t in tests]
        if any(overall):
            rows.append(_row("All tasks", overall, total=True))
        tables.append(Table(sampling=sampling, rows=tuple(row for row in rows if row is not None)))
    return tables


def points(value: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    return f"{100 * value:+.1f}".replace("-", MINUS) if math.isfinite(value) else DASH


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 99.5:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{seconds / 3600:.1f} h"


Outcome = tuple[float, float, float, tuple[float, float] | None, int]


def _from_summary(summary: Mapping[str, Any]) -> Outcome | None:
    numbers = _numbers(summary)
    before, after = numbers.get("accuracy_cold_start"), numbers.get("accuracy_sapo")
    if before is None or after is None:
        return None
    bounds = summary.get("accuracy_gain_ci95")
    interval = None
    if isinstance(bounds, Sequence) and len(bounds) == 2:
        lo, hi = (_number(bound) for bound in bounds)
        interval = (lo, hi) if math.isfinite(lo + hi) else None
    tasks = summary.get("tasks")
    tasks = tasks.values() if isinstance(tasks, Mapping) else ()
    n = sum(int(_numbers(task).get("n", 0)) for task in tasks)
    return before, after, numbers.get("accuracy_gain", after - before), interval, n


def _from_tests(tests: Sequence[Evaluation]) -> Outcome:
    nothing: Outcome = (math.nan, math.nan, math.nan, None, 0)
    scored = [test for test in tests if test.overall]
    if not scored:
        return nothing
    shared = [name for name in scored[-1].overall if name in scored[0].overall]
    if not shared:
        return nothing
    sampling = min(shared, key=lambda name: name == "greedy")
    before, after = scored[0].overall[sampling], scored[-1].overall[sampling]
    if len(scored) == 1:
        half = Z95 * after.stderr
        span = (after.mean - half, after.mean + half) if math.isfinite(half) else None
        return math.nan, after.mean, math.nan, span, after.n
    gain, half = _change(before, after)
    interval = (gain - half, gain + half) if math.isfinite(half) else None
    return before.mean, after.mean, gain, interval, after.n


def _change(before: Score, after: Score) -> tuple[float, float]:
    return after.mean - before.mean, Z95 * math.hypot(before.stderr, after.stderr)


def _sentence(
    before: float, after: float, gain: float, interval: tuple[float, float] | None
) -> str:
    if not math.isfinite(after):
        return "There are no test scores, so this report shows only how training went."
    if not math.isfinite(gain):
        span = (
            f" (95% interval {percent(interval[0])} to {percent(interval[1])})" if interval else ""
        )
        return f"{percent(after)} of the test answers are right{span}."
    verb = "rose" if gain > 0 else "fell" if gain < 0 else "stayed"
    text = f"Test accuracy {verb} from {percent(before)} to {percent(after)}"
    text += f", a change of {points(gain)} percentage points"
    if interval is None:
        return f"{text}."
    text += f" (95% interval {points(interval[0])} to {points(interval[1])})."
    if interval[0] <= 0 <= interval[1]:
        return f"{text} The interval includes 0: this test does not show that training helped."
    return text


def _facts(summary: Mapping[str, Any], n: int) -> list[tuple[str, str]]:
    numbers, gate, entropy = (
        _numbers(part) for part in (summary, summary.get("gate"), summary.get("entropy"))
    )
    seconds = _numbers(summary.get("seconds"))
    facts = [("Test prompts", str(n))] if n else []
    if "model_parameters" in numbers:
        facts.append(("Model", f"{short(numbers['model_parameters'])} parameters"))
    if "seed" in numbers:
        facts.append(("Seed", f"{numbers['seed']:.0f}"))
    if seconds:
        facts.append(("Time", duration(sum(seconds.values()))))
    if "updates" in numbers:
        facts.append(("Updates", f"{numbers['updates']:.0f}"))
    if "tokens_per_second" in numbers:
        facts.append(("Throughput", f"{short(numbers['tokens_per_second'])} tokens/s"))
    if {"first", "last"} <= entropy.keys():
        facts.append(("Entropy", f"{short(entropy['first'])} → {short(entropy['last'])} nats"))
    if {"weight_mean_pos", "weight_mean_neg"} <= gate.keys():
        pos, neg = (f"{gate[f'weight_mean_{sign}']:.4f}" for sign in ("pos", "neg"))
        facts.append((f"Mean gate weight, advantage + / {MINUS}", f"{pos} / {neg}"))
    if "ratio_abs_log_p99" in numbers:
        facts.append(("|log ratio|, p99", short(numbers["ratio_abs_log_p99"])))
    return facts


def _row(task: str, scores: Sequence[Score | None], *, total: bool = False) -> Row | None:
    known = [score for score in scores if score is not None]
    if not known:
        return None
    halves = [Z95 * s.stderr if math.isfinite(s.stderr) else 0.0 for s in known]
    change, half = math.nan, math.nan
    if len(scores) > 1 and scores[0] is not None and scores[-1] is not None:
        change, half = _change(scores[0], scores[-1])
    label = f"{task}: " + " to ".join(percent(score.mean) for score in known)
    clear = math.isfinite(half) and abs(change) > half
    return Row(
        task=task,
        n=str(known[-1].n) if known[-1].n else DASH,
        scores=tuple(_cell(score) for score in scores),
        change=points(change),
        change_interval=f"{points(change - half)} to {points(change + half)}" if half >= 0 else "",
        direction=("up" if change > 0 else "down") if clear else "unclear",
        plot=interval_plot(
            [(s.mean, h) for s, h in zip(known, halves, strict=True)], lo=0, hi=1, label=label
        ),
        total=total,
    )


def _cell(score: Score | None) -> tuple[str, str]:
    if score is None:
        return DASH, ""
    half = Z95 * score.stderr
    return percent(score.mean), f"±{100 * half:.1f}" if math.isfinite(half) else ""


def _numbers(value: Any) -> dict[str, float]:
    """The entries of a mapping that are finite numbers."""
    if not isinstance(value, Mapping):
        return {}
    return {str(k): _number(v) for k, v in value.items() if math.isfinite(_number(v))}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
