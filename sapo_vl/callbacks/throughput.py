"""time/*: where an iteration's seconds go."""

from __future__ import annotations

import time
from typing import Any

import lightning as L
from typing_extensions import override

from sapo_vl.callbacks.means import Mean, log_means
from sapo_vl.types import IterationOutput, PromptBatch


class ThroughputMonitor(L.Callback):
    """Log seconds by phase and tokens per second.

    ``time/iteration`` runs from one iteration's end to the next, validation not included;
    ``time/tokens_per_second`` is sampled tokens over it, on each rank. ``time/data`` is the part of
    it that was spent waiting for the batch and moving it to the device, and nothing else; 0 where
    an iteration has none before it, as the time until the first batch belongs to the start.
    """

    def __init__(self) -> None:
        self.ended: float | None = None
        self.started = 0.0

    @override
    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self.started = time.perf_counter()

    @override
    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: PromptBatch,
        batch_idx: int,
    ) -> None:
        output: IterationOutput = outputs["iteration"]
        begun = self.started if self.ended is None else self.ended
        now = time.perf_counter()
        means: dict[str, Mean] = {f"time/{k}": (v, 1) for k, v in output.seconds.items()}
        means["time/data"] = (0.0 if self.ended is None else batch.waited, 1)
        means["time/iteration"] = (now - begun, 1)
        tokens = output.rollout.mask_BT.sum()
        means["time/tokens_per_second"] = (tokens / (now - begun), 1)
        log_means(trainer, pl_module, means)
        self.ended = time.perf_counter()

    @override
    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.ended = None
