"""Reads the JSONL files of ``scripts/verify.py``: one response with its reference a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sapo_vl.types import Prompt

_LABELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def read_records(source: Path) -> Iterator[dict[str, Any]]:
    """Yield the checked records of a JSONL file.

    Raises:
        ValueError: a line is no JSON object or lacks a field; says the file and the line.
    """
    with source.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                _check(record)
            # RecursionError: thousands of nested brackets.
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{source}, line {number}: {error}") from error
            yield record


def as_prompt(record: dict[str, Any]) -> Prompt:
    """Return the prompt of a checked record: its reference, its options and the rest as meta.

    A reference may be a text, a number, several texts (each is right: the first becomes the
    reference, the rest ``meta["answers"]``) or any other list or object, which becomes its JSON.
    """
    options = record.get("options") or {}
    if isinstance(options, list):
        options = dict(zip(_LABELS, options, strict=False))
    known = ("id", "response", "reference", "options")
    meta = {name: value for name, value in record.items() if name not in known}
    reference = record["reference"]
    if _is_texts(reference):
        reference, *others = reference
        meta = {"answers": others} | meta
    if isinstance(reference, list | dict):
        reference = json.dumps(reference)
    return Prompt(
        key=str(record["id"]),
        reference=str(reference),
        options={label: str(text) for label, text in options.items()},
        meta=meta,
    )


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(x, str) for x in value)


def _check(record: Any) -> None:
    if not isinstance(record, dict):
        raise ValueError(f"holds {type(record).__name__}, not an object")
    missing = [name for name in ("id", "response", "reference") if name not in record]
    if missing:
        raise ValueError(f"lacks {', '.join(missing)}")
    if not isinstance(record["response"], str):
        raise ValueError("response must be a string")
    if not isinstance(record["reference"], str | int | float | list | dict):
        raise ValueError("reference must be a string, a number, a list or an object")
    options = record.get("options")
    if not isinstance(options, dict | list | None):
        raise ValueError("options must map labels to texts or be a list")
    if isinstance(options, list) and len(options) > len(_LABELS):
        raise ValueError(f"options has {len(options)} entries, over {len(_LABELS)}")
