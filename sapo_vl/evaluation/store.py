"""Answers on disk while a test runs: nothing that was finished is lost, or done twice.

Every rank appends to a part of its own (``samples-rank0.jsonl``, ...); at the end the parts become
``samples.jsonl``. A process that is killed leaves at most one torn line, which is dropped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Record = dict[str, Any]
Name = tuple[str, str, str]  # task, key, sampling


class AnswerStore:
    """The records of one test, a JSON object a line.

    Args:
        folder: of the test.
        rank: whose part `append` adds to.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        self.folder = folder
        self.whole = folder / "samples.jsonl"
        self.part = folder / f"samples-rank{rank}.jsonl"

    def load(self) -> dict[Name, Record]:
        """What is finished, by task, key and sampling, whichever rank wrote it.

        Raises:
            ValueError: a file holds something else; the message names file and line.
        """
        found: dict[Name, Record] = {}
        for path in (self.whole, *self._parts()):
            for record in read_records(path) if path.is_file() else ():
                if record.get("stage") != "test":
                    raise ValueError(
                        f"{path} holds answers of the stage {record.get('stage')!r}, not of a test;"
                        " give ResultWriter a folder of its own"
                    )
                found.setdefault(name_of(record), record)
        return found

    def mend(self) -> None:
        """Cut a torn line off this rank's part, so that the next record begins a line."""
        if self.part.is_file():
            content = self.part.read_bytes()
            if not content.endswith(b"\n"):
                with self.part.open("r+b") as file:
                    file.truncate(content.rfind(b"\n") + 1)

    def append(self, records: Iterable[Record]) -> None:
        """Write records and hand them to the system before returning."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.part.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in records)

    def merge(self, samplings: Iterable[str]) -> int:
        """Make ``samples.jsonl`` out of everything, in the order of the prompts; returns lines."""
        order = {name: place for place, name in enumerate(samplings)}
        records = sorted(
            self.load().values(),
            key=lambda r: (r.get("index", 0), order.get(r["sampling"], len(order))),
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        whole = self.whole.with_suffix(".jsonl.part")
        with whole.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in records)
        whole.replace(self.whole)
        for path in self._parts():
            path.unlink()
        return len(records)

    def clear(self) -> None:
        """Remove every record."""
        for path in (self.whole, *self._parts()):
            path.unlink(missing_ok=True)

    def _parts(self) -> list[Path]:
        return sorted(self.folder.glob("samples-rank*.jsonl"))


def json_text(value: Any) -> str:
    """JSON on several lines; NaN and infinities, for which it has no word, become null."""
    return json.dumps(_finite(value), indent=2, ensure_ascii=False) + "\n"


def name_of(record: Mapping[str, Any]) -> Name:
    """The task, key and sampling of a record."""
    return record["task"], record["key"], record["sampling"]


def read_records(path: Path) -> Iterator[Record]:
    """The lines of a JSONL file of answers; a last line without an end is torn and left out.

    Raises:
        ValueError: a line is no JSON object, or does not say task, key and sampling.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            try:
                record = json.loads(line)
                name_of(record)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise ValueError(
                    f"{path}, line {number}: no record of answers ({error}); remove the line, or"
                    " the folder to begin anew"
                ) from None
            yield record


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
