"""The raw fields of a sample: its JSON and its encoded images, and the error that names a fault."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_IMAGE_FIELD = re.compile(r"(?:([0-9]{1,4})\.)?(?:jpg|jpeg|png|webp)")


class SampleError(ValueError):
    """A sample that can't become a prompt.

    Args:
        why: a short fixed name: missing_json, bad_json, missing_question, missing_answer,
            image_count, unknown_media.
        detail: one sentence for a person: the field and what to do.
    """

    def __init__(self, why: str, detail: str) -> None:
        super().__init__(why, detail)
        self.why = why
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.why}: {self.detail}"


def image_extension(data: bytes) -> str:
    """Give the extension (png, jpg, webp) an encoded image should have, by its first bytes.

    Raises:
        ValueError: another format, or no image at all.
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if data.startswith(b"\xff\xd8\xff"):
        return "jpg"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    raise ValueError(
        f"not a PNG, JPEG or WebP image (it starts with {data[:8]!r}); convert it to PNG"
    )


def load_json(fields: Mapping[str, bytes]) -> dict[str, Any]:
    """Read the sample's JSON object, or raise missing_json or bad_json."""
    if "json" not in fields:
        present = ", ".join(sorted(fields)) or "nothing"
        raise SampleError("missing_json", f"the sample has no .json, only {present}")
    try:
        data = json.loads(fields["json"])
    except (ValueError, RecursionError) as error:
        raise SampleError("bad_json", f"the .json can't be read: {error}") from None
    if not isinstance(data, dict):
        raise SampleError("bad_json", f"the .json holds a {type(data).__name__}, not an object")
    return data


def load_images(fields: Mapping[str, bytes]) -> tuple[bytes, ...]:
    """Give the encoded images in order, or raise unknown_media or image_count."""
    numbered: dict[int, bytes] = {}
    plain: list[bytes] = []
    for name, content in fields.items():
        if name == "json" or name.startswith("__"):
            continue
        match = _IMAGE_FIELD.fullmatch(name)
        if match is None:
            raise SampleError("unknown_media", f".{name} is not json, jpg, jpeg, png or webp")
        if match[1] is None:
            plain.append(content)
        elif int(match[1]) in numbered:
            raise SampleError("image_count", f"image number {int(match[1])} is there twice")
        else:
            numbered[int(match[1])] = content
    if len(plain) > 1 or (plain and numbered):
        raise SampleError("image_count", "name several images KEY.0.png, KEY.1.png, ...")
    if sorted(numbered) != list(range(len(numbered))):
        raise SampleError(
            "image_count",
            f"images are numbered {sorted(numbered)}; number them 0, 1, ...",
        )
    return tuple(plain) or tuple(numbered[number] for number in sorted(numbered))


def check_text(value: Any, field: str, why: str = "bad_json") -> str:
    """Give ``value`` if it is a text that can be encoded, or raise ``why`` naming the field."""
    if not isinstance(value, str):
        raise SampleError(why, f'"{field}" is a {type(value).__name__}; write it as a string')
    try:
        value.encode()
    except UnicodeEncodeError:
        # A lone surrogate passes json.loads and would stop the tokenizer in the middle of a run.
        raise SampleError(why, f'"{field}" holds half of a surrogate pair') from None
    return value
