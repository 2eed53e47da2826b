"""Verifier for pointing: one place in the picture."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.box_geometry import Box, find_boxes, is_inverted, rescaled
from sapo_vl.verifiers.extraction import Form, check_form
from sapo_vl.verifiers.opening import answer_or_verdict
from sapo_vl.verifiers.scale import (
    MAX_CHARS,
    NUMBER,
    Coords,
    Size,
    check_coords,
    is_cut,
    picture_size,
)

Point = tuple[Fraction, Fraction]

_N = rf"\s*({NUMBER})\s*"
_POINT = re.compile(rf"\[{_N},{_N}\]|\({_N},{_N}\)|<point>{_N}[,\s]{_N}</point>")


@dataclass(frozen=True)
class PointVerifier:
    """Accept a point inside the reference's box, or near the reference's point.

    Read are ``[x, y]``, the same in JSON under ``point_2d``, ``(x, y)`` and
    ``<point>x y</point>``. Exactly one point may be given: several different ones score 0, the
    best of several never counts, and so does a point outside the picture.

    Args:
        form: where the response holds its answer, see `extract_answer`.
        thinking: the model reasons before ``</think>``.
        coords: the units of the model's points, see `BoxVerifier`.
        reference_coords: the units of the reference; None: those of ``coords``.
        radius: largest distance from a reference point, in the units of ``coords``; a reference
            box does without. Its border is inside.

    Raises:
        ValueError: an unknown form or scale, or a radius that is negative or not finite.
    """

    form: Form = "whole"
    thinking: bool = False
    coords: Coords = "rel1000"
    reference_coords: Coords | None = None
    radius: float = 0.0

    def __post_init__(self) -> None:
        check_form(self.form)
        check_coords("coords", self.coords)
        check_coords("reference_coords", self.reference_coords)
        if not (math.isfinite(self.radius) and self.radius >= 0):
            raise ValueError(f"radius is {self.radius}; it must be a finite number of 0 or more")

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` 1.0 or 0.0."""
        answer = answer_or_verdict(self, prompt, response)
        if isinstance(answer, Verdict):
            return answer
        shown = answer[:MAX_CHARS]
        points = [] if len(answer) > MAX_CHARS or is_cut(answer) else find_points(answer)
        if not points:
            reason = "the answer holds no point, or is cut or too long"
            return Verdict(score=0.0, extracted=shown, status="no_answer", reason=reason)
        if len(points) > 1:
            reason = f"{len(points)} points are given where one is asked"
            return Verdict(score=0.0, extracted=shown, reason=reason)
        size = picture_size(self.coords, prompt.meta, "size")
        right = _within(points[0], size) and self._hits(points[0], self._wanted(prompt))
        reason = f"the point {'hits' if right else 'misses'} the reference"
        return Verdict(score=float(right), extracted=shown, reason=reason)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        try:
            wanted = self._wanted(prompt)
        except ValueError as error:
            return str(error)
        if wanted is None or is_inverted(wanted):
            return f"the reference {prompt.reference[:200]!r} is neither one box nor one point"
        return None

    def _hits(self, point: Point, wanted: Box | None) -> bool:
        if wanted is None:
            return False
        x = max(wanted[0] - point[0], point[0] - wanted[2], Fraction(0))
        y = max(wanted[1] - point[1], point[1] - wanted[3], Fraction(0))
        is_point = wanted[:2] == wanted[2:]
        radius = Fraction(self.radius) if is_point else Fraction(0)
        return x * x + y * y <= radius * radius

    def _wanted(self, prompt: Prompt) -> Box | None:
        """Return the reference as a box, a point as one without area; None: it is neither."""
        names = ("size",) if self.reference_coords is None else ("original_size", "size")
        target = picture_size(self.coords, prompt.meta, "size")
        own = picture_size(self.reference_coords or self.coords, prompt.meta, *names)
        text = prompt.reference[:MAX_CHARS]
        found = find_boxes(text) or [(x, y, x, y) for x, y in find_points(text)]
        return rescaled(found[0], own, target) if len(found) == 1 and not is_cut(text) else None


def find_points(text: str) -> list[Point]:
    """Return the different points of a text in their order; a point stated twice is one."""
    found = []
    for match in _POINT.finditer(text):
        x, y = (Fraction(group) for group in match.groups() if group)
        found.append((x, y))
    return list(dict.fromkeys(found))


def _within(point: Point, size: Size) -> bool:
    return 0 <= point[0] <= size[0] and 0 <= point[1] <= size[1]
