"""Several training runs, such as model sizes, on one page and in one table."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sapo_vl.evaluation.store import json_text
from sapo_vl.report.charts import Line, line_chart
from sapo_vl.report.html import render, write_whole
from sapo_vl.report.load import load_stage
from sapo_vl.report.panels import PANELS, Metrics
from sapo_vl.report.records import Chart, Series, Stage
from sapo_vl.report.scale import short
from sapo_vl.report.summary import count_parameters
from sapo_vl.report.tables import markdown_table

# Curves that runs are compared by, one chart each, besides every eval/*.
CURVES = (
    "reward/mean",
    "reward/accuracy",
    "policy/entropy",
    "gate/tau_pos",
    "gate/tau_neg",
    "gate/weight_mean_pos",
    "gate/weight_mean_neg",
    "gate/effective_pos_up",
    "gate/effective_pos_down",
    "gate/effective_neg_up",
    "gate/effective_neg_down",
    "gate/abs_log_ratio_p99",
    "gate/closed_share",
    "gate/neg_lowered_share",
    "rollout/length_mean",
    "policy/grad_norm",
)
GROUPS = {
    "eval": "Evaluation while training",
    "reward": "Learning",
    "gate": "The gate",
    "policy": "Policy",
    "rollout": "Policy",
}
SHARES = ("reward/accuracy", "reward/mean")
_NOTES = {  # where a panel of the run report says more than the one curve
    "reward/mean": "How much the verifier liked the sampled training answers.",
    "reward/accuracy": "Share of the sampled training answers that the verifier called right.",
    "gate/tau_pos": "Sharpness of the gate for answers with a positive advantage.",
    "gate/tau_neg": "Sharpness of the gate for answers with a negative advantage.",
    "gate/weight_mean_pos": "Mean gate weight of tokens with a positive advantage; 1: untouched.",
    "gate/weight_mean_neg": "Mean gate weight of tokens with a negative advantage; 1: untouched.",
}


def compare_runs(runs: Mapping[str, Path], out: Path) -> list[Path]:
    """Write ``compare.html``, ``.json``, ``.md`` and ``.csv`` of training runs.

    The CSV has a line a run, metric and iteration; the tables have the last value of each metric
    and the mean over the last tenth of the run.

    Args:
        runs: folders with a metrics.csv each, by name.
        out: folder to write to.

    Raises:
        ValueError: a folder has no metrics.
    """
    stages = {name: load_stage(name, folder) for name, folder in runs.items()}
    for name, stage in stages.items():
        if not stage.metrics:
            raise ValueError(f"{runs[name]} holds no training run: {' '.join(stage.problems)}")
    names = _names([stage.metrics for stage in stages.values()])
    parameters = {name: _parameters(folder) for name, folder in runs.items()}
    every = [_row(stages[run], name, parameters[run]) for name in names for run in runs]
    rows = [row for row in every if row["values"]]
    charts: dict[str, list[Chart]] = {}
    for metric in names:
        chart = _chart(metric, stages)
        charts.setdefault(chart.group, []).append(chart)
    shown = [_shown(row) for row in rows]
    page = render(
        "compare.html.jinja",
        title=" / ".join(runs),
        note="The x axis counts iterations.",
        comparison=shown,
        tests=[],
        tables=[],
        breakdowns=[],
        galleries=[],
        settings=[],
        charts=charts,
        runs=list(stages.values()),
    )
    content = {"runs": {n: str(f) for n, f in runs.items()}, "parameters": parameters, "rows": rows}
    return [
        write_whole(out / "compare.html", page),
        write_whole(out / "compare.json", json_text(content)),
        write_whole(out / "compare.md", f"# {' / '.join(runs)}\n\n{markdown_table(shown)}\n"),
        write_whole(out / "compare.csv", _long_csv(stages, names, parameters)),
    ]


def _names(metrics: Sequence[Metrics]) -> list[str]:
    logged = dict.fromkeys(name for table in metrics for name in sorted(table))
    scores = [name for name in logged if name.startswith("eval/")]
    beside = {f"{name}{end}" for name in scores for end in ("_n", "_stderr")}
    return [*(name for name in CURVES if name in logged), *(n for n in scores if n not in beside)]


def _chart(metric: str, stages: Mapping[str, Stage]) -> Chart:
    titles = {name: panel for panel in PANELS for name in panel.curves}
    panel = titles.get(metric)
    is_share = metric in SHARES or metric.startswith("eval/")
    unit = "%" if is_share else ""
    lines = [
        Line(label=name, xs=series.steps, ys=series.values, style=style)
        for style, (name, stage) in enumerate(stages.items())
        if (series := stage.metrics.get(metric, Series())).values
    ]
    low, high = (0.0, 1.0) if is_share else (None, None)
    svg = line_chart(
        lines, title=metric, unit=unit, lo=low, hi=high, smooth=True, x_name="iteration"
    )
    return Chart(
        group=GROUPS[metric.split("/")[0]],
        title=metric,
        note=_NOTES.get(metric, panel.note if panel else "Score on held-out prompts."),
        legend=tuple((line.label, line.classes, short(line.ys[-1], unit)) for line in lines),
        svg=svg,
        synced=False,
    )


def _row(stage: Stage, metric: str, parameters: int | None) -> dict[str, Any]:
    values = stage.metrics.get(metric, Series()).values
    tail = values[-math.ceil(len(values) / 10) :]
    return {
        "metric": metric,
        "run": stage.name,
        "parameters": parameters,
        "values": len(values),
        "first": values[0] if values else None,
        "last": values[-1] if values else None,
        "last_tenth_mean": math.fsum(tail) / len(tail) if tail else None,
        "largest": max(values, default=None),
    }


def _shown(row: Mapping[str, Any]) -> dict[str, str]:
    numbers = {name: short(row[name]) for name in ("first", "last", "last_tenth_mean", "largest")}
    return {
        "Metric": row["metric"],
        "Run": row["run"],
        "Parameters": short(row["parameters"]) if row["parameters"] else "",
        "First": numbers["first"],
        "Last": numbers["last"],
        "Mean of the last tenth": numbers["last_tenth_mean"],
        "Largest": numbers["largest"],
    }


def _long_csv(
    stages: Mapping[str, Stage], names: Sequence[str], parameters: Mapping[str, int | None]
) -> str:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["run", "parameters", "metric", "iteration", "value"])
    for run, stage in stages.items():
        for name in names:
            series = stage.metrics.get(name, Series())
            for step, value in zip(series.steps, series.values, strict=True):
                writer.writerow([run, parameters[run] or "", name, f"{step:g}", repr(value)])
    return buffer.getvalue()


def _parameters(folder: Path) -> int | None:
    try:
        return count_parameters(folder / "hf")
    except ValueError:  # the run has not exported its model
        return None
