"""Rows of benchmarks whose published columns need more than a name: what each is turned into."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from datamodules.fields import SampleError
from datamodules.images import open_image
from datamodules.sources.rows import RowError

_MATHVERSE_TEXTS = ("question", "question_for_eval", "query_wo", "query_cot")


def mathverse(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Give the row a question where its version shows the question in the picture alone."""
    question = next((fields[name] for name in _MATHVERSE_TEXTS if fields.get(name)), None)
    return {**fields, "question": question}


def wemath(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Give ``key`` (2steps_1, 2steps_multi, ...) as ``step``: a sample's key is its own name."""
    rest = {name: value for name, value in fields.items() if name != "key"}
    return {**rest, "step": fields.get("key")}


def mmmu_pro_vision(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Give the row the question that the picture answers: it has none of its own."""
    return {**fields, "question": "Answer the question in the picture."}


def refcoco(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Give the descriptions as ``question``, the box as ``answer``, and the picture's ``size``.

    Published are ``answer`` (several descriptions of one object), ``bbox`` [x, y, width, height] in
    pixels, and a question about another task. The answer is [x1, y1, x2, y2] in pixels.
    """
    said, box, image = fields.get("answer"), fields.get("bbox"), fields.get("image")
    texts = [str(one).strip() for one in (said if isinstance(said, list) else [said]) if one]
    if not texts:
        raise RowError("question", "answer", f"{said!r}; it must hold descriptions of the object")
    if not isinstance(box, list) or len(box) != 4:
        raise RowError("answer", "bbox", f"{box!r}; it must be [x, y, width, height]")
    data = image.get("bytes") if isinstance(image, Mapping) else None
    if not isinstance(data, bytes):
        raise RowError("image", "image", "not embedded; use the parquet files")
    try:
        size = open_image(data).size
    except SampleError as error:
        raise RowError("image", "image", error.detail) from None
    left, top, width, height = (float(side) for side in box)
    gone = ("question", "answer", "segmentation", "bbox")
    rest = {name: value for name, value in fields.items() if name not in gone}
    return {
        **rest,
        "question": ", ".join(f'"{text}"' for text in texts),
        "answer": json.dumps([left, top, left + width, top + height]),
        "size": list(size),
    }
