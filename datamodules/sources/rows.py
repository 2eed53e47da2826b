"""Rows of published tables: parquet, TSV, JSON lines and JSON, one reader a form of file."""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

_SHORT = 64  # VLMEvalKit: an image field this short is the index of the row that holds the image
_FIELD_LIMIT = 2**31 - 1
_BATCH = 16  # rows of a parquet file in memory at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One record of a table, not yet looked at.

    Example: ``Row(number=3, where="sets/test.parquet, row 3", fields={"problem": ...},
    folder=Path("sets"))``.
    """

    number: int  # from 1, in its file
    where: str  # how a message names it
    fields: Mapping[str, Any] = field(default_factory=dict)
    folder: Path = Path()  # image paths are relative to it
    file: str = ""  # name of the file without its ending
    base64: bool = False  # texts in image columns are base64, not paths
    fault: str = ""  # why there are no fields


class RowError(ValueError):
    """A row that can't become a sample.

    Args:
        kind: what is wrong: row, question, answer, options, image or video.
        field: the column.
        detail: one sentence with the mend.
    """

    def __init__(self, kind: str, field: str, detail: str) -> None:
        super().__init__(kind, field, detail)
        self.kind = kind
        self.field = field
        self.detail = detail

    def __str__(self) -> str:
        return f'field "{self.field}": {self.detail}'


def read_rows(path: str | Path) -> Iterator[Row]:
    """Read the rows of a file by its ending: .parquet, .tsv, .jsonl or .json.

    Raises:
        ValueError: another ending, or a file that can't be read at all; a bad row is no error here
            but has a ``fault``.
        ModuleNotFoundError: a parquet file without pyarrow.
    """
    path = Path(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path}: can't read this kind of file; give one of {', '.join(_READERS)}")
    return reader(path)


def _parquet(path: Path) -> Iterator[Row]:
    pyarrow = _pyarrow()
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=_BATCH):
                for fields in batch.to_pylist():
                    number += 1
                    yield Row(
                        number=number,
                        where=f"{path}, row {number}",
                        fields=fields,
                        folder=path.parent,
                        file=path.stem,
                    )
    except pyarrow.ArrowException as error:
        raise ValueError(
            f"{path} can't be read as parquet ({error}); copy or download it again"
        ) from None


def _pyarrow() -> ModuleType:
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            'parquet files need pyarrow; install it: pip install "sapo-vl[convert]"'
        ) from None


def _tsv(path: Path) -> Iterator[Row]:
    """Read a table as VLMEvalKit writes it: a header, tabs, base64 images."""
    wanted = {
        fields["image"]
        for fields in _tsv_fields(path)
        if fields.get("image") and len(fields["image"]) <= _SHORT
    }
    shared = {
        fields["index"]: fields["image"]
        for fields in (_tsv_fields(path) if wanted else ())
        if fields.get("index") in wanted and len(fields.get("image") or "") > _SHORT
    }
    for number, fields in enumerate(_tsv_fields(path), start=1):
        fault = "" if None not in fields else "more cells than the header has names"
        image = shared.get(fields.get("image") or "")
        yield Row(
            number=number,
            where=f"{path}, row {number}",
            fields={**fields, "image": image} if image else fields,
            folder=path.parent,
            file=path.stem,
            base64=True,
            fault=fault,
        )


def _tsv_fields(path: Path) -> Iterator[dict[str, str]]:
    before = csv.field_size_limit(_FIELD_LIMIT)  # images are long cells
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            yield from csv.DictReader(lines, delimiter="\t")
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path} can't be read as TSV ({error}); write it again") from None
    finally:
        csv.field_size_limit(before)


def _jsonl(path: Path) -> Iterator[Row]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                record, fault = _parse(line, first=number == 1)
                yield _json_row(number, f"{path}, line {number}", path, record, fault)


def _parse(line: bytes, first: bool) -> tuple[Any, str]:
    try:
        return json.loads(line.decode("utf-8-sig" if first else "utf-8")), ""
    # RecursionError: thousands of nested brackets.
    except (ValueError, RecursionError) as error:
        return None, f"no JSON ({error}); write one object a line"


def _json(path: Path) -> Iterator[Row]:
    """Read a list of objects; also name -> object, and the one list inside an object (CLEVR)."""
    text = path.read_text(encoding="utf-8-sig")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        if _looks_like_lines(text):  # JSON lines that are called .json, as NLVR's are
            yield from _jsonl(path)
            return
        raise ValueError(f"{path} is no JSON ({error}); write a list of objects") from None
    if isinstance(data, dict):
        lists = [value for value in data.values() if _is_table(value)]
        if len(lists) == 1:
            data = lists[0]
        elif data and all(isinstance(value, dict) for value in data.values()):
            data = [{"id": name, **value} for name, value in data.items()]
        else:
            data = [data]
    if not isinstance(data, list):
        raise ValueError(f"{path} holds a {type(data).__name__}; write a list of objects")
    for number, record in enumerate(data, start=1):
        yield _json_row(number, f"{path}, entry {number}", path, record, "")


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value) and value != []


def _looks_like_lines(text: str) -> bool:
    try:
        return isinstance(json.loads(text.lstrip().split("\n", 1)[0]), dict)
    except ValueError:
        return False


def _json_row(number: int, where: str, path: Path, record: Any, fault: str) -> Row:
    if not fault and not isinstance(record, dict):
        fault = f"a {type(record).__name__}; write one object a line"
    fields = record if not fault else {}
    return Row(
        number=number,
        where=where,
        fields=fields,
        folder=path.parent,
        file=path.stem,
        fault=fault,
    )


_READERS: Mapping[str, Callable[[Path], Iterator[Row]]] = {
    ".parquet": _parquet,
    ".tsv": _tsv,
    ".jsonl": _jsonl,
    ".json": _json,
}
