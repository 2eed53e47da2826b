"""A small project on disk: shards of two drawn tasks and a Qwen3-VL folder that reads them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning as L
import torch

from datamodules import ReasoningDataModule, TaskConfig
from datamodules.shards import write_shards
from datamodules.sources import figures
from sapo_vl.modules import SAPOModule
from sapo_vl.policy import Policy, PolicyConfig
from sapo_vl.policy.build import build_model, train_tokenizer
from sapo_vl.types import Prompt, Sampling, Verdict
from sapo_vl.verifiers import NumberVerifier, TextVerifier

VERIFIERS = {"leftmost_colour": TextVerifier(), "count_colour": NumberVerifier()}
ARCHITECTURE = {
    "model_type": "qwen3_vl",
    "tie_word_embeddings": True,
    "text_config": {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "initializer_range": 0.08,
        "tie_word_embeddings": True,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": [4, 2, 2],
            "mrope_interleaved": True,
        },
    },
    "vision_config": {
        "depth": 2,
        "hidden_size": 32,
        "num_heads": 2,
        "intermediate_size": 64,
        "patch_size": 8,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "deepstack_visual_indexes": [0],
        "out_hidden_size": 64,
        "num_position_embeddings": 64,
        "initializer_range": 0.08,
    },
}


@dataclass(frozen=True)
class Project:
    """Where the small project lies, and how its parts are made."""

    root: Path

    @property
    def model(self) -> str:
        return str(self.root / "model")

    def tasks(self, split: str = "train", **changes: Any) -> list[TaskConfig]:
        shards = self.root / "shards"
        return [
            TaskConfig(
                name=name,
                shards=str(shards / f"{name}-{split}-*.tar"),
                **({"verifier": verifier} | changes),
            )
            for name, verifier in VERIFIERS.items()
        ]

    def data(self, **changes: Any) -> ReasoningDataModule:
        options: dict[str, Any] = {
            "processor": self.model,
            "tasks": self.tasks(),
            "val_tasks": self.tasks("val"),
            "test_tasks": self.tasks("val"),
            "prompts_per_iteration": 4,
            "eval_batch_size": 8,
            "num_workers": 0,
            "max_prompt_tokens": 256,
            "min_pixels": 256,
            "max_pixels": 65536,
        }
        return ReasoningDataModule(**(options | changes))

    def sapo(self, **changes: Any) -> SAPOModule:
        options: dict[str, Any] = {
            "policy": PolicyConfig(path=self.model),
            "sampling": Sampling(group_size=4, max_new_tokens=6),
            "evaluation": {"greedy": Sampling(group_size=1, temperature=0.0, max_new_tokens=6)},
            "optimizer": lambda p: torch.optim.SGD(p, lr=0.1),
        }
        return SAPOModule(**(options | changes))

    def policy(self, **changes: Any) -> Policy:
        return Policy(PolicyConfig(path=self.model, **changes))


def make_project(root: Path) -> Project:
    """Write the shards and the model."""
    texts = []
    for name in VERIFIERS:
        for split, count in (("train", 48), ("val", 12)):
            samples = list(figures.samples(name, split=split, count=count))
            texts += [f"{s['question']} {s['response']}" for s in samples]
            write_shards(samples, root / "shards", f"{name}-{split}")
    tokenizer = train_tokenizer(texts, 320)
    build_model(ARCHITECTURE, tokenizer, root / "model", min_pixels=256, max_pixels=65536)
    return Project(root)


def trainer(root: Path, **changes: Any) -> L.Trainer:
    """A quiet CPU trainer; ``max_steps`` counts updates."""
    options: dict[str, Any] = {
        "accelerator": "cpu",
        "devices": 1,
        "max_epochs": -1,
        "max_steps": 4,
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
        "use_distributed_sampler": False,
        "num_sanity_val_steps": 0,
        "check_val_every_n_epoch": None,
        "val_check_interval": 1000,
        "default_root_dir": root,
    }
    return L.Trainer(**(options | changes))


class CoinVerifier:
    """Scores that depend on the response's text alone, so that groups differ from the start."""

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        return Verdict(score=float(sum(response.encode()) % 2), extracted=response)
