"""The official rule of ZebraLogic: the grid as JSON, cell by cell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.extraction import after_thinking

Metric = Literal["puzzle", "cell"]

_MAX_SHOWN = 300
Table = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class ZebraLogicOfficial:
    """Score a grid puzzle as ZebraLogic's evaluator (ZeroEval) does.

    The answer is the last complete JSON object of the response; its "solution" maps houses to
    columns to values. Cells are compared without case and outer blanks; a missing or empty one is
    wrong. ``Verdict.parts`` has "puzzle" (every cell right), "cell" (the share of right cells),
    "right" and "cells" (their numbers). The official cell accuracy is the sum of "right" over that
    of "cells", so large puzzles weigh more, and a response without an answer counts all its cells.

    Known oddities, kept: braces are counted in prose too, so a stray "{" before the JSON loses it;
    a later JSON object without "solution" replaces the answer; of a list in a cell the first entry
    counts; names of houses and columns must match in case. Not kept: a number in a cell, which
    stops the original's whole evaluation, is a wrong cell.

    The reference, JSON text in ``prompt.reference``, is the data set's ``{"header": [...], "rows":
    [...]}`` or the table itself, ``{"House 1": {"Name": "Eric", ...}, ...}``.

    Args:
        metric: which of the two is the score.
        thinking: the model reasons before ``</think>``.

    Raises:
        ValueError: an unknown metric.
    """

    metric: Metric = "puzzle"
    thinking: bool = False

    def __post_init__(self) -> None:
        if self.metric not in get_args(Metric):
            raise ValueError(f"metric is {self.metric!r}; it must be puzzle or cell")

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` from 0.0 to 1.0."""
        wanted = read_table(prompt.reference)
        if wanted is None:
            reason = f"the reference {prompt.reference[:_MAX_SHOWN]!r} is no grid"
            return Verdict(score=0.0, status="unparsable_reference", reason=reason)
        text = after_thinking(response, self.thinking)
        found = last_json(text) if text is not None else None
        solution = found.get("solution") if isinstance(found, dict) else None
        cells = [(house, column) for house, row in wanted.items() for column in row]
        parts = {"puzzle": 0.0, "cell": 0.0, "right": 0.0, "cells": float(len(cells))}
        if solution is None:
            reason = 'no complete JSON object with a "solution" ends the response'
            return Verdict(score=0.0, status="no_answer", reason=reason, parts=parts)
        right = sum(_same(_cell(solution, h, c), wanted[h][c]) for h, c in cells)
        puzzle, cell = float(right == len(cells)), right / len(cells)
        parts |= {"puzzle": puzzle, "cell": cell, "right": float(right)}
        shown = json.dumps(solution, ensure_ascii=False)[:_MAX_SHOWN]
        reason = f"{right} of {len(cells)} cells are right"
        return Verdict(score=parts[self.metric], extracted=shown, reason=reason, parts=parts)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        usable = read_table(prompt.reference) is not None
        return None if usable else f"the reference {prompt.reference[:_MAX_SHOWN]!r} is no grid"


def read_table(text: str) -> Table | None:
    """Return the reference as houses to columns to values, None where it is no such thing."""
    try:
        data = json.loads(text)
        if "rows" in data:
            columns = data["header"][1:]
            rows = [dict(zip(columns, row[1:], strict=True)) for row in data["rows"]]
            data = {f"House {i}": row for i, row in enumerate(rows, start=1)}
        cells = [cell for row in data.values() for cell in row.values()]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return data if cells and all(isinstance(cell, str) for cell in cells) else None


def last_json(text: str) -> Any | None:
    """Return the last outermost ``{...}`` of a text, parsed; None where it is no JSON."""
    start = end = -1
    depth = begin = 0
    for i, char in enumerate(text):
        if char == "{":
            begin = i if depth == 0 else begin
            depth += 1
        elif char == "}" and depth:
            depth -= 1
            if depth == 0:
                start, end = begin, i + 1
    try:
        return json.loads(text[start:end].replace("\n", "")) if start >= 0 else None
    # RecursionError: thousands of nested brackets.
    except (ValueError, RecursionError):
        return None


def _cell(solution: Any, house: str, column: str) -> Any:
    row = solution.get(house) if isinstance(solution, dict) else None
    cell = row.get(column) if isinstance(row, dict) else None
    return cell[0] if isinstance(cell, list) and cell else cell


def _same(cell: Any, wanted: str) -> bool:
    return isinstance(cell, str) and cell.lower().strip() == wanted.lower().strip()
