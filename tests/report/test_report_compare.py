from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import report_run
import tests_run

from sapo_vl.evaluation.compare import ItemScore, compare_items
from sapo_vl.report.compare import compare_folders

FIRST = (1, 0, 1, 1, 0, 1, 0, 0, 1, 1)
SECOND = (1, 1, 1, 1, 1, 1, 0, 1, 1, 0)  # three become right, one wrong


@pytest.fixture
def tests(tmp_path: Path) -> list[Path]:
    return [
        tests_run.write_test(tmp_path / "a/eval", FIRST, model="a"),
        tests_run.write_test(tmp_path / "b/eval", SECOND, model="b"),
    ]


def test_two_tests_are_paired_item_by_item(tests: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    paths = compare_folders(tests, out)
    assert {path.name for path in paths} == {
        "compare.html",
        "compare.json",
        "compare.md",
        "compare.csv",
        "flips.csv",
    }
    rows = list(csv.DictReader((out / "compare.csv").open()))
    row = next(r for r in rows if (r["task"], r["sampling"]) == ("all", "greedy"))
    assert (row["baseline"], row["run"]) == ("a/eval", "b/eval")
    assert float(row["baseline_score"]) == pytest.approx(0.6)
    assert float(row["difference"]) == pytest.approx(0.2)
    assert (row["became_right"], row["became_wrong"]) == ("3", "1")
    assert float(row["mcnemar_p"]) == pytest.approx(2 * 5 / 16)  # P(X <= 1) of Binomial(4, 1/2)
    assert float(row["low"]) <= 0.2 <= float(row["high"])
    flips = list(csv.DictReader((out / "flips.csv").open()))
    greedy = [flip for flip in flips if flip["sampling"] == "greedy"]
    assert {(f["key"], f["direction"]) for f in greedy} == {
        ("k1", "became right"),
        ("k4", "became right"),
        ("k7", "became right"),
        ("k9", "became wrong"),
    }
    assert next(f for f in greedy if f["key"] == "k9")["answers_run"] == "(none)"
    assert len(json.loads((out / "compare.json").read_text())["comparison"]) == len(rows)
    html = (out / "compare.html").read_text()
    assert "became right 3" in html
    assert "McNemar p" in html
    assert "models/a" in html


def test_the_interval_of_the_difference_is_paired(tmp_path: Path) -> None:
    # Every item changes by the same amount: unpaired intervals would be wide, the paired one is 0.
    first = {i: ItemScore(score=(i % 10) / 20, problem=i) for i in range(40)}
    second = {i: ItemScore(score=item.score + 0.25, problem=i) for i, item in first.items()}
    paired = compare_items(first, second)
    assert paired.low == pytest.approx(0.25)
    assert paired.high == pytest.approx(0.25)


def test_variants_of_a_problem_are_resampled_together() -> None:
    def items(change: float, clustered: bool) -> dict[object, ItemScore]:
        return {
            (p, v): ItemScore(score=change * (p % 2), problem=p if clustered else (p, v))
            for p in range(20)
            for v in range(10)
        }

    wide, narrow = (compare_items(items(0, c), items(1, c)) for c in (True, False))
    assert wide.stderr == pytest.approx(0.5 / 19**0.5)
    assert narrow.high - narrow.low < 0.5 * (wide.high - wide.low)


def test_tests_of_other_items_are_refused(tests: list[Path], tmp_path: Path) -> None:
    other = tests_run.write_test(tmp_path / "c", FIRST, key="other")
    with pytest.raises(ValueError, match=r"20 only in the first \(choice / k1 / avg2"):
        compare_folders([tests[0], other], tmp_path / "out")
    lines = (tests[1] / "samples.jsonl").read_text().replace('"reference": "3"', '"reference": "9"')
    (tests[1] / "samples.jsonl").write_text(lines)
    with pytest.raises(ValueError, match="k3 / greedy has the reference '3' in a/eval and '9'"):
        compare_folders(tests, tmp_path / "out")


def test_folders_that_cannot_be_compared_are_named(tests: list[Path], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty hold neither"):
        compare_folders([tests[0], tmp_path / "empty"], tmp_path / "out")
    with pytest.raises(ValueError, match="needs two folders"):
        compare_folders(tests[:1], tmp_path / "out")
    with pytest.raises(ValueError, match="no folder"):
        compare_folders([tests[0], tmp_path / "gone"], tmp_path / "out")
    report_run.write_metrics(tmp_path / "run", [{"step": 0, "reward/mean": 0.5}])
    with pytest.raises(ValueError, match="cannot be mixed"):
        compare_folders([tests[0], tmp_path / "run"], tmp_path / "out")


def test_training_runs_on_one_page_and_in_one_table(tmp_path: Path) -> None:
    for number, name in enumerate(("small", "large")):
        draw = report_run.random.Random(number)
        rows = [report_run._row(i, 30, draw) for i in range(30)]
        report_run.write_metrics(tmp_path / name, rows)
        (tmp_path / name / "config.yaml").write_text(f"model: {name}\n")
    out = tmp_path / "out"
    compare_folders([tmp_path / "small", tmp_path / "large"], out)
    rows = list(csv.DictReader((out / "compare.csv").open()))
    assert {row["run"] for row in rows} == {"small", "large"}
    for name in ("gate/tau_pos", "gate/effective_pos_up", "policy/entropy", "reward/mean"):
        assert sum(row["metric"] == name for row in rows) == 60
    assert any(row["metric"] == "eval/all/greedy" for row in rows)
    html = (out / "compare.html").read_text()
    assert html.count("<svg") >= 10
    assert "gate/tau_pos" in html
    assert "model: large" in html
    assert "| policy/entropy | small |" in (out / "compare.md").read_text()
