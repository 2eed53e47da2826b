"""The KL penalty as docs/training.md turns it on."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sapo_vl.cli import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("arguments", "beta", "path"),
    [
        ([], 0.0, None),
        (["--model.kl.beta", "0.001"], 0.001, None),
        (["--model.kl.beta=0.04", "--model.reference_path=folder"], 0.04, "folder"),
    ],
)
def test_a_penalty_on_the_command_line(
    arguments: list[str],
    beta: float,
    path: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    files = ("base.yaml", "model/qwen3_vl_8b.yaml", "data/example.yaml")
    args = [x for name in files for x in ("--config", f"configs/{name}")]
    with pytest.raises(SystemExit) as stop:
        main(["fit", *args, *arguments, "--print_config"])
    assert not stop.value.code
    model = yaml.safe_load(capsys.readouterr().out)["model"]["init_args"]
    assert model["kl"] == {"beta": beta}
    assert model["reference_path"] == path
