"""Pages are valid HTML, ask the network for nothing, and stay small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import report_run
import tests_run

from sapo_vl.report import build_report
from sapo_vl.report.compare import compare_folders
from sapo_vl.report.evaluation import write_evaluation_report


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("pages")
    scores = (1, 0, 1, 1, 0, 1, 0, 0, 1, 1)
    tests = [tests_run.write_test(root / name, scores, model=name) for name in ("a", "b")]
    return {
        "run": build_report(root / "out", **report_run.write_run(root / "run")),
        "test": write_evaluation_report(tests[0])[0],
        "comparison": compare_folders(tests, root / "compared")[0],
    }


@pytest.mark.parametrize("name", ["run", "test", "comparison"])
def test_a_strict_parser_finds_nothing(pages: dict[str, Path], name: str) -> None:
    html5lib = pytest.importorskip("html5lib", reason="needs html5lib, which reads HTML strictly")
    parser = html5lib.HTMLParser(strict=True)
    document = parser.parse(pages[name].read_text(encoding="utf-8"))
    assert document.find(".//{http://www.w3.org/1999/xhtml}main") is not None
    ids = [e.get("id") for e in document.iter() if e.get("id")]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", ["run", "test", "comparison"])
def test_nothing_is_fetched(pages: dict[str, Path], name: str) -> None:
    html = pages[name].read_text(encoding="utf-8")
    sources = re.findall(r'\b(?:src|href|action|data|poster)\s*=\s*["\']([^"\']*)', html)
    assert sources
    assert all(source.startswith(("data:image/", "#")) for source in sources)
    assert not re.search(r"url\(|@import", html)
    assert len(html) < 5_000_000
