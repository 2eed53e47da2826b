from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
import tests_run

from sapo_vl.report.evaluation import write_evaluation_report
from sapo_vl.report.export import export_lmms_eval, export_vlmevalkit

ROOT = Path(__file__).resolve().parents[2]
SCORES = (1, 0, 1, 1, 0, 1, 0, 0, 1, 1)


@pytest.fixture(scope="module")
def test_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tests_run.write_test(tmp_path_factory.mktemp("mathtest"), SCORES)


def test_every_score_stands_beside_what_made_it(test_folder: Path, tmp_path: Path) -> None:
    paths = write_evaluation_report(test_folder, tmp_path)
    assert [path.name for path in paths] == [f"report.{e}" for e in ("html", "json", "md", "csv")]
    rows = list(csv.DictReader((tmp_path / "report.csv").open()))
    found = {(r["task"], r["sampling"], r["metric"]): r for r in rows if not r["category"]}
    assert float(found["count", "greedy", "avg"]["mean"]) == 0.6
    assert float(found["choice", "avg2", "avg"]["mean"]) == 0.6
    assert ("count", "avg2", "pass_at_2") in found
    assert ("count", "greedy", "pass_at_2") not in found  # one sample cannot tell
    row = found["count", "avg2", "maj"]
    assert row["n"] == "5"
    assert row["verifier"].startswith('sapo_vl.verifiers.number.NumberVerifier(form="boxed")')
    assert row["pixels"] == "256-65536"
    assert "temperature 1.0" in row["sampling_settings"]
    assert row["model_sha256"] == "ab" * 32
    assert float(row["low"]) <= float(row["mean"]) <= float(row["high"])
    levels = [r for r in rows if (r["task"], r["category"], r["metric"]) == ("all", "level", "avg")]
    assert {r["value"] for r in levels} == {"0", "1", "2"}
    content = json.loads((tmp_path / "report.json").read_text())
    assert len(content["scores"]) == len(rows)
    assert content["skipped"]["too_long"] == 1
    text = (tmp_path / "report.md").read_text()
    assert "| count | avg2 | maj |" in text
    assert "model_sha256: abab" in text


def test_the_page_has_the_tables_and_the_answers_with_their_images(
    test_folder: Path, tmp_path: Path
) -> None:
    html = write_evaluation_report(test_folder, tmp_path)[0].read_text()
    for part in ("Every metric", "count by level", "pass_at_2", "too_long 1", "NumberVerifier"):
        assert part in html
    assert html.count("data:image/png") >= 10
    assert "so &lt;b&gt;it&lt;/b&gt; is" in html
    assert "<b>it</b>" not in html


def test_an_unfinished_test_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no finished test: metrics\.json is missing"):
        write_evaluation_report(tmp_path)


def test_the_script_tells_a_tests_folder_from_a_runs(test_folder: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts/report.py"), str(test_folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split()[0] == str(test_folder / "report.html")
    assert (test_folder / "report.csv").is_file()


def test_answers_as_vlmevalkits_table(test_folder: Path, tmp_path: Path) -> None:
    import pandas as pd

    with pytest.raises(ValueError, match="several samplings; choose one of avg2, greedy"):
        export_vlmevalkit(test_folder, tmp_path)
    paths = export_vlmevalkit(test_folder, tmp_path, sampling="greedy", xlsx=False)
    assert sorted(path.name for path in paths) == ["m_choice.tsv", "m_count.tsv"]
    table = pd.read_csv(tmp_path / "m_choice.tsv", sep="\t", keep_default_na=False)
    assert list(table.columns[:6]) == ["index", "question", "A", "B", "answer", "category"]
    assert table["verdict_score"].tolist() == [0, 1, 1, 0, 1]
    assert "hit" not in table  # the kit's WeMath would take it for its own verdict
    assert table["index"].tolist() == list(range(5))

    assert table["prediction"][0].startswith("=SUM(A1)\nI say 1")
    assert table["B"].tolist() == ["two"] * 5
    both = export_vlmevalkit(test_folder, tmp_path, sampling="avg2")
    assert len(both) == 4  # one prediction an item and file


def test_answers_as_a_spreadsheet_hold_text_and_no_formula(
    test_folder: Path, tmp_path: Path
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    paths = export_vlmevalkit(test_folder, tmp_path, sampling="greedy")
    sheet = openpyxl.load_workbook(paths[0]).active
    names = [cell.value for cell in sheet[1]]
    cell = sheet[2][names.index("prediction")]
    assert cell.value.startswith("=SUM(A1)")
    assert cell.data_type == "s"
    assert "\x07" not in cell.value


def test_answers_as_lmms_evals_log(test_folder: Path, tmp_path: Path) -> None:
    paths = export_lmms_eval(test_folder, tmp_path, sampling="avg2")
    assert sorted(path.name for path in paths) == ["samples_choice.jsonl", "samples_count.jsonl"]
    lines = [json.loads(line) for line in (tmp_path / "samples_count.jsonl").open()]
    assert [line["doc_id"] for line in lines] == list(range(5))
    assert [line["target"] for line in lines] == ["0", "2", "4", "6", "8"]
    assert [line["score"] for line in lines] == [1, 1, 0, 0, 1]
    assert len(lines[0]["resps"][0]) == len(lines[0]["filtered_resps"]) == 2
    assert len({line["doc_hash"] for line in lines}) == 5


def test_the_export_script(test_folder: Path, tmp_path: Path) -> None:
    script = [sys.executable, str(ROOT / "scripts/export_results.py"), str(test_folder)]
    done = subprocess.run(
        [*script, str(tmp_path), "--to", "lmms-eval", "--sampling", "magic"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 2
    assert "no sampling 'magic', only avg2, greedy" in done.stderr
