"""Finds the last JSON object in a text that may hold braces of all kinds around it."""

from __future__ import annotations

import json
import re
from typing import Any

MAX_CHARS = 200_000
_MAX_BROKEN = 200  # starts that lead nowhere; each may cost a scan to the end of the text

_START = re.compile(r"\{\s*[\"}]")


def last_object(text: str) -> dict[str, Any] | None:
    """Return the last complete outermost JSON object, or None where there is none.

    A stray brace before it does no harm, an object cut short is no object. A text that is too long
    or full of broken starts holds none either: reading it would take long. A key given twice, in
    any object, has the value None: two answers are none.
    """
    if len(text) > MAX_CHARS:
        return None
    decoder = json.JSONDecoder(object_pairs_hook=_unique)
    found, end, broken = None, 0, 0
    for match in _START.finditer(text):
        if match.start() < end:
            continue
        try:
            found, end = decoder.raw_decode(text, match.start())
        # RecursionError: thousands of nested brackets.
        except (ValueError, RecursionError):
            broken += 1
            if broken > _MAX_BROKEN:
                return None
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        found[key] = None if key in found else value
    return found
