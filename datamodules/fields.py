"""The raw fields of a sample: its JSON and its encoded media, and the error that names a fault."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_MEDIA_FIELD = re.compile(r"(?:([0-9]{1,4})\.)?(?:(jpg|jpeg|png|webp)|mp4)")


class SampleError(ValueError):
    """A sample that can't become a prompt.

    Args:
        why: a short fixed name out of ``sapo_vl.types.SKIP_REASONS``.
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


def is_mp4(data: bytes) -> bool:
    """Tell an mp4 by its first bytes."""
    return data[4:8] == b"ftyp"


def load_json(fields: Mapping[str, bytes]) -> dict[str, Any]:
    """Read the sample's JSON object, or raise missing_json or bad_json."""
    if "json" not in fields:
        present = ", ".join(sorted(fields)) or "nothing"
        raise SampleError("missing_json", f"the sample has no .json, only {present}")
    try:
        data = json.loads(
            fields["json"], parse_constant=_no_constant, object_pairs_hook=_no_repeats
        )
    except (ValueError, RecursionError) as error:
        raise SampleError("bad_json", f"the .json can't be read: {error}") from None
    if not isinstance(data, dict):
        raise SampleError("bad_json", f"the .json holds a {type(data).__name__}, not an object")
    return data


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number; write null")


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is there twice; which one is meant?")
    return found


def load_media(fields: Mapping[str, bytes]) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Give the encoded images and the encoded videos, each in order.

    Raises:
        SampleError: unknown_media or image_count.
    """
    images: list[tuple[int | None, bytes]] = []
    videos: list[tuple[int | None, bytes]] = []
    for name, content in fields.items():
        if name == "json" or name.startswith("__"):
            continue
        match = _MEDIA_FIELD.fullmatch(name)
        if match is None:
            hint = "; write a .gif as .mp4 or .png" if name.endswith("gif") else ""
            raise SampleError(
                "unknown_media", f".{name} is not json, jpg, jpeg, png, webp or mp4{hint}"
            )
        number = None if match[1] is None else int(match[1])
        (images if match[2] else videos).append((number, content))
    return _in_order(images, "image", "png"), _in_order(videos, "video", "mp4")


def _in_order(
    numbered: list[tuple[int | None, bytes]], kind: str, extension: str
) -> tuple[bytes, ...]:
    if len(numbered) == 1 and numbered[0][0] is None:
        return (numbered[0][1],)
    numbers = [number for number, _ in numbered if number is not None]
    if len(numbers) < len(numbered):
        raise SampleError(
            "image_count",
            f"name several {kind}s KEY.0.{extension}, KEY.1.{extension}, ...",
        )
    if sorted(numbers) != list(range(len(numbers))):
        raise SampleError(
            "image_count", f"{kind}s are numbered {sorted(numbers)}; number them 0, 1, ..."
        )
    by_number = dict(numbered)
    return tuple(by_number[number] for number in range(len(numbers)))


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
