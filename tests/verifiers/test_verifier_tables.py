from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from table_row import KINDS, Row
from verifier_tables import TABLES

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("name", "row"), [(name, row) for name, table in TABLES.items() for row in table]
)
def test_every_row_holds(name: str, row: Row) -> None:
    verdict = row.judge(name)
    assert verdict.score == pytest.approx(row.score), verdict
    assert verdict.reason


def test_every_training_rule_has_a_table() -> None:
    assert set(TABLES) == set(KINDS)
    for name, table in TABLES.items():
        assert {row.score for row in table} >= {1}, name
        assert any(row.score < 1 for row in table), name


def test_the_page_is_up_to_date() -> None:
    script = ROOT / "scripts" / "verifier_table.py"
    spec = importlib.util.spec_from_file_location("verifier_table", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (ROOT / "docs" / "verifiers.md").read_text(encoding="utf-8")
    assert written == module.page(), "run: python scripts/verifier_table.py"
