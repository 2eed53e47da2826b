"""Rows as CSV and Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

Rows = Sequence[Mapping[str, Any]]


def csv_text(rows: Rows) -> str:
    """Rows of one set of columns as CSV with a header."""
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def markdown_table(rows: Rows) -> str:
    """Rows of one set of columns as a Markdown table."""
    if not rows:
        return "none"
    names = list(rows[0])
    lines = [names, ["---"] * len(names), *([_cell(row[name]) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    return " ".join(str(value).replace("|", "\\|").replace("\n", "⏎ ").split())
