"""Files of the published layouts, made by hand."""

import base64
import io
import json

import pytest
from PIL import Image


def picture(colour="red", kind="PNG"):
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(buffer, kind)
    return buffer.getvalue()


def embedded(colour="red", kind="PNG", path=None):
    """An image as a Hugging Face parquet file has it."""
    return {"bytes": picture(colour, kind), "path": path}


def text64(data):
    return base64.b64encode(data).decode()


def parquet(path, rows):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("pyarrow.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def tsv(path, rows):
    names = list(dict.fromkeys(name for row in rows for name in row))
    quoted = [
        [json.dumps(str(row.get(name, ""))).replace('\\"', '""') for name in names] for row in rows
    ]
    lines = ["\t".join(names), *("\t".join(cells) for cells in quoted)]
    path.write_text("\n".join(lines) + "\n")
    return path


def jsonl(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path
