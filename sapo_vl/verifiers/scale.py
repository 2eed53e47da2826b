"""Which units a model's coordinates have: a property of its family, never guessed from the answer.

Qwen3-VL states thousandths of the picture's sides, Qwen2.5-VL pixels of the picture as it was
resized for the model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal, get_args

Coords = Literal["rel1000", "rel1", "pixels"]
Size = tuple[Fraction, Fraction]  # width, height in the units of the coordinates

NUMBER = r"[+-]?(?:\d{1,9}(?:\.\d{0,12})?|\.\d{1,12})"
MAX_CHARS = 20_000  # of an answer that is searched for boxes or points

_SIDES = {"rel1000": Fraction(1000), "rel1": Fraction(1)}


def check_coords(name: str, coords: str | None) -> None:
    """Refuse a scale that does not exist.

    Raises:
        ValueError: ``coords`` is none of `Coords`.
    """
    if coords is not None and coords not in get_args(Coords):
        raise ValueError(f"{name} is {coords!r}; it must be one of {', '.join(get_args(Coords))}")


def picture_size(coords: Coords, meta: Mapping[str, Any], *names: str) -> Size:
    """Return the picture's width and height in the units of ``coords``.

    Args:
        coords: the scale.
        meta: holds ``[width, height]`` in pixels under one of ``names``, for "pixels" alone.
        names: keys of ``meta``; the first that is there counts.

    Raises:
        ValueError: the scale is pixels and the size is missing or no pair of positive numbers.
    """
    if coords != "pixels":
        return _SIDES[coords], _SIDES[coords]
    size = next((meta[name] for name in names if name in meta), None)
    if (
        not isinstance(size, list | tuple)
        or len(size) != 2
        or not all(isinstance(side, int | float) and 0 < side < math.inf for side in size)
    ):
        raise ValueError(
            f"coordinates in pixels need the picture's size: meta[{names[0]!r}] = [width, height] "
            f"in pixels, but it is {size!r}"
        )
    return Fraction(size[0]), Fraction(size[1])


def is_cut(text: str) -> bool:
    """Return whether brackets are left open or closed twice, as in JSON cut by a length limit."""
    return text.count("[") != text.count("]") or text.count("{") != text.count("}")


def says_none(text: str) -> bool:
    """Return whether an answer states that there is nothing: ``none`` or an empty list."""
    bare = re.sub(r"```(?:json)?|</?answer>|[\s.\"']", "", text[:200]).casefold()
    return len(text) <= 200 and bare in ("none", "[]")
