r"""Read the values of a row whatever their published form: options, images, answers, plain data.

Options are a list, a mapping, a text that holds a Python list (MMMU), a line ``A. one; B. two``
(We-Math) or columns ``A``, ``B``, ... (VLMEvalKit). Images are bytes, ``{"bytes", "path"}``
(Hugging Face), base64, a path, or several of these.
"""

from __future__ import annotations

import ast
import base64
import binascii
import datetime
import math
import re
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from datamodules.fields import image_extension, is_mp4
from datamodules.sources.described import AnswerForm
from datamodules.sources.rows import Row, RowError

Options = list[Any] | dict[str, Any]

_LETTERED = re.compile(r"(?:^|;)\s*([A-Z])\s*[.:]\s*")


def read_options(value: Any, column: str) -> Options:
    """Give the options as a list of texts or label -> text; empty where there are none."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return []
    if isinstance(value, str):
        value = _options_of_text(value.strip())
    if isinstance(value, list | dict):
        return value
    raise RowError("options", column, f"{value!r}; write a list of texts or label -> text")


def _options_of_text(text: str) -> Any:
    if text[0] in "[{(":
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return text
        return list(value) if isinstance(value, tuple) else value
    pieces = _LETTERED.split(text)
    if pieces[0].strip() or len(pieces) < 5:  # fewer than two options
        return text
    return {label: one.strip() for label, one in zip(pieces[1::2], pieces[2::2], strict=True)}


def lettered_options(fields: Mapping[str, Any]) -> dict[str, str]:
    """Give the columns A, B, ... that have a value as options."""
    if "A" not in fields or "B" not in fields:
        return {}
    filled = {label: fields.get(label) for label in string.ascii_uppercase}
    return {label: str(text) for label, text in filled.items() if text not in (None, "")}


def read_answer(value: Any, options: Options, form: AnswerForm, column: str) -> str:
    """Give the answer as a text; where there are options, the label of the right one.

    Raises:
        RowError: no answer, or one that fits no option or several.
    """
    if isinstance(value, bool):
        value = str(value).lower()
    if not isinstance(value, str | int | float) or value == "" or value != value:
        raise RowError("answer", column, f"{value!r}; write the right answer as a text")
    answer = str(value)
    if not options:
        return answer
    if isinstance(options, list):
        options = dict(zip(string.ascii_uppercase, options, strict=False))
    found = _labels(answer, {label: str(text) for label, text in options.items()}, form)
    if len(found) != 1:
        choices = ", ".join(f"{label}. {text}" for label, text in options.items())
        raise RowError(
            "answer",
            column,
            f"{answer!r} fits {'several' if found else 'none'} of the options ({choices}); give the"
            " text or the label of one, and say by --answers text or label which of the two it is",
        )
    return found.pop()


def _labels(answer: str, options: Mapping[str, str], form: AnswerForm) -> set[str]:
    found = {answer} & set(options) if form in ("label", "auto") else set()
    if form in ("text", "auto"):
        exact = {label for label, text in options.items() if text == answer}
        found |= exact or {label for label, text in options.items() if _same(text, answer)}
    return found


def _same(text: str, answer: str) -> bool:
    return text.strip().casefold() == answer.strip().casefold()


def read_images(value: Any, column: str, row: Row, known_format: bool = True) -> list[bytes]:
    """Give the encoded images of a column.

    Args:
        value: what the column holds.
        column: for messages.
        row: where it stands, what its paths are relative to, whether its texts are base64.
        known_format: refuse what is no PNG, JPEG or WebP (False where images are re-encoded).

    Raises:
        RowError: an image that can't be found or isn't one.
    """
    if isinstance(value, str) and row.base64 and value.lstrip().startswith("["):
        value = _options_of_text(value.strip())
    values = value if isinstance(value, list) else [value]
    images = [_image(one, column, row) for one in values if one not in (None, "")]
    if known_format:
        for data in images:
            try:
                image_extension(data)
            except ValueError as error:
                raise RowError(
                    "image", column, f"an image is {error}, or re-encode all by --format png"
                ) from None
    return images


def read_videos(value: Any, column: str, row: Row) -> list[bytes]:
    """Give the mp4 files of a column.

    Raises:
        RowError: a file that can't be found or is no mp4.
    """
    videos = read_images(value, column, row, known_format=False)
    if not all(is_mp4(data) for data in videos):
        raise RowError("video", column, "a video is no mp4; convert it")
    return videos


def _image(value: Any, column: str, row: Row) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, dict) and value.keys() & {"bytes", "path"}:
        if value.get("bytes"):
            return bytes(value["bytes"])
        value = value.get("path")
    if not isinstance(value, str):
        raise RowError(
            "image",
            column,
            f'{_short(value)}; write a path or a list of paths, or embed {{"bytes", "path"}}',
        )
    if row.base64 and len(value) > 64:
        return _decode(value, column)
    return _read(row.folder / value, column)


def _decode(text: str, column: str) -> bytes:
    text = re.sub(r"\s", "", text.partition("base64,")[2] or text)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RowError(
            "image", column, f"bad base64 ({error}; it starts {text[:12]!r}); encode it again"
        ) from None


def _read(path: Path, column: str) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise RowError(
            "image",
            column,
            f"can't read {path} ({why}); paths are relative to the JSONL file (or its like), or"
            " to --image-root",
        ) from None


def plain(value: Any) -> Any:
    """Give a value as JSON can hold it; encoded files become None."""
    if isinstance(value, bytes | bytearray):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None  # pandas writes a missing value as NaN, which is no JSON
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(one) for one in value]
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
