"""Charts as small inline SVG, coloured by the classes in report.css so that they follow the theme.

Written by hand rather than by matplotlib: far fewer bytes, no ids to keep apart, no inline styles
(the page's policy forbids them), and report.js can read values back from the points to show them
under the pointer. Labels are escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from sapo_vl.report.scale import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Scale,
    short,
    x_scale,
    y_scale,
)

COLOURS = 6  # classes s0 ... s5; further lines repeat them dashed
POINTS = 320  # most points drawn per line


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A named curve: ``xs`` rising, ``ys`` finite; ``style`` picks its colour and dashes."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    style: int = 0

    @property
    def classes(self) -> str:
        """The classes of report.css that draw this line and its legend."""
        return f"s{self.style % COLOURS}" + (" dash" if self.style >= COLOURS else "")


def line_chart(
    lines: Sequence[Line],
    *,
    title: str,
    unit: str = "",
    x_range: tuple[float, float] | None = None,
    lo: float | None = None,
    hi: float | None = None,
    log: bool = False,
    smooth: bool = False,
    marks: Sequence[float] = (),
    x_name: str = "step",
) -> Markup:
    """Draw curves over a shared x axis.

    Args:
        lines: the curves; on a log axis every y above 0.
        title: what is shown, for those who cannot see it.
        unit: ``"%"`` shows shares as percent, ``"s"`` appends seconds.
        x_range: first and last x, so that charts of one stage line up.
        lo: least value the y axis must hold.
        hi: greatest value the y axis must hold.
        log: a logarithmic y axis.
        smooth: draw every value faintly and a running mean boldly.
        marks: x positions of vertical dotted lines.
        x_name: what the x axis counts.
    """
    values = [y for line in lines for y in line.ys]
    y = y_scale(values, lo, hi, log)
    x = x_scale([at for line in lines for at in line.xs], x_range)
    body = [_axes(x, y, unit, x_name)]
    body += [
        Markup('<path class="mark" d="M{0} {1}V{2}"/>').format(_px(x(at)), TOP, HEIGHT - BOTTOM)
        for at in marks
    ]
    for line in lines:
        bold = smooth and len(line.ys) >= 20
        body.append(_curve(line, x, y, f"{line.classes} raw" if bold else line.classes))
        if bold:
            body.append(_curve(_running_mean(line), x, y, f"{line.classes} mean"))
    return _svg(body, x, y, unit, _describe(title, lines, unit))


def stacked_chart(
    lines: Sequence[Line],
    *,
    title: str,
    unit: str = "",
    x_range: tuple[float, float] | None = None,
    x_name: str = "step",
) -> Markup:
    """Draw curves that share their ``xs`` as areas on top of each other."""
    count = len(lines[0].xs)
    keep = (
        sorted({round(i * (count - 1) / 149) for i in range(150)}) if count > 150 else range(count)
    )
    xs = [lines[0].xs[i] for i in keep]
    tops, top = [], [0.0] * len(xs)
    for line in lines:
        top = [base + line.ys[i] for base, i in zip(top, keep, strict=True)]
        tops.append(top)
    y = y_scale(sorted(top), 0.0, None, False)
    x = x_scale([at for line in lines for at in line.xs], x_range)
    body = [_axes(x, y, unit, x_name)]
    lower = [0.0] * len(xs)
    for line, upper in zip(lines, tops, strict=True):
        outline = [*zip(xs, upper, strict=True), *reversed(list(zip(xs, lower, strict=True)))]
        body.append(
            Markup('<polygon class="{} area" points="{}"/>').format(
                line.classes, _points(outline, x, y)
            )
        )
        body.append(_curve(Line(label="", xs=xs, ys=upper), x, y, f"{line.classes} edge"))
        lower = upper
    return _svg(body, x, y, unit, _describe(title, lines, unit), stacked=True)


def interval_plot(
    marks: Sequence[tuple[float, float]], *, lo: float, hi: float, label: str
) -> Markup:
    """Draw one (mean, half width of the interval) per test on a common axis, first to last."""
    # Percentages, not a view box: the plot takes any width and its dots stay round.
    x = Scale(lo=lo, hi=hi, start=2, stop=98)
    body = [
        Markup('<line class="grid" x1="{0}%" x2="{0}%" y1="4" y2="36"/>').format(_px(x(at)))
        for at in x.ticks(4)
    ]
    shape = Markup(
        '<line class="{0}" x1="{1}%" x2="{2}%" y1="{4}" y2="{4}"/>'
        '<circle class="{0}" cx="{3}%" cy="{4}" r="4"/>'
    )
    for i, (mean, half) in enumerate(marks):
        kind = "after" if i == len(marks) - 1 else "before"
        y = 20 if len(marks) == 1 else 12 + 16 * i / (len(marks) - 1)
        ends = (x(at) for at in (mean - half, mean + half, mean))
        body.append(shape.format(kind, *(_px(end) for end in ends), _px(y)))
    return Markup('<svg class="interval" role="img" aria-label="{}">{}</svg>').format(
        label, Markup("").join(body)
    )


def share_bar(parts: Sequence[float], *, label: str) -> Markup:
    """Draw parts of a whole as one horizontal bar."""
    total, at, body = sum(parts) or 1.0, 0.0, []
    for i, part in enumerate(parts):
        width = 600 * part / total
        body.append(
            Markup('<rect class="{} area" x="{}" y="0" width="{}" height="10"/>').format(
                f"s{i % COLOURS}", _px(at), _px(max(width - 1, 0.5))
            )
        )
        at += width
    return Markup(
        '<svg class="share" viewBox="0 0 600 10" preserveAspectRatio="none" role="img"'
        ' aria-label="{}">{}</svg>'
    ).format(label, Markup("").join(body))


def _axes(x: Scale, y: Scale, unit: str, x_name: str) -> Markup:
    grid = "".join(f"M{LEFT} {_px(y(at))}H{WIDTH - RIGHT}" for at in y.ticks())
    text = Markup('<text x="{}" y="{}"{}>{}</text>')
    end = Markup(' text-anchor="end"')
    labels = [text.format(LEFT - 5, _px(y(at) + 3.5), end, short(at, unit)) for at in y.ticks()]
    middle = Markup(' text-anchor="middle"')
    for at in x.ticks():
        room = min(max(x(at), LEFT + 4), WIDTH - 14)
        labels.append(text.format(_px(room), HEIGHT - BOTTOM + 16, middle, short(at)))
    labels.append(
        Markup('<text class="name" x="{}" y="{}">{}</text>').format(
            WIDTH - RIGHT, HEIGHT - 5, x_name
        )
    )
    return Markup('<path class="grid" d="{}"/>{}').format(grid, Markup("").join(labels))


def _curve(line: Line, x: Scale, y: Scale, classes: str) -> Markup:
    points = _thin(list(zip(line.xs, line.ys, strict=True)))
    curve = Markup('<polyline class="{}" points="{}"/>').format(classes, _points(points, x, y))
    if len(points) > 25 or "mean" in classes or "edge" in classes:
        return curve
    dot = Markup('<circle class="{} dot" cx="{}" cy="{}" r="2.2"/>')
    return curve + Markup("").join(dot.format(classes, _px(x(a)), _px(y(b))) for a, b in points)


def _thin(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most POINTS points: the lowest and highest of each stretch, so that no spike is lost."""
    if len(points) <= POINTS:
        return points
    kept: list[tuple[float, float]] = []
    stretches = POINTS // 2
    for i in range(stretches):
        part = points[i * len(points) // stretches : (i + 1) * len(points) // stretches]
        kept += sorted({min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])})
    return kept


