"""Files of the published layouts, made by hand."""

from __future__ import annotations

import base64
import io
import json
import pickle
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

Rows = Sequence[Mapping[str, Any]]


def picture(colour: str = "red", kind: str = "PNG", size: tuple[int, int] = (8, 8)) -> bytes:
    """An encoded picture of one colour."""
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, kind)
    return buffer.getvalue()


def embedded(
    colour: str = "red",
    kind: str = "PNG",
    path: str | None = None,
    size: tuple[int, int] = (8, 8),
) -> dict[str, Any]:
    """An image as a Hugging Face parquet file has it."""
    return {"bytes": picture(colour, kind, size), "path": path}


def text64(data: bytes) -> str:
    """An image as a TSV has it."""
    return base64.b64encode(data).decode()


def packed(value: object, protocol: int | None = None) -> str:
    """LiveCodeBench's private tests as they are published."""
    return base64.b64encode(zlib.compress(pickle.dumps(value, protocol))).decode()


def parquet(path: Path, rows: Rows) -> Path:
    """Write a parquet file."""
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("pyarrow.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    return path


def tsv(path: Path, rows: Rows) -> Path:
    """Write a table as VLMEvalKit does."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    quoted = [
        [json.dumps(str(row.get(name, ""))).replace('\\"', '""') for name in names] for row in rows
    ]
    lines = ["\t".join(names), *("\t".join(cells) for cells in quoted)]
    path.write_text("\n".join(lines) + "\n")
    return path


def jsonl(path: Path, rows: Rows) -> Path:
    """Write JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


def docvqa_row() -> dict[str, Any]:
    """A row of DocVQA's validation split."""
    return {
        "questionId": "337",
        "question": "What date?",
        "question_types": ["handwritten"],
        "image": embedded(),
        "docId": 279,
        "ucsf_document_id": "xnbl0037",
        "ucsf_document_page_no": "1",
        "answers": ["1/8/93", "1-8-93"],
        "data_split": "val",
    }
