"""Targets whose references are places and grids, and those that have no reference."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

from sapo_vl.verifiers.attack.targets import Target, hidden_set
from sapo_vl.verifiers.boxes import BoxScore, BoxVerifier
from sapo_vl.verifiers.format import FormatVerifier
from sapo_vl.verifiers.grid import GridScore, GridVerifier
from sapo_vl.verifiers.language import LanguagePenalty
from sapo_vl.verifiers.overlong import OverlongPenalty
from sapo_vl.verifiers.points import PointVerifier
from sapo_vl.verifiers.repetition import RepetitionPenalty

# Disjoint boxes with gaps. The overlaps of one box with disjoint ones add up to 1 at most, and for
# two of them to reach a half each they must touch; so the best guess is one of them.
BOXES = tuple((x, y, x + 150, y + 150) for x in (50, 300, 550, 800) for y in (100, 400, 700))
NAMES, DRINKS = ("Eric", "Bob", "Ann"), ("tea", "milk", "beer")
_SCRAPS = (
    *(
        "[0, 0, 1000, 1000]",
        "[-1e9, -1e9, 1e9, 1e9]",
        "[0, 0, 0, 0]",
        "None",
        "[]",
        "label",
        "bbox_2d",
    ),
    *(
        '{"bbox_2d": ',
        ', "label": "cat"}',
        "[",
        "]",
        "(",
        ")",
        "500",
        "1000",
        "0",
        ",",
        "nan",
        "1e400",
    ),
    *(
        "<box>",
        "</box>",
        "<point>",
        "</point>",
        "(500, 500)",
        "[500, 500]",
        "point_2d",
        "1e-400",
        "-0",
    ),
)


def place_targets() -> list[Target]:
    """Return the targets whose answers are boxes, points and grids."""
    single = [json.dumps(box) for box in BOXES]
    pairs = [json.dumps(pair) for pair in itertools.combinations(BOXES, 2)]
    words = (*single, *_SCRAPS)
    count = len(BOXES)
    return [
        Target(
            "box: iou", BoxVerifier, hidden_set([*single, "None"]), 1 / (count + 1), words, share=2
        ),
        _box("accuracy", 1 / count, words),
        _box("giou", best_giou(), words, margin=1e-3),
        # Each of m boxes earns 2 / 12 on average at best, and m or 2 divides the sum.
        Target(
            "box: pairs",
            BoxVerifier,
            hidden_set(pairs[::3]),
            _pairs(pairs[::3]),
            (*pairs[::3], *words),
            margin=1e-3,
        ),
        Target(
            "point", PointVerifier, hidden_set(single), 1 / count, (*_points(), *words), share=2
        ),
        *(_grid(score) for score in ("puzzle", "cells")),
    ]


def shape_targets() -> list[Target]:
    """Return the rules about shape: an ordinary response has the whole score, nothing has more."""
    words = ("There are three apples.", "wait ", "苹果", "<think>a</think>", r"\boxed{1}", "x" * 50)
    asked = hidden_set([""] * 3, ({"question": "How many apples are on the table here?"},))
    return [
        Target("format", FormatVerifier, asked, 1.0, words, r"<think>a</think>\boxed{%s}"),
        Target("language", LanguagePenalty, asked, 1.0, words),
        Target("repetition", RepetitionPenalty, asked, 1.0, words),
        Target("overlong", lambda: OverlongPenalty(limit=100, buffer=50), asked, 1.0, words),
    ]


def best_giou() -> float:
    """Return the mean score of the best box that a search over its corners finds.

    A box around everything overlaps each a little and leaves nothing empty: generalised IoU pays
    that with more than a half, which is its definition and no fault of the rule.
    """
    best = 0.0
    starts = ((0, 0, 1000, 1000), (0, 0, 1000, 900), (50, 100, 950, 850), BOXES[5])
    for start in starts:
        box, step, value = [float(x) for x in start], 64.0, _mean_giou(start)
        while step > 0.01:
            moved = False
            for i, sign in itertools.product(range(4), (-1, 1)):
                tried = [min(max(x + sign * step * (j == i), 0), 1000) for j, x in enumerate(box)]
                other = _mean_giou(tried)
                if other > value:
                    box, value, moved = tried, other, True
            step = step if moved else step / 2
        best = max(best, value)
    return best


def _mean_giou(box: Sequence[float]) -> float:
    total = 0.0
    for other in BOXES:
        width = max(0.0, min(box[2], other[2]) - max(box[0], other[0]))
        height = max(0.0, min(box[3], other[3]) - max(box[1], other[1]))
        own, wanted = (box[2] - box[0]) * (box[3] - box[1]), (other[2] - other[0]) ** 2
        union = own + wanted - width * height
        hull = (max(box[2], other[2]) - min(box[0], other[0])) * (
            max(box[3], other[3]) - min(box[1], other[1])
        )
        total += (1 + width * height / union - (hull - union) / hull) / 2
    return total / len(BOXES)


def _pairs(references: Sequence[str]) -> float:
    """Return what the best two of the boxes earn; more boxes, or fewer, earn no more."""
    wanted = [{tuple(box) for box in json.loads(text)} for text in references]
    shares = [
        sum(len(pair & set(guess)) for pair in wanted) / (max(len(guess), 2) * len(wanted))
        for m in (1, 2, 3, 4)
        for guess in itertools.combinations(BOXES, m)
    ]
    return max(shares)


def _points() -> tuple[str, ...]:
    return tuple(f"[{(a + c) // 2}, {(b + d) // 2}]" for a, b, c, d in BOXES)


def _box(score: BoxScore, honest: float, words: tuple[str, ...], margin: float = 1e-6) -> Target:
    references = [json.dumps(box) for box in BOXES]
    return Target(
        f"box: {score}",
        lambda: BoxVerifier(score=score),
        hidden_set(references),
        honest,
        words,
        margin=margin,
    )


def _grid(score: GridScore) -> Target:
    """Return all orders of three names and three drinks: each cell is a guess of one in three."""
    grids = [
        {
            f"House {i + 1}": {"Name": n, "Drink": d}
            for i, (n, d) in enumerate(zip(a, b, strict=True))
        }
        for a in itertools.permutations(NAMES)
        for b in itertools.permutations(DRINKS)
    ]
    references = [json.dumps(grid) for grid in grids]
    cells = [json.dumps({"House 1": {"Name": value}}) for value in _odd_cells()]
    pieces = ('{"House 1": ', '{"Name": "Eric"', ', "Drink": "tea"}', "}", ', "House 2": ', "null")
    return Target(
        f"grid: {score}",
        lambda: GridVerifier(score=score),
        hidden_set(references),
        {"puzzle": 1 / len(grids), "cells": 1 / 3}[score],
        (*references[::5], *cells, *pieces, '["Eric", "Bob", "Ann"]'),
        '{"solution": %s}',
    )


def _odd_cells() -> list[Any]:
    return [list(NAMES), "Eric or Bob", "Eric, Bob, Ann", "", None, 1, True, {"Eric": "Bob"}, "*"]
