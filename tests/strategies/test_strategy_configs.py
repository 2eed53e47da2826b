"""Every file of configs/strategy composes, and makes the strategy that it names."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from sapo_vl.cli import main

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "configs/strategy").glob("*.yaml"))


def made(node: dict[str, Any]) -> Any:
    module, name = node["class_path"].rsplit(".", 1)
    return getattr(import_module(module), name)(**node["init_args"])


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_a_strategy_composes_after_base_and_model(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("deepspeed")
    monkeypatch.chdir(ROOT)
    parts = ("base", "model/qwen3_vl_8b", f"strategy/{file.stem}", "data/example")
    args = [x for part in parts for x in ("--config", f"configs/{part}.yaml")]
    with pytest.raises(SystemExit):
        main(["fit", *args, "--print_config"])
    content = yaml.safe_load(capsys.readouterr().out)
    strategy = made(content["trainer"]["strategy"])
    if file.stem == "fsdp2":
        assert content["model"]["init_args"]["policy"]["dtype"] == "float32"
        assert not content["trainer"]["inference_mode"]
    if "zero" not in file.stem:
        return
    zero = strategy.config["zero_optimization"]
    assert f"zero{zero['stage']}" == file.stem.split("_")[0]
    assert ("offload_optimizer" in zero) == file.stem.endswith("_offload")
    assert ("offload_param" in zero) == (file.stem == "zero3_offload")
    assert content["trainer"]["inference_mode"] == (zero["stage"] != 3)


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_no_strategy_names_an_optimizer_so_that_overlays_come_in_any_order(file: Path) -> None:
    content = yaml.safe_load(file.read_text())
    assert set(content) <= {"trainer", "model"}
    assert set(content.get("model", {}).get("init_args", {})) <= {"policy"}
    lora = yaml.safe_load((ROOT / "configs/lora.yaml").read_text())["model"]["init_args"]
    assert "optimizer" in lora
    assert "dtype" not in lora["policy"]
