"""The JSON of a benchmark as one SVG of bars, written by hand: no plotting library is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from sapo_vl.bench.table import LABELS, TITLES

LEFT, WIDTH, BAR, GAP = 400, 360, 14, 6
COLOURS = {
    "shared": "#1b7f5c",
    "ours": "#1b7f5c",
    "plain": "#8fb8a8",
    "repeated": "#b9b9b9",
    "trl": "#c2573a",
}

Bar = tuple[str, str, float, float]  # variant, label, seconds, times ours


def to_svg(report: Mapping[str, Any]) -> str:
    """Bars of the median seconds, a block for each case and section, each to its own scale."""
    body, y = [], 34
    for case in report["cases"]:
        for section, title in TITLES.items():
            bars = list(_bars(case.get(section, {})))
            if not bars:
                continue
            body.append(_text(12, y, f"{case['name']}: {title}, seconds", weight="bold"))
            y += 8
            longest = max(seconds for _, _, seconds, _ in bars)
            for variant, label, seconds, times in bars:
                length = WIDTH * seconds / longest
                colour = COLOURS[variant]
                body.append(
                    f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" '
                    f'fill="{colour}"/>'
                )
                body.append(_text(LEFT - 8, y + 11, label, anchor="end"))
                value = f"{seconds:.3g} s ({times:.2f} x)"
                body.append(_text(LEFT + length + 6, y + 11, value))
                y += BAR + GAP
            y += 26
    total = LEFT + WIDTH + 140
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{y}" '
        f'viewBox="0 0 {total} {y}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{total}" height="{y}" fill="#ffffff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _bars(found: Mapping[str, Any]) -> Iterator[Bar]:
    for name, stats in found.items():
        ours = found.get("shared") or found["ours"]
        yield name, LABELS[name], stats["median"], stats["median"] / ours["median"]


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" font-weight="{weight}" '
        f'fill="#222222">{escape(text)}</text>'
    )
