"""Draw the panels of a training stage from its metrics."""

from __future__ import annotations

from collections.abc import Sequence

from sapo_vl.report.charts import Line, line_chart, stacked_chart
from sapo_vl.report.gate_curve import gate_curve
from sapo_vl.report.panels import PANELS, Metrics, Panel, eval_panels, task_panels
from sapo_vl.report.records import Chart, Series
from sapo_vl.report.scale import short

GROUPS = ("Learning", "Evaluation while training", "The gate", "Policy", "Cost")


def draw_panels(metrics: Metrics, config: str = "") -> list[Chart]:
    """Draw every panel for which ``metrics`` has values, in reading order, and the run's gate."""
    steps = [step for series in metrics.values() for step in series.steps]
    x_range = (min(steps), max(steps)) if steps else (0.0, 1.0)
    charts = [
        chart
        for panel in (*PANELS, *task_panels(metrics), *eval_panels(metrics))
        if (chart := _draw(panel, metrics, x_range)) is not None
    ]
    if (gate := gate_curve(metrics, config)) is not None:
        charts.append(gate)
    return sorted(charts, key=lambda chart: GROUPS.index(chart.group))


def _draw(panel: Panel, metrics: Metrics, x_range: tuple[float, float]) -> Chart | None:
    lines = _stack(panel, metrics) if panel.stacked else _lines(panel, metrics)
    if not lines:
        return None
    if panel.stacked:
        svg = stacked_chart(lines, title=panel.title, unit=panel.unit, x_range=x_range)
    else:
        svg = line_chart(
            lines,
            title=panel.title,
            unit=panel.unit,
            x_range=x_range,
            lo=panel.lo,
            hi=panel.hi,
            log=panel.log,
            smooth=panel.smooth,
        )
    legend = tuple((line.label, line.classes, short(line.ys[-1], panel.unit)) for line in lines)
    return Chart(group=panel.group, title=panel.title, note=panel.note, legend=legend, svg=svg)


def _lines(panel: Panel, metrics: Metrics) -> list[Line]:
    lines = []
    styles = panel.styles or range(len(panel.curves))
    for style, (name, label) in zip(styles, panel.curves.items(), strict=True):
        series = metrics.get(name, Series())
        points = [
            (x, y)
            for x, y in zip(series.steps, series.values, strict=True)
            if y > 0 or not panel.log  # a log axis has no place for an exact 0
        ]
        if points:
            xs, ys = zip(*points, strict=True)
            lines.append(Line(label=label, xs=xs, ys=ys, style=style))
    return lines


def _stack(panel: Panel, metrics: Metrics) -> list[Line]:
    """The parts at the steps that have all of them; the last curve, the total, becomes the rest."""
    *names, total = panel.curves
    parts = {
        name: dict(zip(metrics[name].steps, metrics[name].values, strict=True))
        for name in (*names, total)
        if name in metrics and metrics[name].steps
    }
    whole = parts.pop(total, None)
    if not parts:
        return []
    tables: Sequence[dict[float, float]] = [*parts.values(), *([whole] if whole else [])]
    xs = sorted(set.intersection(*(set(table) for table in tables)))
    lines = [
        Line(label=panel.curves[name], xs=xs, ys=[table[x] for x in xs], style=style)
        for style, (name, table) in enumerate(parts.items())
    ]
    if whole:
        rest = [max(0.0, whole[x] - sum(table[x] for table in parts.values())) for x in xs]
        lines.append(Line(label=panel.curves[total], xs=xs, ys=rest, style=len(names)))
    return lines if xs else []
