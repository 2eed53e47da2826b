"""The report draws the gate that trained, from the run's own settings."""

from __future__ import annotations

import math
import re

import pytest

from sapo_vl.report.curves import draw_panels
from sapo_vl.report.gate_curve import GATES, RATIOS, gate_curve
from sapo_vl.report.records import Series

STEPS = (0.0, 1.0)
METRICS = {
    "gate/tau_pos": Series(steps=STEPS, values=(1.0, 4.0)),
    "gate/tau_neg": Series(steps=STEPS, values=(1.05, 6.0)),
    "gate/abs_log_ratio_p99": Series(steps=STEPS, values=(0.1, 0.5)),
}


def config(gate: str | None = None, **settings: object) -> str:
    lines = [
        "model:",
        "  init_args:",
        "    objective:",
        "      class_path: sapo_vl.objectives.SAPO",
    ]
    lines += ["      init_args:", "        tau_pos: 1.0"]
    lines += [f"        {name}: {str(value).lower()}" for name, value in settings.items()]
    lines += [f"        gate: {{class_path: {gate}, init_args: {{}}}}"] if gate else []
    return "\n".join(lines)


def heights(svg: str) -> list[list[float]]:
    """The curves' y, 0 at the bottom and 1 at the top of the axis, at every drawn ratio."""
    found = re.findall(r"<polyline[^>]* points=\"([^\"]*)\"", svg)
    curves = [[float(pair.split(",")[1]) for pair in line.split()] for line in found]
    top, bottom = 8.0, max(max(curve) for curve in curves)
    return [[(bottom - y) / (bottom - top) for y in curve] for curve in curves]


def sech2(x: float) -> float:
    return 1 / math.cosh(x) ** 2


def test_the_papers_gate_at_the_last_temperatures() -> None:
    chart = gate_curve(METRICS, config())
    assert chart is not None
    assert [label for label, _, _ in chart.legend] == [
        "advantage > 0, τ = 4",
        "advantage < 0, τ = 6",
    ]
    pos, neg = heights(chart.svg)
    for curve, tau in ((pos, 4.0), (neg, 6.0)):
        want = [sech2(tau * (r - 1) / 2) for r in RATIOS]
        assert curve == pytest.approx(want, abs=0.01)
    assert "a token gets" in chart.note


def test_another_gate_is_drawn_as_itself() -> None:
    chart = gate_curve(METRICS, config("sapo_vl.objectives.LogRatioGate", outward_only=True))
    assert chart is not None
    pos, neg = heights(chart.svg)
    at_half, at_two = RATIOS.index(0.5), RATIOS.index(2.0)
    assert pos[at_half] == pytest.approx(1.0, abs=0.01)  # moves back keep their weight
    assert pos[at_two] == pytest.approx(sech2(2 * math.log(2)), abs=0.01)
    assert neg[at_half] == pytest.approx(sech2(3 * math.log(2)), abs=0.01)
    assert neg[at_two] == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("text", ["", "a: [1", "model: 3", "- 1"])
def test_a_config_that_says_nothing_leaves_the_papers_gate(text: str) -> None:
    assert gate_curve(METRICS, text) == gate_curve(METRICS, config())


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("sapo_vl.objectives.ErfGate", config("sapo_vl.objectives.ErfGate")),
        ("null", config()),
    ],
)
def test_a_gate_in_fewer_words_is_drawn(written: str, same: str) -> None:
    """jsonargparse takes a class that needs no arguments by its path alone."""
    chart = gate_curve(METRICS, config() + f"\n        gate: {written}")
    assert chart is not None
    assert chart == gate_curve(METRICS, same)


def test_what_is_not_known_is_not_drawn() -> None:
    assert gate_curve(METRICS, config("their.own.Gate")) is None
    assert gate_curve({}, config()) is None


def test_every_gate_of_the_package_can_be_drawn() -> None:
    drawn = [gate_curve(METRICS, config(f"sapo_vl.objectives.{name}")) for name in GATES]
    svgs = {chart.svg for chart in drawn if chart is not None}
    assert len(svgs) == len(GATES) == 5


def test_a_response_is_what_is_gated_when_sequences_are() -> None:
    charts = draw_panels(METRICS, config(of_sequence=True))
    (gate,) = [chart for chart in charts if chart.title.startswith("SAPO's gate")]
    assert "a response gets" in gate.note
