"""A whole configuration over the small project, and what the command line says to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from project import Project

from sapo_vl.cli import main


def config(project: Project, out: Path) -> dict[str, Any]:
    def tasks(split: str) -> list[dict[str, Any]]:
        kinds = {"leftmost_colour": "TextVerifier", "count_colour": "NumberVerifier"}
        return [
            {
                "name": name,
                "shards": str(project.root / "shards" / f"{name}-{split}-*.tar"),
                "verifier": {"class_path": f"sapo_vl.verifiers.{kind}"},
            }
            for name, kind in kinds.items()
        ]

    return {
        "seed_everything": 5,
        "model": {
            "class_path": "sapo_vl.modules.SAPOModule",
            "init_args": {
                "policy": {"path": project.model},
                "sampling": {"group_size": 4, "temperature": 0.9, "max_new_tokens": 6},
                "evaluation": {"avg2": {"group_size": 2, "max_new_tokens": 6}},
            },
        },
        "data": {
            "class_path": "datamodules.ReasoningDataModule",
            "init_args": {
                "tasks": tasks("train"),
                "val_tasks": tasks("val"),
                "test_tasks": tasks("val"),
                "prompts_per_iteration": 4,
                "num_workers": 0,
                "max_prompt_tokens": 256,
                "min_pixels": 256,
                "max_pixels": 65536,
            },
        },
        "trainer": {
            "accelerator": "cpu",
            "devices": 1,
            "max_steps": 2,
            "max_epochs": -1,
            "logger": False,
            "enable_progress_bar": False,
            "enable_checkpointing": False,
            "num_sanity_val_steps": 0,
            "default_root_dir": str(out),
        },
    }


def write(content: Any, path: Path) -> str:
    path.write_text(yaml.safe_dump(content))
    return str(path)


def printed(args: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The configuration that a command line comes to."""
    with pytest.raises(SystemExit):
        main([*args, "--print_config"])
    content: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    return content


def refused(args: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code
    return capsys.readouterr().err
