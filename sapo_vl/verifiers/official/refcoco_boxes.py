"""Finds every box in a response, as lmms-eval's RefCOCO task does: JSON first, then numbers."""

from __future__ import annotations

import json
import math
import re
from typing import Any

Box = tuple[float, float, float, float]

_KEYS = ("bbox_2d", "bbox", "box", "coordinates", "coord", "location", "position")
_FENCE = re.compile(r"```(?:json)?(.*?)```", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_BETWEEN = re.compile(r"\s*[,\s]\s*")
_MAX_DIGITS = 30


def find_boxes(text: str) -> list[Box]:
    """Return every box of a response: of its JSON, or else of any four numbers in a row."""
    return _from_json(_read_json(text)) or _from_numbers(text)


def read_numbers(value: Any, count: int) -> tuple[float, ...] | None:
    """Return a list of ``count`` finite numbers, None for anything else."""
    if not isinstance(value, list | tuple) or len(value) != count:
        return None
    try:
        numbers = tuple(float(number) for number in value)
    except (TypeError, ValueError, OverflowError):
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def _read_json(text: str) -> Any | None:
    fence = _FENCE.search(text)
    tries = [fence[1].strip()] if fence else []
    tries += [text.strip(), _between(text, "[", "]"), _between(text, "{", "}")]
    for candidate in tries:
        try:
            return json.loads(candidate)
        # RecursionError: thousands of nested brackets.
        except (ValueError, RecursionError):
            continue
    return None


def _between(text: str, opening: str, closing: str) -> str:
    start, end = text.find(opening), text.rfind(closing)
    return text[start : end + 1] if 0 <= start < end else ""


def _from_json(data: Any) -> list[Box]:
    boxes: list[Box] = []
    waiting = [data]  # a list, not recursion: nesting is the model's to choose
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            found = next((b for key in _KEYS if (b := _box(value.get(key)))), None)
            waiting.extend([] if found else value.values())
        elif isinstance(value, list):
            bare = all(isinstance(number, int | float) for number in value)
            found = _box(value) if bare else None
            waiting.extend([] if found else value)
        else:
            found = None
        if found is not None:
            boxes.append(found)
    return boxes[::-1]


def _box(value: Any) -> Box | None:
    numbers = read_numbers(value, 4)
    return (numbers[0], numbers[1], numbers[2], numbers[3]) if numbers else None


def _from_numbers(text: str) -> list[Box]:
    boxes: list[Box] = []
    row: list[float] = []
    end = 0
    for match in _NUMBER.finditer(text):
        joined = _BETWEEN.fullmatch(text, end, match.start())
        row = row if row and joined else []
        end = match.end()
        row.append(float(match[0][:_MAX_DIGITS]))
        if len(row) == 4:
            boxes.append((row[0], row[1], row[2], row[3]))
            row = []
    return boxes
