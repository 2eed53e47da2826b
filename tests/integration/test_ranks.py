"""Two processes take the same step as one."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
import yaml
from project import Project
from safetensors.torch import load_file

from datamodules.shards import write_shards

SKIPPED = "data/skipped_too_long"


def task(name: str, shards: str) -> dict[str, Any]:
    return {"name": name, "shards": shards, "verifier": {"class_path": "project.CoinVerifier"}}


TOKEN_MEAN = {
    "class_path": "sapo_vl.objectives.GRPO",
    "init_args": {"aggregation": {"class_path": "sapo_vl.objectives.TokenMean"}},
}


def fit(
    project: Project, out: Path, text: Path, devices: int, **settings: Any
) -> tuple[dict[str, torch.Tensor], list[Any]]:
    """Run two iterations through the command line; returns the weights and the logged rows."""
    drawn = project.root / "shards"
    # Of two ranks one has two batches of this, the other has one.
    val = task("count_colour", f"{drawn}/count_colour-val-*.tar") | {"max_samples": 11}
    train = [
        task("leftmost_colour", f"{drawn}/leftmost_colour-train-*.tar"),
        task("text", f"{text}/text-*.tar"),  # no images: whole micro-batches without any
    ]
    content = {
        "seed_everything": 1,
        "model": {
            "class_path": "sapo_vl.modules.SAPOModule",
            "init_args": {
                "policy": {"path": project.model},
                "sampling": {"group_size": 4, "max_new_tokens": 6},
                "evaluation": {"avg2": {"group_size": 2, "max_new_tokens": 6}},
                "micro_batch": {"responses": 4},  # one group
                "gradient_clip_norm": 0.5,
                "optimizer": {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.1}},
                **settings,
            },
        },
        "data": {
            "class_path": "datamodules.ReasoningDataModule",
            "init_args": {
                "tasks": train,
                "val_tasks": [val],
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
            "devices": devices,
            "strategy": "ddp" if devices > 1 else "auto",
            "use_distributed_sampler": False,
            "max_steps": 4,
            "max_epochs": -1,
            "val_check_interval": 2,
            "check_val_every_n_epoch": None,
            "num_sanity_val_steps": 0,
            "log_every_n_steps": 1,
            "enable_progress_bar": False,
            "enable_checkpointing": False,
            "logger": {
                "class_path": "lightning.pytorch.loggers.CSVLogger",
                "init_args": {"save_dir": str(out), "name": "", "version": ""},
            },
            "callbacks": [
                {"class_path": "sapo_vl.callbacks." + name}
                for name in (
                    *("RewardMonitor", "GateMonitor", "ThroughputMonitor"),
                    *("SkipLog", "SampleLog", "StopFile", "IterationCheckpoint"),
                )
            ]
            + [
                {
                    "class_path": "sapo_vl.callbacks.BestCheckpoint",
                    "init_args": {"monitor": "eval/all/avg2"},
                }
            ],
        },
    }
    out.mkdir()
    path = out / "in.yaml"
    path.write_text(yaml.safe_dump(content))
    environment = os.environ | {
        "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "sapo_vl", "fit", "--config", str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    with (out / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    return load_file(out / "hf/model.safetensors"), rows


def write_questions(folder: Path) -> None:
    """Shards of questions without images; some are too long."""
    questions = [
        {"key": f"{i:03d}", "question": f"What is {i} and {i + 1}?", "answer": str(2 * i + 1)}
        for i in range(20)
    ]
    for question in questions[::3]:  # left out, on the rank that meets it
        question["question"] *= 100
    write_shards(questions, folder, "text")


def test_two_ranks_equal_one_process(project: Project, tmp_path: Path) -> None:
    write_questions(tmp_path)
    one, rows_one = fit(project, tmp_path / "one", tmp_path, devices=1)
    two, rows_two = fit(project, tmp_path / "two", tmp_path, devices=2)
    start = project.policy().model.state_dict()
    moved = max(float((one[k] - start[k]).abs().max()) for k in one)
    apart = max(float((one[k] - two[k]).abs().max()) for k in one)
    assert moved > 1e-3
    assert apart < 2e-6

    for first, second in zip(rows_one, rows_two, strict=True):
        for name in ("reward/mean", "policy/entropy", "eval/all/avg2", "eval/all/avg2_n", SKIPPED):
            if first.get(name):
                torch.testing.assert_close(float(second[name]), float(first[name]))
    assert any(row.get("eval/all/avg2_n") == "11.0" for row in rows_two)
    assert (tmp_path / "two/checkpoints/best.ckpt").is_file()
    assert float(rows_one[-1][SKIPPED] or rows_one[-2][SKIPPED]) > 0


def test_a_mean_over_tokens_is_one_over_the_tokens_of_all_ranks(
    project: Project, tmp_path: Path
) -> None:
    write_questions(tmp_path)
    one, rows = fit(project, tmp_path / "one", tmp_path, devices=1, objective=TOKEN_MEAN)
    two, _ = fit(project, tmp_path / "two", tmp_path, devices=2, objective=TOKEN_MEAN)
    lengths = [float(row["rollout/length_mean"]) for row in rows if row.get("rollout/length_mean")]
    assert min(lengths) < 6  # some responses ended earlier, so that ranks have unequal tokens
    assert max(float((one[k] - two[k]).abs().max()) for k in one) < 2e-6
