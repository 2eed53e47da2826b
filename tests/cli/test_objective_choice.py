"""Objective and correction are chosen by their class on the command line (docs/training.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sapo_vl.cli import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("argument", "key", "want"),
    [
        ("--model.objective=sapo_vl.objectives.GSPO", "objective", {"clip_high": 4e-4}),
        ("--model.objective=sapo_vl.objectives.GRPO", "objective", {"clip_high": 0.2}),
        ("--model.correction=sapo_vl.objectives.MaskedWeights", "correction", {"most": 3.0}),
        ("--model.correction=TruncatedWeights", "correction", {"of_sequence": False}),
    ],
)
def test_a_class_in_place_of_the_recipes(
    argument: str,
    key: str,
    want: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    files = ("base.yaml", "model/qwen3_vl_8b.yaml", "data/example.yaml")
    args = [x for name in files for x in ("--config", f"configs/{name}")]
    with pytest.raises(SystemExit) as stop:
        main(["fit", *args, argument, "--print_config"])
    assert not stop.value.code
    chosen = yaml.safe_load(capsys.readouterr().out)["model"]["init_args"][key]
    assert chosen["class_path"].endswith(argument.rsplit("=")[1].rsplit(".")[-1])
    assert want.items() <= chosen["init_args"].items()
