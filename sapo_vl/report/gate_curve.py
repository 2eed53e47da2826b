"""The gate of a run as a curve over the ratio, computed by the code that trained."""

from __future__ import annotations

import math
from typing import Any

import torch
import yaml

from sapo_vl.objectives import (
    SAPO,
    ArctanGate,
    ErfGate,
    LogRatioGate,
    SigmoidGate,
    SoftGate,
    SoftsignGate,
)
from sapo_vl.report.charts import Line, line_chart
from sapo_vl.report.panels import Metrics
from sapo_vl.report.records import Chart, Series
from sapo_vl.report.scale import short

# By name, since nothing that a run's file names is imported.
GATES: dict[str, SoftGate] = {
    type(gate).__name__: gate
    for gate in (SigmoidGate(), ErfGate(), ArctanGate(), SoftsignGate(), LogRatioGate())
}
RATIOS = [i / 40 for i in range(161)]


def gate_curve(metrics: Metrics, config: str) -> Chart | None:
    """The weight over the ratio at the run's last temperatures; None where SAPO did not train.

    Args:
        metrics: those of the run; ``gate/tau_pos`` and ``gate/tau_neg`` say that SAPO trained.
        config: its config.yaml; without one the paper's gate is drawn, and none for a gate of
            which the package knows nothing.
    """
    taus = {
        sign: metrics[f"gate/tau_{sign}"].values[-1]
        for sign in ("pos", "neg")
        if metrics.get(f"gate/tau_{sign}", Series()).values
    }
    settings = _objective(config)
    named = settings.get("gate") or {}
    path = named.get("class_path", "SigmoidGate") if isinstance(named, dict) else named
    gate = GATES.get(str(path).split(".")[-1])
    if len(taus) < 2 or gate is None:
        return None
    objective = SAPO(
        taus["pos"], taus["neg"], gate, outward_only=settings.get("outward_only", False)
    )
    lines = [
        Line(
            label=f"advantage {sense} 0, τ = {short(taus[sign])}",
            xs=RATIOS,
            ys=_weights(objective, advantage),
            style=style,
        )
        for style, (sign, sense, advantage) in enumerate((("pos", ">", 1.0), ("neg", "<", -1.0)))
    ]
    reach = max(metrics.get("gate/abs_log_ratio_p99", Series()).values, default=None)
    of = "response" if settings.get("of_sequence") else "token"
    note = f"The weight a {of} gets by its ratio r = new / old probability"
    marks: list[float] = []
    if reach is not None and 0 < reach < math.log(RATIOS[-1]):
        marks = [math.exp(-reach), math.exp(reach)]
        note += "; in every iteration 99% of this run's tokens stayed between the dotted lines"
    title = "SAPO's gate at this run's τ"
    svg = line_chart(lines, title=title, lo=0, hi=1, marks=marks, x_name="ratio r")
    legend = tuple((line.label, line.classes, "") for line in lines)
    return Chart(
        group="The gate", title=title, note=f"{note}.", legend=legend, svg=svg, synced=False
    )


def _weights(objective: SAPO, advantage: float) -> list[float]:
    log_ratio_BT = torch.tensor(RATIOS, dtype=torch.float64).log()[:, None]
    old_BT, mask_BT = torch.zeros_like(log_ratio_BT), torch.ones_like(log_ratio_BT)
    advantage_B = torch.full((len(RATIOS),), advantage, dtype=torch.float64)
    weights: list[float] = (
        objective(log_ratio_BT, old_BT, advantage_B, mask_BT).stats["gate_BT"][:, 0].tolist()
    )
    return weights


def _objective(config: str) -> dict[str, Any]:
    """The arguments of model.objective in a config.yaml; empty where there are none."""
    try:
        found: Any = yaml.safe_load(config)
    except yaml.YAMLError:
        return {}
    for key in ("model", "init_args", "objective", "init_args"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}
