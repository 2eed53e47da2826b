"""The kits themselves score what we exported (slow; needs the kits and what they depend on).

VLMEVALKIT and LMMS_EVAL name checkouts; VLMEVALKIT_PYTHON and LMMS_EVAL_PYTHON the interpreters
that can import them and this package, where that is not the one that runs the tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from eval_config import ROOT
from kit_answers import write_kit_test

ORACLES = ROOT.parent / "shared" / "oracles"
# Share of the answers that must get one score from both; 1 where the rule is the same.
VLMEVALKIT = {
    "ChartQA_TEST": 1.0, "VisuLogic": 1.0, "WeMath": 1.0, "MathVision": 0.9, "MathVista_MINI": 0.9,
    "DocVQA_VAL": 0.98, "DynaMath": 0.85, "CountBenchQA": 0.8, "MMMU_DEV_VAL": 0.7,
    "MMMU_Pro_10c_COT": 0.8, "MMMU_Pro_V_COT": 0.8, "PuzzleVQA": 0.6, "RefCOCO": 0.7,
}  # fmt: skip
LMMS_EVAL = {
    "mathvision_test": 1.0, "mathvista_testmini_format": 1.0, "chartqa": 1.0, "emma": 0.99,
    "refcoco_val": 1.0, "refcoco_plus_val": 1.0, "refcocog_val": 1.0, "docvqa_val": 0.98,
    "countbenchqa": 0.95, "visulogic": 0.85, "mmmu_val": 0.6, "mmmu_pro_standard_cot": 0.8,
    "mmmu_pro_vision_cot": 0.7,
}  # fmt: skip


@pytest.fixture(scope="module")
def kit_test(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("kits")
    return write_kit_test(root / "test", root / "shards", ORACLES, every=40)


def scored(kit: str, folder: Path, tmp_path: Path) -> list[dict[str, Any]]:
    name = kit.upper().replace("-", "_")
    place = os.environ.get(name)
    if not place:
        pytest.skip(f"needs a checkout of the kit and its dependencies: set {name} to its path")
    python = os.environ.get(f"{name}_PYTHON", sys.executable)
    out = tmp_path / "kits.json"
    command = [python, "scripts/check_kits.py", str(folder), f"--{kit}", place, "--json", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    print(done.stdout)
    records: list[dict[str, Any]] = json.loads(out.read_text())
    return records


@pytest.mark.slow
@pytest.mark.parametrize(("kit", "shares"), [("vlmevalkit", VLMEVALKIT), ("lmms-eval", LMMS_EVAL)])
def test_the_kits_score_what_we_exported(
    kit_test: Path, tmp_path: Path, kit: str, shares: dict[str, float]
) -> None:
    records = scored(kit, kit_test, tmp_path)
    assert {record["task"] for record in records} >= set(shares)
    for record in records:
        wanted = shares.get(record["task"], 0.0)
        assert record["same"] >= wanted * record["items"], record
        assert record["kit_total"] == pytest.approx(record["kit_items"], abs=1e-4), record["task"]
