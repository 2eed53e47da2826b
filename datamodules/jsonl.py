"""Read JSONL files that must hold an object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every object of a JSONL file after its place, "FILE, line N"; blank lines do not count.

    Raises:
        ValueError: a line is no JSON or no object; the message names file and line.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                found = json.loads(line)
            # RecursionError: thousands of nested brackets.
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{where}: no JSON ({error})") from None
            if not isinstance(found, dict):
                raise ValueError(f"{where}: holds a {type(found).__name__}, not an object")
            yield where, found
