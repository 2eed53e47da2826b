"""Says what the official scripts' ``float()`` would read, without its cost on endless digits."""

from __future__ import annotations

_MAX_CHARS = 400


def is_float(text: str) -> bool:
    """Return whether Python's ``float`` reads the text; "nan" and "1_000" count, as there."""
    if len(text) > _MAX_CHARS:
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True
