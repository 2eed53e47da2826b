"""The official rule of RefCOCO in lmms-eval: the best of all boxes in a response."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.extraction import after_thinking
from sapo_vl.verifiers.official.refcoco_boxes import Box, find_boxes, read_numbers

_MAX_CHARS = 20_000
_RELATIVE = 1000.0


@dataclass(frozen=True)
class RefCOCOOfficial:
    """Score a grounding answer as lmms-eval's ``refcoco_grounding`` does: ACC at a threshold.

    Every box in the response is tried, in pixels and as 0-1000 values, and **the one with the
    largest overlap counts**: known to be odd, and kept, because published numbers rest on it.
    Listing boxes all over the image passes; a training reward must not do that. ``Verdict.parts``
    has the overlap ("iou").

    The reference is the data set's box, ``[x, y, width, height]`` in pixels as JSON text, or with
    ``corners`` the same box as ``[x1, y1, x2, y2]``, as in our shards;
    ``prompt.meta["size"]`` is the image's ``[width, height]``, without which 0-1000 values are not
    tried. Responses of more than 20,000 characters are read from their end.

    Args:
        threshold: smallest overlap that counts.
        thinking: the model reasons before ``</think>``.
        corners: the reference is ``[x1, y1, x2, y2]``.

    Raises:
        ValueError: a threshold out of range.
    """

    threshold: float = 0.5
    thinking: bool = False
    corners: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise ValueError(f"threshold is {self.threshold}; it must lie in (0, 1]")

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` 1.0 or 0.0."""
        wanted = self._wanted(prompt)
        if wanted is None:
            reason = self.check_reference(prompt) or ""
            return Verdict(score=0.0, status="unparsable_reference", reason=reason)
        text = after_thinking(response, self.thinking)
        boxes = find_boxes(text[-_MAX_CHARS:]) if text is not None else []
        if not boxes:
            reason = "the response holds no box"
            return Verdict(score=0.0, status="no_answer", reason=reason, parts={"iou": 0.0})
        tried = [*boxes, *_scaled(boxes, prompt.meta)]
        iou, best = max((overlap(box, wanted), box) for box in tried)
        reason = f"the best of {len(boxes)} boxes overlaps by {iou:.3f}"
        shown = json.dumps(best)
        score = float(iou >= self.threshold)
        return Verdict(score=score, extracted=shown, reason=reason, parts={"iou": iou})

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        if self._wanted(prompt) is None:
            form = "[x1, y1, x2, y2]" if self.corners else "[x, y, width, height]"
            return f"the reference {prompt.reference[:100]!r} is no {form}"
        return None

    def _wanted(self, prompt: Prompt) -> Box | None:
        try:
            numbers = read_numbers(json.loads(prompt.reference), 4)
        except (ValueError, RecursionError):
            return None
        if numbers is None:
            return None
        left, top, right, bottom = numbers
        if not self.corners:
            right, bottom = left + right, top + bottom
        return (left, top, right, bottom) if left < right and top < bottom else None


def overlap(one: Box, other: Box) -> float:
    """Return the intersection over union of two boxes (left, top, right, bottom), at least 0."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    inner = max(0.0, width) * max(0.0, height)
    union = _area(one) + _area(other) - inner
    # A box of absurd size overflows to inf and its share to nan.
    share = inner / union if union > 0 else 0.0
    return share if 0 <= share <= 1 else 0.0


def _area(box: Box) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def _scaled(boxes: list[Box], meta: Mapping[str, Any]) -> list[Box]:
    size = read_numbers(meta.get("size"), 2)
    if size is None:
        return []
    x, y = size[0] / _RELATIVE, size[1] / _RELATIVE
    scaled = [(box[0] * x, box[1] * y, box[2] * x, box[3] * y) for box in boxes]
    return [box for box in scaled if all(map(math.isfinite, box))]