def _running_mean(line: Line) -> Line:
    """The mean over a centred window of a tenth of the line, at no more than 120 places."""
    count = len(line.ys)
    half = max(2, count // 20)
    sums = [0.0]
    for value in line.ys:
        sums.append(sums[-1] + value)
    places = sorted({round(i * (count - 1) / 119) for i in range(120)})
    means = []
    for i in places:
        reach = min(half, i, count - 1 - i)  # symmetric: the ends are not pulled inwards
        reach = max(reach, min(2, half))
        first, last = max(0, i - reach), min(count, i + reach + 1)
        means.append((sums[last] - sums[first]) / (last - first))
    return Line(label=line.label, xs=[line.xs[i] for i in places], ys=means)


def _describe(title: str, lines: Sequence[Line], unit: str) -> str:
    spans = [
        f"{line.label} from {short(line.ys[0], unit)} to {short(line.ys[-1], unit)}"
        for line in lines
        if line.ys
    ]
    return f"{title}: {'; '.join(spans)}."


def _points(points: Sequence[tuple[float, float]], x: Scale, y: Scale) -> str:
    return " ".join(f"{_px(x(a))},{_px(y(b))}" for a, b in points)


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _svg(
    body: Sequence[Markup], x: Scale, y: Scale, unit: str, label: str, *, stacked: bool = False
) -> Markup:
    # The data attributes are what report.js needs to turn a point back into a value.
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}" data-x="{!r} {!r}"'
        ' data-y="{!r} {!r}" data-kind="{}" data-unit="{}">{}<path class="cross" d=""/></svg>'
    ).format(
        WIDTH,
        HEIGHT,
        label,
        x.lo,
        x.hi,
        y.lo,
        y.hi,
        "stacked" if stacked else "log" if y.log else "linear",
        unit,
        Markup("").join(body),
    )
