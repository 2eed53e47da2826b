from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from report_run import write_run
from safetensors.torch import save_file

from sapo_vl.report.load import load_evaluation
from sapo_vl.report.summary import bootstrap_interval, paired_gains, summarize, table

FIELDS = """seed model_parameters seconds tasks accuracy_cold_start accuracy_sapo accuracy_gain
accuracy_gain_ci95 gate entropy ratio_abs_log_p99 updates tokens_per_second n""".split()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A made-up run in the quickstart's layout."""
    write_run(tmp_path)
    (tmp_path / "test").mkdir()
    (tmp_path / "test_cold").rename(tmp_path / "test/cold_start")
    (tmp_path / "test_sapo").rename(tmp_path / "test/sapo")
    (tmp_path / "sapo/hf").mkdir()
    save_file({"a": torch.zeros(3, 4), "b": torch.zeros(5)}, tmp_path / "sapo/hf/model.safetensors")
    return tmp_path


def test_the_summary_holds_what_was_promised(run: Path) -> None:
    summary = summarize(run, {"install": 3.0, "sapo": 60.0}, seed=4)
    assert not [name for name in FIELDS if name not in summary]
    assert summary["seed"] == 4
    assert summary["model_parameters"] == 17
    assert summary["seconds"] == {"install": 3.0, "sapo": 60.0}
    for scores in summary["tasks"].values():
        assert {"cold_start_avg4", "sapo_avg4", "n"} <= scores.keys()
    low, high = summary["accuracy_gain_ci95"]
    assert low < summary["accuracy_gain"] < high
    json.dumps(summary)


def test_gains_are_paired_by_prompt(run: Path) -> None:
    before = load_evaluation("before", run / "test/cold_start")
    after = load_evaluation("after", run / "test/sapo")
    gains = paired_gains(before.samples, after.samples)
    assert len(gains) == 40
    expected = []
    for sample in before.samples:
        if sample.sampling == "avg4":
            other = next(s for s in after.samples if (s.key, s.sampling) == (sample.key, "avg4"))
            mean = [sum(r.score for r in s.responses) / 4 for s in (sample, other)]
            expected.append(mean[1] - mean[0])
    assert sorted(gains) == pytest.approx(sorted(expected))


def test_bootstrap_interval_agrees_with_the_normal_one() -> None:
    values = [float(i % 7) for i in range(700)]
    low, high = bootstrap_interval(values, seed=0)
    half = 1.96 * 2.0 / 700**0.5  # the standard deviation of 0..6 is 2
    assert low == pytest.approx(3 - half, abs=0.02)
    assert high == pytest.approx(3 + half, abs=0.02)


def test_an_unfinished_run_is_named(run: Path) -> None:
    (run / "test/sapo/metrics.json").unlink()
    with pytest.raises(ValueError, match=r"not a complete run.*metrics\.json is missing"):
        summarize(run, {}, seed=0)


def test_the_table_has_a_line_a_task_and_the_total(run: Path) -> None:
    before = load_evaluation("before", run / "test/cold_start")
    after = load_evaluation("after", run / "test/sapo")
    lines = table(before, after).splitlines()
    assert len(lines) == 2 + len(after.tasks) + 1
    assert f"{after.overall['avg4'].mean:.1%}" in lines[-1]
