"""Write docs/verifiers.md from the verifiers' docstrings and the tables that the tests check."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a checkout as well
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "verifiers"))

from table_row import KINDS, Row
from verifier_tables import TABLES

ROOT = Path(__file__).resolve().parents[1]
HEAD = """# Verifiers

What each training rule accepts and refuses. Made by `scripts/verifier_table.py` from the tables in
`tests/verifiers/verifier_tables.py`, every row of which the tests check; do not edit it by hand.
The answers stand in the response where the verifier's `form` says, `\\boxed{...}` for most. Scores
lie in [0, 1]. In YAML a verifier is named by its class:
`class_path: sapo_vl.verifiers.BoxVerifier`.
"""
_MAX_SHOWN = 90


def page() -> str:
    """Return the whole page."""
    names = [f"[{name}](#{name}-{KINDS[name].__name__.lower()})" for name in TABLES]
    index = f"On this page: {', '.join(names)}.\n"
    return "\n".join([HEAD, index, *(part for name in TABLES for part in _section(name))])


def _section(name: str) -> Iterable[str]:
    kind = KINDS[name]
    text = (inspect.getdoc(kind) or "").partition("\n\nArgs:")[0]
    yield f"## {name}: `{kind.__name__}`\n\n{text}\n"
    yield "| answer | reference | score | |\n| --- | --- | --- | --- |"
    yield from map(_line, TABLES[name])
    yield ""


def _line(row: Row) -> str:
    notes = [row.note] if row.note else []
    for title, values in (("options", row.options), ("meta", row.meta), ("", row.arguments)):
        notes += [f"{title} {_code(_listed(values))}".strip()] if values else []
    reference = _code(row.reference) if row.reference else ""
    return f"| {_code(row.answer)} | {reference} | {row.score:.3g} | {'; '.join(notes)} |"


def _listed(values: Any) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())


def _code(text: str) -> str:
    shown = text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 4].rstrip()} ..."
    shown = shown.replace("\n", "\u21b5").replace("|", "\\|")
    return f"`` {shown} ``" if "`" in shown else f"`{shown}`"


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    target = ROOT / "docs" / "verifiers.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text(page(), encoding="utf-8")
    print(target.relative_to(ROOT))
