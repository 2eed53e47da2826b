"""Objective and correction are chosen by their class on the command line (docs/training.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonargparse
import pytest
import yaml
from lightning.pytorch.cli import LightningArgumentParser

from sapo_vl.cli import main
from sapo_vl.modules.base import PolicyModule
from sapo_vl.objectives import (
    CISPO,
    GRPO,
    GSPO,
    SAPO,
    ConstantMean,
    LogRatioGate,
    Objective,
    TokenMean,
)

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


def test_a_file_adds_a_callback_as_the_page_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs/training.md").read_text(encoding="utf-8")
    (snippet,) = [x.split("```")[0] for x in page.split("```yaml\n")[1:] if "Temperature" in x]
    (tmp_path / "more.yaml").write_text(snippet)
    files = [f"configs/{name}.yaml" for name in ("base", "model/qwen3_vl_8b", "data/example")]
    args = [x for name in (*files, str(tmp_path / "more.yaml")) for x in ("--config", name)]
    with pytest.raises(SystemExit) as stop:
        main(["fit", *args, "--print_config"])
    assert not stop.value.code
    trainer = yaml.safe_load(capsys.readouterr().out)["trainer"]
    base = yaml.safe_load((ROOT / "configs/base.yaml").read_text())["trainer"]
    names = [callback["class_path"] for callback in trainer["callbacks"]]
    assert names == [
        *(callback["class_path"] for callback in base["callbacks"]),
        "sapo_vl.callbacks.TemperatureSchedule",
    ]


@pytest.mark.parametrize(
    ("name", "want", "more"),
    [
        ("sapo", SAPO(), {}),
        ("sapo_sharp", SAPO(10.0, 12.0), {}),
        (
            "sapo_stale",
            SAPO(4.0, 6.0, LogRatioGate(), outward_only=True, off_policy_mask_threshold=0.5),
            {},
        ),
        ("grpo", GRPO(0.2, 0.2), {}),
        ("dapo", GRPO(0.2, 0.28, aggregation=TokenMean()), {"spare_prompts": 4}),
        ("dr_grpo", GRPO(aggregation=ConstantMean(2048.0)), {"advantage_std": "none"}),
        ("gspo", GSPO(3e-4, 4e-4), {}),
        ("cispo", CISPO(5.0, aggregation=TokenMean()), {}),
    ],
)
def test_a_preset_is_the_objective_it_names(
    name: str, want: Objective, more: dict[str, Any]
) -> None:
    """On top of base.yaml as the command line takes them: arguments of its objective may stay."""
    parser = LightningArgumentParser()
    parser.add_argument("--config", action=jsonargparse.ActionConfigFile)
    parser.add_lightning_class_args(PolicyModule, "model", subclass_mode=True)
    given = []
    for file in ("configs/base.yaml", f"configs/objective/{name}.yaml"):
        model = yaml.safe_load((ROOT / file).read_text())["model"]
        given.append(f"--config={json.dumps({'model': model})}")
    settings = parser.parse_args([*given, "--model.policy.path=none"]).model.init_args
    single = jsonargparse.ArgumentParser()
    single.add_argument("--objective", type=Objective)
    given = [f"--objective={json.dumps(settings.objective.as_dict())}"]
    built = single.instantiate_classes(single.parse_args(given)).objective
    assert built == want
    assert {key: settings[key] for key in more} == more
