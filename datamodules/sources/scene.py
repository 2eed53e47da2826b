"""Drawn scenes: what lies where, the picture of it, and the split it belongs to.

A scene lies on a grid of 4 x 4 cells with at most one figure a cell. On the 64-pixel picture a
cell is 16 pixels: one merged patch of a small model with patch 8 and merge 2, which is what such a
model learns from. All coordinates are in 64ths of the picture's side.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from PIL import Image, ImageDraw

COLOURS = {
    "red": (220, 40, 40),
    "green": (30, 160, 60),
    "blue": (50, 80, 220),
    "yellow": (240, 190, 30),
}
KINDS = ("circle", "square", "triangle", "cross")
SPLITS = ("train", "val", "test")
GRID = 4  # cells a side
CELL = 16
SIDE = GRID * CELL

_BACKGROUND = (255, 255, 255)
_BAR_STEP = 8
_BAR_MARGIN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One shape of a scene.

    Example: ``Shape(kind="circle", colour="red", cell=5, x=23, y=25, radius=6)``.
    """

    kind: str
    colour: str
    cell: int  # row * 4 + column
    x: int  # centre
    y: int
    radius: int

    @property
    def column(self) -> int:
        """Column of the cell, 0 (left) to 3."""
        return self.cell % GRID

    @property
    def content(self) -> str:
        """What tells this shape from another; size and jitter are left out."""
        return f"{self.kind} {self.colour} {self.cell}"

    def draw(self, pen: ImageDraw.ImageDraw, unit: float) -> None:
        """Draw the shape; ``unit`` is the number of pixels in a 64th of the side."""
        fill = COLOURS[self.colour]
        # PIL's boxes include their last pixel; without the -1 a large shape touches the next cell.
        left, top = round((self.x - self.radius) * unit), round((self.y - self.radius) * unit)
        right = round((self.x + self.radius) * unit) - 1
        bottom = round((self.y + self.radius) * unit) - 1
        if self.kind == "circle":
            pen.ellipse((left, top, right, bottom), fill=fill)
        elif self.kind == "square":
            pen.rectangle((left, top, right, bottom), fill=fill)
        elif self.kind == "triangle":
            pen.polygon([((left + right) // 2, top), (left, bottom), (right, bottom)], fill=fill)
        else:
            inset = (right - left) // 3
            pen.rectangle((left + inset, top, right - inset, bottom), fill=fill)
            pen.rectangle((left, top + inset, right, bottom - inset), fill=fill)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar of a chart, on the bottom line. Example: ``Bar(colour="red", column=2, value=5)``."""

    colour: str
    column: int  # 0 (left) to 3
    value: int  # 1 to 8, in steps of an eighth of the side

    @property
    def content(self) -> str:
        """What tells this bar from another."""
        return f"bar {self.colour} {self.column} {self.value}"

    def draw(self, pen: ImageDraw.ImageDraw, unit: float) -> None:
        """Draw the bar; ``unit`` is the number of pixels in a 64th of the side."""
        left = round((self.column * CELL + _BAR_MARGIN) * unit)
        right = round(((self.column + 1) * CELL - _BAR_MARGIN) * unit) - 1
        top = round((SIDE - self.value * _BAR_STEP) * unit)
        pen.rectangle((left, top, right, round(SIDE * unit) - 1), fill=COLOURS[self.colour])


Scene = Sequence[Shape | Bar]


def split_of(scene: Scene) -> str:
    """Give the split a scene belongs to: 80 % train, 10 % val, 10 % test.

    The content alone decides, so two splits can't share a scene, whatever the seed, task, size or
    jitter.
    """
    content = "|".join(sorted(figure.content for figure in scene))
    place = int.from_bytes(hashlib.blake2b(content.encode(), digest_size=8).digest(), "big") % 10
    return SPLITS[max(0, place - 7)]


def render(scene: Scene, size: int = SIDE) -> bytes:
    """Draw a scene as an RGB PNG of ``size`` x ``size`` pixels.

    Raises:
        ValueError: ``size`` is no multiple of 16, or below 32.
    """
    if size < 32 or size % CELL:
        raise ValueError(f"size is {size}; it must be a multiple of {CELL}, at least 32")
    image = Image.new("RGB", (size, size), _BACKGROUND)
    pen = ImageDraw.Draw(image)
    for figure in scene:
        figure.draw(pen, size / SIDE)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def describe(scene: Scene) -> list[dict[str, Any]]:
    """Give the scene as JSON data, one object a figure."""
    return [asdict(figure) for figure in scene]
