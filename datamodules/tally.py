"""Count what a set of samples holds: images, their sizes, videos, answers, values of a field."""

from __future__ import annotations

import copy
import io
from collections import Counter
from collections.abc import Mapping
from typing import Any

from PIL import Image

from sapo_vl.types import Prompt

_SHOWN = 10
_PNG = b"\x89PNG\r\n\x1a\n"


class Tally:
    """Running counts of samples, which can be saved as JSON and gone on from.

    Args:
        by: also count the values of this field.
    """

    def __init__(self, by: str = "") -> None:
        self.by = by
        self.samples = 0
        self.images = 0
        self.videos = 0
        self.choices = 0
        self.answers: Counter[str] = Counter()
        self.sides: Counter[str] = Counter()  # "up to so many pixels" -> images, by longest side
        self.values: Counter[str] = Counter()
        self.smallest: list[int] = []
        self.largest: list[int] = []

    def add(self, prompt: Prompt) -> None:
        """Count one sample."""
        self.samples += 1
        self.images += len(prompt.images)
        self.videos += len(prompt.videos)
        self.choices += bool(prompt.options)
        self.answers[prompt.reference[:80]] += 1
        if self.by and self.by in prompt.meta:
            self.values[str(prompt.meta[self.by])] += 1
        for image in prompt.images:
            self._add_size(*image_size(image))

    def _add_size(self, width: int, height: int) -> None:
        self.sides[str(1 << max(0, max(width, height) - 1).bit_length())] += 1
        pixels = width * height
        if not self.smallest or pixels < self.smallest[0] * self.smallest[1]:
            self.smallest = [width, height]
        if not self.largest or pixels > self.largest[0] * self.largest[1]:
            self.largest = [width, height]

    def state(self) -> dict[str, Any]:
        """Give a copy of everything counted, for ``Tally.of_state``."""
        return copy.deepcopy(vars(self))

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Tally:
        """Go on from what ``state`` gave."""
        tally = cls(state["by"])
        for name, value in state.items():
            setattr(tally, name, Counter(value) if isinstance(value, dict) else value)
        return tally

    def summary(self) -> dict[str, Any]:
        """Give the counts as a manifest or a report shows them."""
        common = self.answers.most_common(_SHOWN)
        summary: dict[str, Any] = {
            "samples": self.samples,
            "images": self.images,
            "videos": self.videos,
            "answers": {
                "with_options": self.choices,
                "distinct": len(self.answers),
                "commonest": dict(common),
            },
            "image_sides_up_to": dict(sorted(self.sides.items(), key=lambda item: int(item[0]))),
            "smallest_image": self.smallest,
            "largest_image": self.largest,
        }
        if self.values:
            summary["counts"] = {self.by: dict(sorted(self.values.items()))}
        return summary


def image_size(data: bytes) -> tuple[int, int]:
    """Give width and height out of an image's header; (0, 0) where it can't be read."""
    if data.startswith(_PNG) and len(data) >= 24:  # the commonest by far, and PIL takes 20 x longer
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    try:
        with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "WEBP")) as image:
            return image.size
    except Exception:  # PIL raises many kinds; what can't be decoded is for --check to say
        return (0, 0)
