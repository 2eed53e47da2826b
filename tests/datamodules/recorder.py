"""A module that trains nothing and writes down what it is given; run as a script, on some ranks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import lightning as L
import torch

from datamodules import ReasoningDataModule, TaskConfig
from sapo_vl.types import PromptBatch
from sapo_vl.verifiers import NumberVerifier

UPDATES = 2  # optimizer steps of an iteration


class Recorder(L.LightningModule):
    """Keep the keys of every batch; make optimizer steps, as ``max_steps`` counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen: dict[str, list[list[str]]] = {"fit": [], "validate": [], "test": []}
        self.prompts: list[Any] = []
        self.skipped: list[Any] = []

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def training_step(self, batch: PromptBatch, batch_idx: int) -> None:
        self.note("fit", batch)
        optimizer: Any = self.optimizers()
        for _ in range(UPDATES):
            optimizer.zero_grad()
            self.manual_backward(self.weight.sum())
            optimizer.step()

    def validation_step(self, batch: PromptBatch, batch_idx: int) -> None:
        self.note("validate", batch)

    def test_step(self, batch: PromptBatch, batch_idx: int) -> None:
        self.note("test", batch)

    def predict_step(self, batch: PromptBatch, batch_idx: int) -> list[str]:
        self.note("predict", batch)
        return [prompt.key for prompt in batch.prompts]

    def note(self, stage: str, batch: PromptBatch) -> None:
        self.seen.setdefault(stage, []).append([p.key for p in batch.prompts])
        self.prompts += batch.prompts
        self.skipped += batch.skipped


class SaveAt(L.Callback):
    """Write a checkpoint between iterations, where the trainer saves its own."""

    def __init__(self, path: Path, iteration: int) -> None:
        self.path = path
        self.iteration = iteration

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.fit_loop.epoch_loop.batch_progress.total.ready == self.iteration:
            trainer.save_checkpoint(self.path)


def trainer(**options: Any) -> L.Trainer:
    defaults: dict[str, Any] = {
        "accelerator": "cpu",
        "devices": 1,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "max_epochs": -1,  # with 1, the checkpoint of a finished fit could not be gone on from
        "num_sanity_val_steps": 0,
        "check_val_every_n_epoch": None,
        "use_distributed_sampler": False,
    }
    return L.Trainer(**defaults | options)


def iterations(count: int) -> dict[str, int]:
    """Limit of a fit to this many iterations."""
    return {"max_steps": count * UPDATES}


def source(processor: str, shards: str, workers: int) -> ReasoningDataModule:
    """The tasks "few" and "many" of a folder of shards, in training and test."""
    tasks = [
        TaskConfig(name=name, shards=f"{shards}/{name}-*.tar", verifier=NumberVerifier())
        for name in ("few", "many")
    ]
    return ReasoningDataModule(
        processor,
        tasks=tasks,
        test_tasks=tasks,
        prompts_per_iteration=6,
        eval_batch_size=5,
        num_workers=workers,
        min_pixels=256,
        max_pixels=65536,
    )


def main(processor: str, shards: str, out: str, ranks: str, start: str, stop: str) -> None:
    """Go on from a checkpoint and test as one of the ranks; each writes what it saw."""
    data = source(processor, shards, workers=2)
    module = Recorder()
    run = trainer(devices=int(ranks), strategy="ddp", **iterations(int(stop)))
    run.fit(module, datamodule=data, ckpt_path=start)
    run.save_checkpoint(Path(out) / "ranks.ckpt")
    run.test(module, datamodule=data, verbose=False)
    record = {**module.seen, "position": data.state_dict()}
    (Path(out) / f"rank{run.global_rank}.json").write_text(json.dumps(record))


if __name__ == "__main__":
    main(*sys.argv[1:])
