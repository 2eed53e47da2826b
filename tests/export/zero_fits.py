"""Write ZeRO checkpoints: torchrun --nproc-per-node 2 zero_fits.py MODEL OUT, two gloo processes.

For each case OUT/CASE/checkpoint is what DeepSpeed saved, and OUT/CASE/memory.safetensors the
weights that rank 0 trained with at that moment.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import deepspeed
import lightning as L
import torch
from lightning.pytorch.strategies import DeepSpeedStrategy
from safetensors.torch import save_file
from transformers.integrations import HfDeepSpeedConfig
from typing_extensions import override

from sapo_vl.modules.base import PolicyModule
from sapo_vl.policy import AdapterConfig, PolicyConfig

LORA = AdapterConfig(rank=4, alpha=8)
# name -> stage, precision, what is special about the policy and about the strategy
CASES: dict[str, tuple[int, str, dict[str, Any], dict[str, Any]]] = {
    "zero1": (1, "32-true", {"freeze": ["vision"]}, {}),
    "zero2": (2, "32-true", {"freeze": ["vision"]}, {}),
    "zero2-bf16": (2, "bf16-true", {"dtype": "bfloat16"}, {}),
    "zero2-no-frozen": (2, "32-true", {"freeze": ["vision"]}, {"exclude_frozen_parameters": True}),
    "zero2-lora": (2, "32-true", {"lora": LORA}, {"exclude_frozen_parameters": True}),
    "zero3": (3, "32-true", {"freeze": ["vision"]}, {}),
    "zero3-bf16": (3, "bf16-true", {"dtype": "bfloat16"}, {}),
    "zero3-lora": (3, "32-true", {"lora": LORA}, {}),
}


class Strategy(DeepSpeedStrategy):
    """DeepSpeed on CPUs, which Lightning refuses."""

    @override
    def setup_environment(self) -> None:
        super(DeepSpeedStrategy, self).setup_environment()

    @override
    def setup_distributed(self) -> None:
        self.set_world_ranks()
        self._init_deepspeed_distributed()

    @property
    @override
    def root_device(self) -> torch.device:
        return torch.device("cpu", 0)


class Module(PolicyModule):
    """Any loss will do: what counts is that weights move."""

    @override
    def configure_model(self) -> None:
        strategy: Any = self.trainer.strategy
        if strategy.zero_stage_3:  # alive through the export too, as in a run
            self.split = HfDeepSpeedConfig(strategy.config)
        super().configure_model()

    @override
    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        logits = self.policy.model(input_ids=torch.arange(20, 30)[None]).logits
        return logits.float().logsumexp(-1).mean()


def run(folder: Path, model: str, case: str) -> None:
    """Two optimizer steps, the checkpoint, the weights in memory."""
    stage, precision, policy, strategy = CASES[case]
    module = Module(
        PolicyConfig(path=model, **policy), optimizer=lambda p: torch.optim.AdamW(p, lr=1e-2)
    )
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy=Strategy(stage=stage, process_group_backend="gloo", **strategy),
        precision=precision,
        max_steps=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, torch.utils.data.DataLoader(range(4), batch_size=1))
    trainer.save_checkpoint(folder / "checkpoint")
    weights = dict(module.policy.model.named_parameters())
    gathered = deepspeed.zero.GatheredParameters(list(weights.values()))
    with gathered if stage == 3 else nullcontext():
        if trainer.global_rank == 0:
            save_file({k: v.detach() for k, v in weights.items()}, folder / "memory.safetensors")
    trainer.strategy.barrier()


if __name__ == "__main__":
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # gloo does without
    for name in CASES:
        (Path(sys.argv[2]) / name).mkdir(exist_ok=True)
        run(Path(sys.argv[2]) / name, sys.argv[1], name)
