"""Reads boxes out of a text and compares them, exactly: all numbers are fractions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from fractions import Fraction

from sapo_vl.verifiers.scale import NUMBER, Size

_MAX_BARE = 200
Box = tuple[Fraction, Fraction, Fraction, Fraction]  # left, top, right, bottom

_N = rf"\s*\"?({NUMBER})\"?\s*"
_BOX = re.compile(
    rf"[\[(]{_N},{_N},{_N},{_N}[\])]"  # JSON, with or without a "bbox_2d" before it
    rf"|\({_N},{_N}\)\s*,?\s*\({_N},{_N}\)"  # Qwen2-VL: (x1,y1),(x2,y2)
    rf"|\[\s*\[{_N},{_N}\]\s*,\s*\[{_N},{_N}\]\s*\]"
    rf"|<b?box>{_N},{_N},{_N},{_N}</b?box>"
)
_BARE = re.compile(rf"{_N},{_N},{_N},{_N}\.?")


def find_boxes(text: str) -> list[Box]:
    """Return the different boxes of a text in their order; a box stated twice is one.

    Four numbers with commas between them are a box without brackets where they are all there is.
    """
    text = unicodedata.normalize("NFKC", text)
    bare = _BARE.fullmatch(text.strip()) if len(text) < _MAX_BARE else None
    found = []
    for match in [bare] if bare else _BOX.finditer(text):
        left, top, right, bottom = (Fraction(group) for group in match.groups() if group)
        found.append((left, top, right, bottom))
    return list(dict.fromkeys(found))


def is_inverted(box: Box) -> bool:
    """Return whether the second corner lies left of or above the first."""
    return box[0] > box[2] or box[1] > box[3]


def clipped(box: Box, size: Size) -> Box:
    """Return the part of a box that lies in the picture."""
    left, right = (min(max(x, Fraction(0)), size[0]) for x in (box[0], box[2]))
    top, bottom = (min(max(y, Fraction(0)), size[1]) for y in (box[1], box[3]))
    return left, top, right, bottom


def rescaled(box: Box, size: Size, target: Size) -> Box:
    """Return a box of a picture of ``size`` in the units of the same picture of ``target``."""
    x, y = target[0] / size[0], target[1] / size[1]
    return box[0] * x, box[1] * y, box[2] * x, box[3] * y


def area(box: Box) -> Fraction:
    """Return the area; 0 for a box without width or height."""
    return max(box[2] - box[0], Fraction(0)) * max(box[3] - box[1], Fraction(0))


def overlap(one: Box, other: Box) -> tuple[Fraction, Fraction]:
    """Return intersection over union (IoU) and the generalised IoU of Rezatofighi et al., 2019.

    The first lies in [0, 1], the second in [-1, 1]: it falls with the empty share of the smallest
    box around both. Two boxes without area have neither: 0 and -1.
    """
    common = area(
        (max(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2]), min(one[3], other[3]))
    )
    union = area(one) + area(other) - common
    hull = area(
        (min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3]))
    )
    if not union or not hull:
        return Fraction(0), Fraction(-1)
    return common / union, common / union - (hull - union) / hull


def matched(answers: Sequence[Box], wanted: Sequence[Box]) -> list[tuple[Box, Box]]:
    """Pair boxes one to one, the largest IoU first; what overlaps nothing may stay unpaired."""
    pairs = [
        (overlap(a, w)[0], -i, -j) for i, a in enumerate(answers) for j, w in enumerate(wanted)
    ]
    taken: list[tuple[int, int]] = []
    for _, i, j in sorted(pairs, reverse=True):
        if all(i != one and j != other for one, other in taken):
            taken.append((i, j))
    return [(answers[-i], wanted[-j]) for i, j in taken]
