"""A fit with the repository's own configs that samples with vLLM servers, and what it leaves."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from project import Project
from safetensors.torch import load_file

ROOT = Path(__file__).parents[2]
WEIGHTS = "model.safetensors"
EQUAL = 1e-4  # log-probs in float32


def fit(
    project: Project, model: Path, urls: Sequence[str], out: Path, devices: int, *strategy: str
) -> None:
    """Two iterations of two updates, each followed by a validation; writes to ``out``."""
    (out / "own.yaml").write_text(yaml.safe_dump(_own_settings(project, model, urls)))
    files = ["configs/base.yaml", *strategy, "configs/rollout/vllm.yaml"]
    arguments = [x for file in files for x in ("--config", str(ROOT / file))]
    options = [f"--trainer.devices={devices}", "--trainer.precision=32-true"]
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "DS_ACCELERATOR": "cpu"}
    done = subprocess.run(
        [sys.executable, "-m", "sapo_vl", "fit", *arguments, "--config", "own.yaml", *options],
        cwd=out,
        env=os.environ | environment | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-4000:]


def check(model: Path, out: Path) -> None:
    """The sampler was the policy throughout; the last weights handed over are those exported."""
    with (out / "runs/sapo/metrics.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["policy/kl_rollout"]]
    assert len(rows) == 2
    for row in rows:
        assert abs(float(row["policy/kl_rollout"])) < EQUAL
        assert float(row["gate/first_update_error"]) < EQUAL
        assert float(row["time/sync"]) > 0
    # Before the first iteration, and for the validation after each: no iteration finds others than
    # the servers have already.
    [last] = (out / "weights").iterdir()
    assert last.name == "policy-000003"
    ours, theirs = load_file(last / WEIGHTS), load_file(out / "runs/sapo/hf" / WEIGHTS)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name], rtol=0, atol=0, msg=name)
    started = load_file(model / WEIGHTS)
    assert any(not torch.equal(value, started[name]) for name, value in ours.items())


def _own_settings(project: Project, model: Path, urls: Sequence[str]) -> dict[str, Any]:
    """What the repository's configs leave to the user, and small numbers."""

    def tasks(split: str) -> list[dict[str, Any]]:
        return [
            {
                "name": name,
                "shards": f"{project.root}/shards/{name}-{split}-*.tar",
                "verifier": {"class_path": "project.CoinVerifier"},
            }
            for name in ("leftmost_colour", "count_colour")
        ]

    engine = {"urls": list(urls), "folder": "weights", "verify_every": 1}
    return {
        "model": {
            "init_args": {
                "policy": {"path": str(model)},
                "sampling": {"group_size": 4, "max_new_tokens": 6},
                "evaluation": {"avg4": {"group_size": 2, "max_new_tokens": 6}},
                "optimizer": {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.1}},
                "rollout": {"init_args": engine},
            }
        },
        "data": {
            "class_path": "datamodules.ReasoningDataModule",
            "init_args": {
                "tasks": tasks("train"),
                "val_tasks": tasks("val"),
                "prompts_per_iteration": 8,
                "eval_batch_size": 5,
                "num_workers": 0,
                "max_prompt_tokens": 256,
                "min_pixels": 256,
                "max_pixels": 65536,
            },
        },
        "trainer": {
            "accelerator": "cpu",
            "max_steps": 4,
            "val_check_interval": 1,
            "enable_progress_bar": False,
        },
    }
