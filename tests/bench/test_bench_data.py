"""scripts/bench_data.py runs and says what it should."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "bench_data.py"


@pytest.mark.slow
def test_a_short_run(tmp_path):
    out = tmp_path / "out.json"
    small = ["--samples", "32", "--size", "64", "--prompts", "2", "--group", "2"]
    command = [sys.executable, str(SCRIPT), "--quick", "--json", str(out), *small]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(out.read_text())
    assert {"ours_0_workers", "ours_1_workers", "ours_2_workers"} <= set(
        report["prompts_per_second"]
    )
    assert report["images_processed_per_prompt"]["ours_0_workers"] == 1
    assert report["images_processed_per_prompt"].get("trl_streaming", 4) == 4
    assert report["skip"]["images_decoded"] == 2
    assert abs(report["shuffle"]["ours"]) < 0.1
