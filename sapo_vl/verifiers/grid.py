"""Verifier for grid puzzles in the form of ZebraLogic: a JSON object of houses and their cells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.extraction import Form, check_form
from sapo_vl.verifiers.json_answer import MAX_CHARS, last_object
from sapo_vl.verifiers.opening import answer_or_verdict

GridScore = Literal["puzzle", "cells"]
Cells = dict[tuple[str, str], str]  # (house, attribute) -> value, all folded
_MAX_SHOWN = 2000


@dataclass(frozen=True)
class GridVerifier:
    """Score the cells of the answer's grid against the reference's.

    The answer is the last complete JSON object of the response and holds the grid under
    ``"solution"``: ``{"House 1": {"Name": "Eric", ...}, ...}``. Case and blanks do not count. A
    cell is right when it is one text (or one integer) that equals the reference's: a list of
    candidates is wrong, and so is a house or attribute given twice. Cells that the reference lacks
    are passed over.

    Args:
        form: where the response holds its answer, see `extract_answer`.
        thinking: the model reasons before ``</think>``.
        score: "puzzle": 1 where every cell is right, else 0; "cells": the share of right cells.

    The reference is the grid itself in JSON, or ZebraLogic's ``{"header": [...], "rows": [...]}``,
    whose first column is the house.

    Raises:
        ValueError: an unknown form or score.
    """

    form: Form = "whole"
    thinking: bool = False
    score: GridScore = "puzzle"

    def __post_init__(self) -> None:
        check_form(self.form)
        if self.score not in get_args(GridScore):
            raise ValueError(
                f"score is {self.score!r}; it must be one of {', '.join(get_args(GridScore))}"
            )

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` in [0, 1]; ``parts`` holds the puzzle and the cell score."""
        answer = answer_or_verdict(self, prompt, response)
        if isinstance(answer, Verdict):
            return answer
        given = (last_object(answer) or {}).get("solution")
        if not isinstance(given, dict):
            reason = 'the answer ends in no complete JSON object with a "solution"'
            return Verdict(score=0.0, status="no_answer", reason=reason)
        wanted, cells = read_reference(prompt.reference), read_cells(given)
        right = sum(cells.get(place) == value for place, value in wanted.items())
        parts = {"puzzle": float(right == len(wanted)), "cells": right / len(wanted)}
        shown = json.dumps(given, ensure_ascii=False)[:_MAX_SHOWN]
        reason = f"{right} of {len(wanted)} cells are right"
        return Verdict(score=parts[self.score], extracted=shown, reason=reason, parts=parts)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        if not read_reference(prompt.reference):
            return f"the reference {prompt.reference[:200]!r} is no JSON grid with filled cells"
        return None


def read_cells(grid: Mapping[str, Any]) -> Cells:
    """Return the cells of a grid that hold one text or integer; those given twice are left out."""
    cells: Cells = {}
    seen, doubled = set(), set()
    for house, row in grid.items():
        for name, value in row.items() if isinstance(row, dict) else ():
            place = (_fold(house), _fold(name))
            if place in seen:
                doubled.add(place)
            seen.add(place)
            # bool is an int; true is no cell.
            if isinstance(value, str) or type(value) is int:
                cells[place] = _fold(str(value))
    return {place: value for place, value in cells.items() if place not in doubled}


def read_reference(reference: str) -> Cells:
    """Return the cells of a reference grid; empty where it is none or a cell is empty."""
    if len(reference) > MAX_CHARS:
        return {}
    try:
        grid = json.loads(reference)
    except (ValueError, RecursionError):
        return {}
    if isinstance(grid, dict) and "rows" in grid:
        grid = _from_table(grid)
    if not isinstance(grid, dict) or not all(isinstance(row, dict) for row in grid.values()):
        return {}
    cells = read_cells(grid)
    complete = len(cells) == sum(map(len, grid.values())) and all(cells.values())
    return cells if complete else {}


def _from_table(table: Mapping[str, Any]) -> dict[str, dict[str, Any]] | None:
    header, rows = table.get("header"), table.get("rows")
    if not isinstance(header, list) or not isinstance(rows, list):
        return None
    if not all(isinstance(row, list) and len(row) == len(header) > 1 for row in rows):
        return None
    return {
        f"House {row[0]}": {
            str(name): value for name, value in zip(header[1:], row[1:], strict=True)
        }
        for row in rows
    }


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())
