from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_up_to_date() -> None:
    script = ROOT / "scripts" / "benchmark_table.py"
    spec = importlib.util.spec_from_file_location("benchmark_table", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert written == module.page(), "run: python scripts/benchmark_table.py"
