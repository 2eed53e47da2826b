"""LiveCodeBench: the tests of a problem, public and private, as one JSON text.

The reference is the form its own runner takes: ``{"inputs": [...], "outputs": [...], "fn_name":
null}``; ``fn_name`` names the function to call, null means standard input.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from typing import Any

from datamodules.sources.plain_pickle import load_plain
from datamodules.sources.rows import RowError

MAX_BYTES = 1 << 29  # of the unpacked tests of one problem; a small file can unpack to any size


def plain_columns(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Give a row with ``question`` (with its starter code) and ``answer`` (the tests).

    ``question_content`` and ``starter_code`` stay, for wordings that place them on their own;
    ``month`` (2025-02) is that of the contest, for scores over a window of dates.
    """
    tests = [
        *read_tests(fields.get("public_test_cases"), "public_test_cases"),
        *read_tests(fields.get("private_test_cases"), "private_test_cases"),
    ]
    if not tests:
        raise RowError("answer", "public_test_cases", "no test at all; use a complete copy")
    metadata = fields.get("metadata") or "{}"
    metadata = _json(metadata, "metadata") if isinstance(metadata, str) else metadata
    name = metadata.get("func_name") if isinstance(metadata, dict) else None
    used = ("public_test_cases", "private_test_cases", "metadata")
    answer = {
        "inputs": [test["input"] for test in tests],
        "outputs": [test["output"] for test in tests],
        "fn_name": name,
    }
    question = str(fields.get("question_content") or "")
    starter = fields.get("starter_code")
    if question and starter:
        question += f"\n\nUse this starter code:\n```python\n{starter}\n```"
    rest = {field: value for field, value in fields.items() if field not in used}
    made = {"question": question, "answer": json.dumps(answer), "test_count": len(tests)}
    return {**rest, **made, "month": str(fields.get("contest_date") or "")[:7]}


def read_tests(value: Any, column: str) -> list[dict[str, Any]]:
    """Read tests that are a list, JSON, or base64 of zlib of a pickle of JSON.

    Raises:
        RowError: another form, or a pickle that holds more than plain data.
    """
    if value in (None, ""):
        return []
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = _unpack(value, column)
    if not isinstance(value, list) or not all(
        isinstance(test, dict) and {"input", "output"} <= test.keys() for test in value
    ):
        raise RowError("answer", column, 'no list of tests {"input", "output"}; use another copy')
    return value


def _unpack(text: str, column: str) -> Any:
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(text, validate=True), MAX_BYTES)
        if unpacker.unconsumed_tail:
            raise ValueError(f"unpacks to more than {MAX_BYTES} bytes")
        value = load_plain(data)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise RowError(
            "answer",
            column,
            f"neither JSON nor base64, zlib and a pickle of plain data ({error}); nothing of it was"
            " run; use a copy from its authors",
        ) from None
    return _json(value, column) if isinstance(value, str | bytes) else value


def _json(text: str | bytes, column: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RowError("answer", column, f"no JSON ({error}); use another copy") from None
