"""The main job, whole, as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoModelForImageTextToText, AutoProcessor

ROOT = Path(__file__).resolve().parents[2]
FIELDS = """seed model_parameters seconds tasks accuracy_cold_start accuracy_sapo gate entropy
ratio_abs_log_p99 updates tokens_per_second""".split()


@pytest.mark.slow
def test_quickstart_learns_and_leaves_everything_it_promises() -> None:
    pytest.importorskip("easy_vqa", reason="the quickstart's extra is not installed")
    done = subprocess.run(
        ["bash", "scripts/quickstart.sh", "--seed", "0"],
        cwd=ROOT,
        env=os.environ | {"SAPO_VL_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    run = ROOT / "runs/quickstart"
    summary = json.loads((run / "summary.json").read_text())
    assert not [name for name in FIELDS if name not in summary]
    assert 0.40 < summary["accuracy_cold_start"] < 0.60
    assert summary["accuracy_sapo"] - summary["accuracy_cold_start"] >= 0.25
    assert summary["gate"]["first_update_error"] < 1e-3
    assert f"{summary['accuracy_sapo']:.1%}" in done.stdout
    assert (run / "report.html").stat().st_size > 100_000
    for stage in ("cold_start", "sapo"):
        AutoModelForImageTextToText.from_pretrained(run / stage / "hf")
        AutoProcessor.from_pretrained(run / stage / "hf")
        assert list((run / stage).glob("events.out.tfevents.*"))
        assert (run / stage / "metrics.csv").stat().st_size > 1000
        assert (run / stage / "samples.jsonl").stat().st_size > 1000
        assert list((run / stage / "images").iterdir())


@pytest.mark.parametrize("script", ["quickstart.sh", "test.sh", "env.sh"])
def test_scripts_are_bash(script: str) -> None:
    subprocess.run(["bash", "-n", str(ROOT / "scripts" / script)], check=True)


def test_an_unknown_argument_is_refused_before_anything_is_done() -> None:
    done = subprocess.run(
        ["bash", str(ROOT / "scripts/quickstart.sh"), "--sead", "3"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "usage:" in done.stderr
