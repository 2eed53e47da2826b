"""A whole benchmark at the smallest size: with TRL where it is installed, and without."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

from sapo_vl.bench import suite
from sapo_vl.bench.cases import DEFAULT, Case
from sapo_vl.bench.measure import Stats
from sapo_vl.bench.result import CaseResult, summarize

SMALL = "--hidden 64 --layers 2 --vocabulary 300"
KEYS = {
    "update_vs_repeated",
    "update_vs_trl",
    "rollout_vs_trl",
    "iteration_vs_trl",
    "memory_vs_trl",
}


def script(name: str) -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "scripts" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


bench, bench_rollout = script("bench"), script("bench_rollout")


def run_bench(folder: Path, sizes: Sequence[str], *options: str) -> dict[str, Any]:
    path = folder / "bench.json"
    bench.main(["--json", str(path), "--case", *sizes, "--repetitions", "1", *options])
    report: dict[str, Any] = json.loads(path.read_text())
    return report


def test_trl_computes_the_same_and_more_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("trl", reason="TRL is not installed (pip install sapo-vl[bench])")
    monkeypatch.setattr(suite, "MEMORY_OF", ("shared", "trl"))  # a new process each: seconds
    plot, table = tmp_path / "bench.svg", tmp_path / "bench.md"
    report = run_bench(
        tmp_path, "44 5 3".split(), *SMALL.split(), "--plot", str(plot), "--table", str(table)
    )
    case = report["cases"][0]
    assert report["peer"]["missing"] is None
    assert max(case["logp_difference"][mode] for mode in ("shared", "plain", "repeated")) < 1e-4
    assert case["computed"]["trl"]["tokens"] == 3 * (44 + 5)
    assert case["computed"]["shared"]["tokens"] <= 44 + 3 * 5
    assert case["computed"]["trl"]["vision_patches"] == 3 * 64
    assert case["computed"]["shared"]["vision_patches"] == 64
    for section in ("update", "old_logp", "rollout", "iteration"):
        assert case[section]["trl"]["median"] > 0
    assert case["preprocessing"]["trl"]["images_processed"] == 2 * 3  # 2G
    assert case["preprocessing"]["ours"]["images_processed"] == 1
    assert case["memory_mib"]["trl"]["peak"] > case["memory_mib"]["shared"]["above_base"] > 0
    assert all(value > 0 for value in case["ratios"].values())
    assert "What TRL does differently" in table.read_text()
    assert ElementTree.parse(plot).getroot().tag.endswith("svg")


def test_without_trl_our_figures_stay_and_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "trl", None)
    monkeypatch.setattr(bench, "SECTIONS", ("update", "rollout"))
    report = run_bench(tmp_path, "44 5 3".split(), *SMALL.split())
    assert "pip install 'sapo-vl[bench]'" in report["peer"]["missing"]
    assert "ATTENTION: TRL was not measured" in capsys.readouterr().out
    ratios = report["cases"][0]["ratios"]
    assert ratios["update_vs_trl"] is ratios["rollout_vs_trl"] is None
    assert ratios["update_vs_repeated"] > 0
    assert set(report["summary"]) >= KEYS


def test_updates_alone_are_a_line_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trl", None)
    monkeypatch.setattr(bench, "SECTIONS", ("update",))
    table = tmp_path / "bench.md"
    report = run_bench(tmp_path, "44 5 3".split(), *SMALL.split(), "--table", str(table))
    case = report["cases"][0]
    ideal = 3 * (44 + 5) / (44 + 3 * 5)
    (line,) = [x for x in table.read_text().splitlines() if x.startswith("| 44 | 5 | 3 |")]
    ours, ratios = case["update"]["shared"]["median"], case["ratios"]
    want = f"| {ours:.3f} | {ratios['update_vs_repeated']:.2f} | {ratios['update_vs_plain']:.2f} |"
    assert line == f"| 44 | 5 | 3 {want}  |  | {ideal:.2f} |"


def test_summary_is_that_of_the_default_case() -> None:
    result = CaseResult(DEFAULT)
    result.stats["rollout"] = {"ours": Stats((1.0,)), "trl": Stats((2.5,))}
    result.memory = {"shared": {"peak": 2.0, "above_base": 1.0}}
    other = CaseResult(Case(prompt=44, response=5, group=3))
    summary = summarize([other, result])
    assert set(summary) >= KEYS
    assert summary["rollout_vs_trl"] == 2.5
    assert summary["memory_vs_trl"] is None
    assert summary["update_vs_trl"] is None


def test_rollouts_against_generate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rollout.json"
    options = "--prompt 44 --response 4 --group 2 --prompts 2 --repetitions 1"
    bench_rollout.main(["--json", str(path), *options.split(), *SMALL.split()])
    (case,) = json.loads(path.read_text())["cases"]
    assert set(case["variants"]) == {"ours", "returned", "repeated"}
    assert all(v["tokens_per_second"] > 0 for v in case["variants"].values())
    assert "num_return_sequences" in capsys.readouterr().out
