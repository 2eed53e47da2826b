"""Axes: where a value lies on a chart, round ticks, and values in few characters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MINUS, DASH = "\N{MINUS SIGN}", "\N{EN DASH}"  # dashes stand for numbers that are not there
WIDTH, HEIGHT = 360, 190
LEFT, RIGHT, TOP, BOTTOM = 42, 8, 8, 36


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """An axis from ``start`` to ``stop`` in pixels; ``log`` spaces by decades."""

    lo: float
    hi: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of ``value``, held inside the axis."""
        lo, hi = (math.log10(self.lo), math.log10(self.hi)) if self.log else (self.lo, self.hi)
        at = (math.log10(max(value, self.lo)) if self.log else value) - lo
        return self.start + (self.stop - self.start) * min(max(at / (hi - lo), 0.0), 1.0)

    def ticks(self, most: int = 5) -> list[float]:
        """Round values inside the axis."""
        if self.log:
            first, last = round(math.log10(self.lo)), round(math.log10(self.hi))
            every = max(1, math.ceil((last - first) / (most - 1)))
            return [10.0**power for power in range(first, last + 1, every)]
        step = _nice_step((self.hi - self.lo) / most)
        first = math.ceil(self.lo / step - 1e-9)
        count = math.floor(self.hi / step + 1e-9) - first + 1
        return [(first + i) * step for i in range(count)]


def y_scale(
    values: Sequence[float], lo: float | None = None, hi: float | None = None, log: bool = False
) -> Scale:
    """The axis from one round value to another that holds ``values``, ``lo`` and ``hi``."""
    start, stop = HEIGHT - BOTTOM, TOP
    low, high = min(values, default=1.0), max(values, default=1.0)
    if log:
        bottom = math.floor(math.log10(max(low, high * 1e-8)))
        top = max(math.ceil(math.log10(high)), bottom + 1)
        return Scale(lo=10.0**bottom, hi=10.0**top, log=True, start=start, stop=stop)
    low, high = (low if lo is None else min(lo, low)), (high if hi is None else max(hi, high))
    if high - low < 1e-9 * max(abs(high), 1e-3):
        low, high = low - 0.05 * (abs(low) or 1.0), high + 0.05 * (abs(high) or 1.0)
    step = _nice_step((high - low) / 4)
    low, high = math.floor(low / step + 1e-6) * step, math.ceil(high / step - 1e-6) * step
    return Scale(lo=low, hi=high, start=start, stop=stop)


def x_scale(xs: Sequence[float], x_range: tuple[float, float] | None = None) -> Scale:
    """The axis over ``x_range``, or over all ``xs``."""
    first, last = x_range or (min(xs, default=0.0), max(xs, default=1.0))
    return Scale(lo=first, hi=last if last > first else first + 1, start=LEFT, stop=WIDTH - RIGHT)


def percent(value: float) -> str:
    """A share as percent with one digit; a dash where there is none."""
    return f"{100 * value:.1f}%" if math.isfinite(value) else DASH


def short(value: float, unit: str = "") -> str:
    """A value in few characters: ``12%``, ``3.4k``, ``2e-7``, ``1.5 s``."""
    if unit == "%":
        return f"{100 * value:.3g}%"
    size = abs(value)
    if size >= 1e4:
        power = min(int(math.log10(size)) // 3, 4)
        text = f"{value / 1000**power:.3g}{'_kMBT'[power]}"
    else:
        text = f"{value:.0f}" if size >= 1000 else f"{value:.3g}"
    if 0 < size < 1e-3:
        digits, power_of_ten = f"{value:.2e}".split("e")
        text = f"{digits.rstrip('0').rstrip('.')}e{int(power_of_ten)}"
    return f"{text} s" if unit == "s" else text


def _nice_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= rough * 0.999)
