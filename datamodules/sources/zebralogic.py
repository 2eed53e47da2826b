"""ZebraLogic: the solution table of a puzzle as the JSON text its answers have.

The published set has every cell masked as ``___``; the solutions are in a gated copy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from datamodules.sources.rows import RowError

_MASK = "___"


def plain_columns(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Give a row with ``question`` (the puzzle) and ``answer``: house -> attribute -> value."""
    solution = fields.get("solution")
    header = solution.get("header") if isinstance(solution, dict) else None
    rows = solution.get("rows") if isinstance(solution, dict) else None
    if not isinstance(header, list) or not isinstance(rows, list) or not rows:
        raise RowError("answer", "solution", f'{solution!r}; it must hold "header" and "rows"')
    if any(not isinstance(row, list) or len(row) != len(header) for row in rows):
        raise RowError("answer", "solution", "a row is no list as long as the header")
    if any(cell == _MASK for row in rows for cell in row):
        raise RowError(
            "answer", "solution", "masked, as in the public copy; use the gated one with solutions"
        )
    table = {
        f"House {row[0]}": {
            str(name): str(cell) for name, cell in zip(header[1:], row[1:], strict=True)
        }
        for row in rows
    }
    rest = {name: value for name, value in fields.items() if name != "puzzle"}
    return {**rest, "question": fields.get("puzzle"), "answer": json.dumps(table)}
