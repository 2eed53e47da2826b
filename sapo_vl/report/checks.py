"""Look at a stage's metrics as a colleague would: what is as it should be, what needs a look."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from sapo_vl.report.panels import Metrics
from sapo_vl.report.records import Series
from sapo_vl.report.scale import short


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A finding: ``fine`` or worth a look, what was looked at, and what was seen."""

    fine: bool
    title: str
    text: str


def run_checks(metrics: Metrics) -> list[Check]:
    """Every finding for which ``metrics`` has values, those worth a look first."""
    found = [
        *_finite(metrics),
        *_self_test(metrics),
        *_gate(metrics),
        *_entropy(metrics),
        *_signal(metrics),
        *_truncated(metrics),
        *_skipped(metrics),
    ]
    return sorted(found, key=lambda check: check.fine)


def _finite(metrics: Metrics) -> Iterator[Check]:
    bad = {name: series.not_finite for name, series in metrics.items() if series.not_finite}
    if bad:
        names = ", ".join(f"{name} ({count} times)" for name, count in sorted(bad.items()))
        yield Check(fine=False, title="Values", text=f"NaN or infinite values in {names}.")


def _self_test(metrics: Metrics) -> Iterator[Check]:
    errors = _values(metrics, "gate/first_update_error")
    if errors:
        worst = max(errors)
        text = (
            f"Before the first update of an iteration every ratio must be 1; the largest error was "
            f"{short(worst)}."
        )
        yield Check(fine=worst < 1e-3, title="Self-test of the ratio", text=text)


def _gate(metrics: Metrics) -> Iterator[Check]:
    largest = _values(metrics, "gate/abs_log_ratio_max")
    if largest and max(largest) < 1e-6:
        text = (
            "Every ratio was 1, so the gate did nothing: with one update per iteration SAPO is "
            "plain policy gradient."
        )
        yield Check(fine=False, title="Gate", text=text)
        return
    held = _values(metrics, "gate/under_half_share")
    if held and _values(metrics, "gate/tau_pos"):  # a hard clip holds some tokens by design
        text = (
            f"At most {short(max(held), '%')} of an iteration's tokens had a weight under one half"
            f"; {short(_mean(held), '%')} on average."
        )
        yield Check(fine=max(held) < 0.05, title="Gate", text=text)


def _entropy(metrics: Metrics) -> Iterator[Check]:
    values = _values(metrics, "policy/entropy")
    if len(values) >= 5 and (first := _mean(_start(values))) > 0:
        last = _mean(_end(values))
        text = (
            f"{short(first)} nats at the start, {short(last)} at the end"
            f" ({short(last / first, '%')} of it)."
        )
        yield Check(fine=0.2 < last / first < 3, title="Entropy", text=text)


def _signal(metrics: Metrics) -> Iterator[Check]:
    values = _values(metrics, "reward/uniform_groups_share")
    if values:
        last = _mean(_end(values))
        text = f"At the end {short(last, '%')} of the groups had one reward for all their answers."
        yield Check(fine=last < 0.8, title="Groups without signal", text=text)


def _truncated(metrics: Metrics) -> Iterator[Check]:
    values = _values(metrics, "rollout/truncated_share")
    if values:
        last = _mean(_end(values))
        text = f"At the end {short(last, '%')} of the answers reached the token limit."
        yield Check(fine=last < 0.1, title="Answers cut off", text=text)


def _skipped(metrics: Metrics) -> Iterator[Check]:
    values = _values(metrics, "data/skipped_total")
    if not values:
        return
    reasons = [
        f"{name.removeprefix('data/skipped_').replace('_', ' ')}: {short(series.values[-1])}"
        for name, series in sorted(metrics.items())
        if name.startswith("data/skipped_") and name != "data/skipped_total" and series.values
    ]
    detail = f" ({', '.join(reasons)})" if reasons and values[-1] else ""
    text = f"{short(values[-1])} samples were left out{detail}."
    yield Check(fine=values[-1] == 0, title="Data", text=text)


def _values(metrics: Metrics, name: str) -> tuple[float, ...]:
    return metrics.get(name, Series()).values


def _start(values: tuple[float, ...]) -> tuple[float, ...]:
    return values[: math.ceil(len(values) / 10)]


def _end(values: tuple[float, ...]) -> tuple[float, ...]:
    return values[-math.ceil(len(values) / 10) :]


def _mean(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)
