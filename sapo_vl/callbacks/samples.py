"""samples.jsonl: sampled answers with their images, on disk as the run goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning as L
from typing_extensions import override

from sapo_vl.callbacks.records import answers_record, append_lines
from sapo_vl.evaluation import answers_of
from sapo_vl.strategies import together
from sapo_vl.types import IterationOutput, PromptBatch


class SampleLog(L.Callback):
    """Write a few prompts with all their responses (rank 0 only).

    Args:
        every_n_iterations: how often in reinforcement learning; every validation adds some, too.
        prompts: how many prompts each time.
    """

    def __init__(self, every_n_iterations: int = 10, prompts: int = 4) -> None:
        self.every_n_iterations = every_n_iterations
        self.prompts = prompts
        self.log_dir: str | None = None

    @override
    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self.log_dir = trainer.log_dir  # a collective: ranks have unequal numbers of batches later

    @override
    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: PromptBatch,
        batch_idx: int,
    ) -> None:
        if "iteration" not in outputs or self.log_dir is None:
            return
        output: IterationOutput = outputs["iteration"]
        if output.iteration % self.every_n_iterations:
            return
        with together(trainer.strategy):
            if not trainer.global_rank:
                self._write(output, Path(self.log_dir))

    def _write(self, output: IterationOutput, folder: Path) -> None:
        answers = answers_of(output.batch.prompts, output.rollout, output.verdicts, "train")
        # A window that moves with the iteration, so that no task is always left out.
        start = output.iteration // self.every_n_iterations * self.prompts
        chosen = [(start + k) % len(answers) for k in range(min(self.prompts, len(answers)))]
        records = [
            answers_record(
                answers[i], folder, "train", output.iteration, output.advantage_PG[i].tolist()
            )
            for i in chosen
        ]
        append_lines(folder / "samples.jsonl", records)

    @override
    def on_validation_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: PromptBatch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if batch_idx or trainer.global_rank or self.log_dir is None:
            return
        folder, iteration = Path(self.log_dir), trainer.fit_loop.epoch_loop.total_batch_idx
        records = [
            answers_record(answers, folder, "val", iteration)
            for answers in outputs["answers"][: self.prompts]
        ]
        append_lines(folder / "samples.jsonl", records)
