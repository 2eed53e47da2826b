"""The command line on two ranks that split weights: fit with validation and export, then test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from project import Project
from safetensors.torch import load_file

pytest.importorskip("deepspeed")
TESTS = Path(__file__).resolve().parents[1]
STRATEGIES: dict[str, dict[str, Any]] = {
    "zero3": {
        "class_path": "sapo_vl.strategies.ZeroStrategy",
        "init_args": {"stage": 3, "param_persistence_threshold": 0},
    },
    "fsdp2": {"class_path": "sapo_vl.strategies.FSDP2Strategy"},
}


def content(project: Project, out: Path, strategy: str | None) -> dict[str, Any]:
    def tasks(split: str) -> list[dict[str, Any]]:
        return [
            {
                "name": name,
                "shards": f"{project.root}/shards/{name}-{split}-*.tar",
                "verifier": {"class_path": "project.CoinVerifier"},
            }
            for name in ("leftmost_colour", "count_colour")
        ]

    return {
        "seed_everything": 1,
        "model": {
            "class_path": "sapo_vl.modules.SAPOModule",
            "init_args": {
                "policy": {"path": project.model},
                "sampling": {"group_size": 4, "max_new_tokens": 6},
                "evaluation": {"avg2": {"group_size": 2, "max_new_tokens": 6}},
                "optimizer": {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.1}},
            },
        },
        "data": {
            "class_path": "datamodules.ReasoningDataModule",
            "init_args": {
                "tasks": tasks("train"),
                "val_tasks": tasks("val"),
                "test_tasks": tasks("val"),
                "prompts_per_iteration": 8,  # whose updates hold the same prompts on two ranks
                "eval_batch_size": 5,  # 12 prompts a task, 24 in all: unequal batches
                "num_workers": 0,
                "max_prompt_tokens": 256,
                "min_pixels": 256,
                "max_pixels": 65536,
            },
        },
        "trainer": {
            "accelerator": "cpu",
            "devices": 2 if strategy else 1,
            "strategy": STRATEGIES[strategy] if strategy else "auto",
            "use_distributed_sampler": False,
            "inference_mode": False,
            "max_steps": 2,
            "max_epochs": -1,
            "val_check_interval": 1,
            "check_val_every_n_epoch": None,
            "num_sanity_val_steps": 0,
            "enable_progress_bar": False,
            "enable_checkpointing": False,
            "logger": False,
            "default_root_dir": str(out),
            "callbacks": [
                {
                    "class_path": "sapo_vl.callbacks.IterationCheckpoint",
                    "init_args": {"folder": str(out)},
                },
                {
                    "class_path": "sapo_vl.callbacks.BestCheckpoint",
                    "init_args": {"monitor": "eval/all/avg2", "folder": str(out)},
                },
                {
                    "class_path": "sapo_vl.callbacks.ResultWriter",
                    "init_args": {"folder": str(out / "test")},
                },
            ],
        },
    }


def sapo_vl(project: Project, out: Path, command: str, strategy: str | None, *more: str) -> None:
    out.mkdir(exist_ok=True)
    path = out / "in.yaml"
    path.write_text(yaml.safe_dump(content(project, out, strategy)))
    environment = os.environ | {
        "PYTHONPATH": f"{TESTS.parent}:{TESTS}",
        "OMP_NUM_THREADS": "1",
        "DS_ACCELERATOR": "cpu",
    }
    line = [sys.executable, "-m", "sapo_vl", command, "--config", str(path), *more]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_fit_and_test_on_two_ranks(project: Project, tmp_path: Path, strategy: str) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    sapo_vl(project, one, "fit", None)
    sapo_vl(project, two, "fit", strategy)
    first, second = (load_file(out / "hf/model.safetensors") for out in (one, two))
    assert first.keys() == second.keys()
    start = project.policy().model.state_dict()
    assert max(float((first[k] - start[k]).abs().max()) for k in first) > 1e-3
    assert max(float((first[k] - second[k]).abs().max()) for k in first) < 2e-6
    assert all(v.dtype == torch.float32 for v in second.values())

    assert (one / "checkpoints/best.ckpt").is_file()
    assert (two / "checkpoints/best.ckpt/latest").is_file() == (strategy == "zero3")
    assert (two / "checkpoints/best.ckpt").exists()
    for out, name in ((one, None), (two, strategy)):
        sapo_vl(project, out, "test", name, "--model.policy.path", str(one / "hf"))
    metrics = [json.loads((out / "test/metrics.json").read_text()) for out in (one, two)]
    for scores in metrics:
        scores.pop("seconds")
        scores["settings"].pop("weights_probe")  # of what is split: other values
    assert metrics[0] == metrics[1]
    assert metrics[1]["all"]["avg2"]["n"] == 24
