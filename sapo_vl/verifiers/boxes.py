"""Verifier for grounding: boxes around the objects that the question describes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.box_geometry import (
    Box,
    area,
    clipped,
    find_boxes,
    is_inverted,
    matched,
    overlap,
    rescaled,
)
from sapo_vl.verifiers.extraction import Form, check_form
from sapo_vl.verifiers.opening import answer_or_verdict
from sapo_vl.verifiers.scale import (
    MAX_CHARS,
    Coords,
    check_coords,
    is_cut,
    picture_size,
    says_none,
)

BoxScore = Literal["iou", "giou", "accuracy"]
_MAX_BOXES = 100  # pairing costs the product of both counts


@dataclass(frozen=True)
class BoxVerifier:
    """Score how well the answer's box covers the reference's.

    Read are ``[x1, y1, x2, y2]``, the same in JSON under ``bbox_2d``, ``(x1,y1),(x2,y2)``,
    ``[[x1,y1],[x2,y2]]``, ``<box>x1,y1,x2,y2</box>``, and four numbers alone. Corners are clipped
    to the picture; inverted corners, JSON cut short and answers without a box score 0. A box stated
    twice is one. For one reference box an
    answer of several different boxes scores 0: the best of several never counts. For several
    reference boxes answer and reference are paired one to one (largest IoU first) and the sum is
    divided by the larger number of boxes, so that both missing and surplus ones cost. A reference
    ``none`` accepts ``None`` or ``[]``.

    Args:
        form: where the response holds its answer, see `extract_answer`.
        thinking: the model reasons before ``</think>``.
        coords: the units of the model's boxes: "rel1000" thousandths of the sides (Qwen3-VL),
            "pixels" of the resized picture (Qwen2.5-VL; its size is ``prompt.meta["size"]``,
            ``[width, height]``), "rel1" shares of the sides.
        reference_coords: the units of the reference; None: those of ``coords``. Pixels are of a
            picture of ``prompt.meta["original_size"]``, or ``"size"`` where that is missing.
        score: "iou"; "giou", moved from [-1, 1] to [0, 1]; "accuracy", whether IoU reaches
            ``threshold``.
        threshold: smallest IoU that is right for "accuracy".

    Raises:
        ValueError: an unknown form, scale or score, or a threshold outside (0, 1].
    """

    form: Form = "whole"
    thinking: bool = False
    coords: Coords = "rel1000"
    reference_coords: Coords | None = None
    score: BoxScore = "iou"
    threshold: float = 0.5

    def __post_init__(self) -> None:
        check_form(self.form)
        check_coords("coords", self.coords)
        check_coords("reference_coords", self.reference_coords)
        if self.score not in get_args(BoxScore):
            raise ValueError(
                f"score is {self.score!r}; it must be one of {', '.join(get_args(BoxScore))}"
            )
        if not 0 < self.threshold <= 1:
            raise ValueError(f"threshold is {self.threshold}; it must lie in (0, 1]")

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` in [0, 1]; ``parts`` holds iou, giou (moved) and accuracy."""
        answer = answer_or_verdict(self, prompt, response)
        if isinstance(answer, Verdict):
            return answer
        shown, wanted = answer[:MAX_CHARS], self._wanted(prompt)
        if says_none(answer):
            return _verdict(float(not wanted), shown, "the answer states that there is no object")
        if len(answer) > MAX_CHARS or is_cut(answer):
            return _nothing(shown, "the answer is too long or its brackets do not close")
        boxes = find_boxes(answer)
        if not boxes:
            return _nothing(shown, "the answer holds no box")
        why = _why_refused(boxes, wanted)
        if why is not None:
            return _verdict(0.0, shown, why)
        size = picture_size(self.coords, prompt.meta, "size")
        parts = self._scores([clipped(box, size) for box in boxes], wanted)
        reason = f"IoU {parts['iou']:.3g} of {len(boxes)} against {len(wanted)} boxes"
        return Verdict(score=parts[self.score], extracted=shown, reason=reason, parts=parts)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        try:
            wanted = self._wanted(prompt)
        except ValueError as error:
            return str(error)
        if says_none(prompt.reference):
            return None
        if len(prompt.reference) > MAX_CHARS or is_cut(prompt.reference) or not wanted:
            return f"the reference {prompt.reference[:200]!r} holds no box"
        if len(wanted) > _MAX_BOXES or any(is_inverted(box) or not area(box) for box in wanted):
            return f"a reference box has no area, or there are more than {_MAX_BOXES}"
        return None

    def _wanted(self, prompt: Prompt) -> list[Box]:
        target = picture_size(self.coords, prompt.meta, "size")
        own = picture_size(self.reference_coords or self.coords, prompt.meta, *self._size_names())
        boxes = find_boxes(prompt.reference[:MAX_CHARS])
        return [clipped(rescaled(box, own, target), target) for box in boxes]

    def _size_names(self) -> tuple[str, ...]:
        return ("size",) if self.reference_coords is None else ("original_size", "size")

    def _scores(self, boxes: list[Box], wanted: list[Box]) -> dict[str, float]:
        pairs = [overlap(*pair) for pair in matched(boxes, wanted)]
        count = max(len(boxes), len(wanted))
        return {
            "iou": float(sum(iou for iou, _ in pairs) / count),
            "giou": float(sum((1 + giou) / 2 for _, giou in pairs) / count),
            "accuracy": sum(float(iou) >= self.threshold for iou, _ in pairs) / count,
        }


def _why_refused(boxes: list[Box], wanted: list[Box]) -> str | None:
    rules: list[tuple[Callable[[], bool], str]] = [
        (lambda: not wanted, "the answer holds a box, the reference none"),
        (lambda: len(wanted) == 1 < len(boxes), f"{len(boxes)} boxes are given where one is asked"),
        (lambda: len(boxes) > _MAX_BOXES, f"there are more than {_MAX_BOXES} boxes"),
        (lambda: any(map(is_inverted, boxes)), "the corners of a box are inverted"),
    ]
    return next((reason for broken, reason in rules if broken()), None)


def _verdict(score: float, shown: str, reason: str) -> Verdict:
    parts = dict.fromkeys(get_args(BoxScore), score)
    return Verdict(score=score, extracted=shown, reason=reason, parts=parts)


def _nothing(shown: str, reason: str) -> Verdict:
    return Verdict(score=0.0, extracted=shown, status="no_answer", reason=reason)
