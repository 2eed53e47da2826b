from __future__ import annotations

from typing import Any

import pytest

from sapo_vl.types import Prompt
from sapo_vl.verifiers import BoxVerifier, PointVerifier

CAT, DOG = "[100, 200, 300, 400]", "[500, 500, 600, 700]"


def score(
    answer: str, reference: str = CAT, meta: dict[str, Any] | None = None, **given: Any
) -> float:
    verdict = BoxVerifier(**given)(Prompt(reference=reference, meta=meta or {}), answer)
    assert verdict.status in ("ok", "no_answer")
    assert 0 <= verdict.score <= 1
    return verdict.score


def test_iou_is_exact_and_giou_and_accuracy_are_parts() -> None:
    verdict = BoxVerifier()(Prompt(reference="[400, 400, 500, 500]"), "[0, 0, 1000, 1000]")
    assert verdict.score == 0.01
    assert verdict.parts == {"iou": 0.01, "giou": 0.505, "accuracy": 0.0}
    apart = BoxVerifier(score="giou")(
        Prompt(reference="[0, 0, 100, 100]"), "[900, 900, 1000, 1000]"
    )
    assert apart.score == pytest.approx((1 + (0 - 0.98)) / 2)
    assert apart.parts["iou"] == 0


def test_the_threshold_is_inclusive() -> None:
    half = "[100, 200, 300, 300]"
    assert score(half) == 0.5
    assert score(half, score="accuracy") == 1
    assert score(half, score="accuracy", threshold=0.51) == 0


def test_several_boxes_for_one_are_refused_and_for_several_are_paired() -> None:
    both = f"[{CAT}, {DOG}]"
    assert score(f"{CAT} {DOG}") == 0
    assert score(f"{DOG} {CAT}", both) == 1
    assert score(CAT, both) == 0.5
    assert score(f"{CAT} {DOG} [0, 0, 10, 10]", both) == pytest.approx(2 / 3)
    assert score(" ".join(f"[0, 0, {i}, {i}]" for i in range(1, 150)), both) == 0


def test_the_scale_is_fixed_and_never_tried_out() -> None:
    pixels = "[64, 128, 192, 256]"  # of 640 x 640, the cat
    assert score(pixels, meta={"size": [640, 640]}) == pytest.approx(0.1006, abs=1e-3)
    given: dict[str, Any] = {"coords": "pixels", "reference_coords": "rel1000"}
    assert score(pixels, meta={"size": [640, 640]}, **given) == 1
    assert score(CAT, meta={"size": [640, 640]}, **given) < 0.2
    original: dict[str, Any] = {"reference_coords": "pixels"}
    assert score(CAT, "[50, 100, 150, 200]", meta={"original_size": [500, 500]}, **original) == 1
    assert score("[0.1, 0.2, 0.3, 0.4]", "[0.1, 0.2, 0.3, 0.4]", coords="rel1") == 1
    assert (
        score("[5, 5, 900, 700]", "[0, 0, 640, 480]", {"size": [640, 480]}, coords="pixels") > 0.9
    )


@pytest.mark.parametrize("verifier", [BoxVerifier(coords="pixels"), PointVerifier(coords="pixels")])
@pytest.mark.parametrize(
    "size", [None, "640x480", [640], [0, 480], [640, "480"], [640, float("nan")]]
)
def test_pixels_need_a_size(verifier: Any, size: Any) -> None:
    prompt = Prompt(reference=CAT, meta={"size": size} if size is not None else {})
    assert "meta['size']" in verifier.check_reference(prompt)
    assert verifier(prompt, CAT).status == "unparsable_reference"


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "cat",
        "[1, 2, 3]",
        "[300, 400, 100, 200]",
        "[1, 1, 1, 5]",
        "[1200, 0, 1300, 9]",
        "[[1, 2, 3, 4]",
    ],
)
def test_an_unusable_box_is_named(reference: str) -> None:
    assert BoxVerifier().check_reference(Prompt(reference=reference))


@pytest.mark.parametrize(
    "reference", ["", "cat", "[300, 400, 100, 200]", f"{CAT} {DOG}", "[1, 2] [3, 4]"]
)
def test_an_unusable_point_is_named(reference: str) -> None:
    assert PointVerifier().check_reference(Prompt(reference=reference))


def test_points_are_scaled_and_must_lie_in_the_picture() -> None:
    meta = {"size": [640, 480]}
    verifier = PointVerifier(coords="pixels", reference_coords="rel1000")
    assert verifier(Prompt(reference="[500, 500, 600, 600]", meta=meta), "[350, 250]").score == 1
    assert verifier(Prompt(reference="[500, 500, 600, 600]", meta=meta), "[550, 550]").score == 0
    outside = PointVerifier(radius=50.0)(Prompt(reference="[990, 500]"), "[1010, 500]")
    assert outside.score == 0


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (BoxVerifier, {"coords": "pixel"}),
        (BoxVerifier, {"reference_coords": "rel100"}),
        (BoxVerifier, {"score": "l1"}),
        (BoxVerifier, {"threshold": 0.0}),
        (PointVerifier, {"coords": ""}),
        (PointVerifier, {"radius": -1.0}),
        (PointVerifier, {"radius": float("nan")}),
    ],
)
def test_bad_arguments_are_refused(kind: type, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        kind(**given)
