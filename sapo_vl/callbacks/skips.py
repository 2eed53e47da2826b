"""data/skipped_*: samples that the stream left out, counted and listed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lightning as L
from typing_extensions import override

from sapo_vl.callbacks.means import log_means
from sapo_vl.types import SKIP_REASONS, PromptBatch


class SkipLog(L.Callback):
    """Log how many samples were left out so far, by reason, and list them in ``skipped.jsonl``.

    Args:
        max_listed: samples listed; the count goes on.
    """

    def __init__(self, max_listed: int = 10_000) -> None:
        self.max_listed = max_listed
        self.counts = dict.fromkeys(SKIP_REASONS, 0)
        self.listed = 0
        self.log_dir: str | None = None

    @override
    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self.log_dir = trainer.log_dir  # a collective: later one rank alone may have skips

    @override
    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: PromptBatch,
        batch_idx: int,
    ) -> None:
        self._note(trainer, batch)
        totals = {"total": sum(self.counts.values()), **self.counts}
        # The sum over ranks: each rank reads its own samples, so counts are weighted by 1 / world
        # size.
        per_rank = 1 / trainer.world_size
        log_means(
            trainer, pl_module, {f"data/skipped_{k}": (n, per_rank) for k, n in totals.items()}
        )

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
        self._note(trainer, batch)

    @override
    def on_test_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: PromptBatch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self._note(trainer, batch)

    def _note(self, trainer: L.Trainer, batch: PromptBatch) -> None:
        for skip in batch.skipped:
            self.counts[skip.why] += 1
        wanted = batch.skipped[: max(0, self.max_listed - self.listed)]
        if not wanted or self.log_dir is None:
            return
        self.listed += len(wanted)
        suffix = "" if trainer.global_rank == 0 else f"-rank{trainer.global_rank}"
        path = Path(self.log_dir) / f"skipped{suffix}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(skip)) + "\n" for skip in wanted)

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"counts": dict(self.counts)}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.counts |= state_dict["counts"]
