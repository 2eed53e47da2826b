from __future__ import annotations

import math
import re

import pytest

from sapo_vl.report.charts import POINTS, Line, line_chart, stacked_chart
from sapo_vl.report.checks import run_checks
from sapo_vl.report.curves import draw_panels
from sapo_vl.report.panels import eval_panels
from sapo_vl.report.records import Series
from sapo_vl.report.scale import HEIGHT, WIDTH, Scale, short, y_scale


def points(svg: str) -> list[tuple[float, float]]:
    found = re.findall(r"<polyline[^>]* points=\"([^\"]*)\"", svg)
    return [tuple(map(float, pair.split(","))) for line in found for pair in line.split()]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.4567, "%", "45.7%"),
        (0, "", "0"),
        (2.4e-7, "", "2.4e-7"),
        (1.5e-4, "", "1.5e-4"),
        (2310, "", "2310"),
        (2_134_016, "", "2.13M"),
        (1.5, "s", "1.5 s"),
        (-12345, "", "-12.3k"),
    ],
)
def test_short(value: float, unit: str, text: str) -> None:
    assert short(value, unit) == text


@pytest.mark.parametrize("values", [[0.5], [0, 0], [-3, 7], [1e-9, 2e-9], [1e12, 1e12 + 1]])
def test_axis_holds_its_values(values: list[float]) -> None:
    scale = y_scale(values)
    assert scale.lo <= min(values)
    assert scale.hi >= max(values)
    assert scale.hi > scale.lo
    assert 2 <= len(scale.ticks()) <= 9


def test_log_axis_spaces_decades_evenly() -> None:
    scale = Scale(lo=0.01, hi=100, start=0, stop=4, log=True)
    assert [scale(v) for v in scale.ticks()] == pytest.approx([0, 1, 2, 3, 4])


def test_points_stay_inside_and_spikes_survive() -> None:
    ys = [math.sin(i / 50) for i in range(5000)]
    ys[2345] = 40.0
    svg = line_chart([Line(label="a", xs=range(5000), ys=ys)], title="t")
    drawn = points(svg)
    assert len(drawn) <= POINTS
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in drawn)
    assert min(y for _, y in drawn) == 8  # the spike reaches the top of the axis


def test_running_mean_of_a_constant_is_constant() -> None:
    svg = line_chart([Line(label="a", xs=range(50), ys=[2.0] * 50)], title="t", smooth=True)
    assert len({y for _, y in points(svg)}) == 1


def test_labels_are_escaped() -> None:
    line = Line(label='<b>"', xs=[0, 1], ys=[0, 1])
    assert "<b>" not in line_chart([line], title='"><script>')
    assert "<script>" not in stacked_chart([line], title='"><script>')


def test_time_split_shows_the_rest_and_skips_incomplete_steps() -> None:
    metrics = {
        "time/rollout": Series(steps=(0, 1, 2), values=(1, 2, 3)),
        "time/update": Series(steps=(0, 2), values=(1, 1)),
        "time/iteration": Series(steps=(0, 1, 2), values=(3, 4, 5)),
    }
    (chart,) = draw_panels(metrics)
    assert [(label, last) for label, _, last in chart.legend] == [
        ("rollout", "3 s"),
        ("update", "1 s"),
        ("other", "1 s"),
    ]


def test_zero_quantiles_are_left_off_the_log_axis() -> None:
    steps = (0.0, 1.0)
    metrics = {
        "gate/abs_log_ratio_p50": Series(steps=steps, values=(0.0, 0.0)),
        "gate/abs_log_ratio_max": Series(steps=steps, values=(0.0, 0.1)),
    }
    (chart,) = draw_panels(metrics)
    assert [label for label, _, _ in chart.legend] == ["max"]


def test_checks_speak_up() -> None:
    metrics = {
        "gate/first_update_error": Series(steps=(0,), values=(0.2,)),
        "gate/abs_log_ratio_max": Series(steps=(0,), values=(0.0,)),
        "policy/entropy": Series(steps=tuple(range(20)), values=(1.0,) * 10 + (0.01,) * 10),
        "policy/loss": Series(not_finite=3),
        "rollout/truncated_share": Series(steps=(0,), values=(0.0,)),
    }
    checks = {check.title: check for check in run_checks(metrics)}
    assert not checks["Self-test of the ratio"].fine
    assert "the gate did nothing" in checks["Gate"].text
    assert not checks["Entropy"].fine
    assert "policy/loss (3 times)" in checks["Values"].text
    assert checks["Answers cut off"].fine


def test_a_hard_clip_is_not_held_to_the_soft_gates_share() -> None:
    clipped = {
        "gate/abs_log_ratio_max": Series(steps=(0,), values=(0.5,)),
        "gate/under_half_share": Series(steps=(0,), values=(0.3,)),
    }
    assert "Gate" not in {check.title for check in run_checks(clipped)}
    soft = clipped | {"gate/tau_pos": Series(steps=(0,), values=(1.0,))}
    assert not {check.title: check for check in run_checks(soft)}["Gate"].fine


def test_standard_errors_and_counts_are_no_curves_of_their_own() -> None:
    names = ["eval/all/avg4", "eval/t/avg4", "eval/t_n/avg4", "eval/t/run_n"]
    names += ["eval/all/avg4_n", "eval/all/avg4_stderr", "eval/t/avg4_n", "eval/t/avg4_stderr"]
    metrics = {name: Series(steps=(0,), values=(0.5,)) for name in names}
    drawn = [name for panel in eval_panels(metrics) for name in panel.curves]
    assert sorted(drawn) == ["eval/all/avg4", "eval/t/avg4", "eval/t/run_n", "eval/t_n/avg4"]
