"""A progress bar for tests that shows the score so far."""

from __future__ import annotations

from typing import Any

import lightning as L
from lightning.pytorch.callbacks import TQDMProgressBar
from typing_extensions import override

from sapo_vl.types import Answers


class EvaluationBar(TQDMProgressBar):
    """Lightning's bar (batches, time left) with this rank's accuracy, answers and failures so far.

    The accuracy is the mean score by sampling of what has been judged in this start; batches come
    longest prompts first, so that it moves and the time left shrinks faster than it says.
    """

    @override
    def on_test_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        super().on_test_start(trainer, pl_module)
        self.sums: dict[str, float] = {}
        self.counts: dict[str, int] = {}
        self.failed = self.skipped = 0

    @override
    def on_test_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        answers: list[Answers] = outputs["answers"]
        for answer in answers:
            scores = [verdict.score for verdict in answer.verdicts]
            self.sums[answer.sampling] = self.sums.get(answer.sampling, 0.0) + sum(scores)
            self.counts[answer.sampling] = self.counts.get(answer.sampling, 0) + len(scores)
            self.failed += sum(v.status in ("error", "timeout") for v in answer.verdicts)
        self.skipped += len(batch.skipped)
        self.test_progress_bar.set_postfix(self.shown(), refresh=False)
        super().on_test_batch_end(trainer, pl_module, outputs, batch, batch_idx, dataloader_idx)

    def shown(self) -> dict[str, str]:
        """What stands behind the bar."""
        found = {name: f"{self.sums[name] / n:.1%} of {n}" for name, n in self.counts.items() if n}
        troubles = {"verifier failures": self.failed, "left out": self.skipped}
        return found | {name: str(count) for name, count in troubles.items() if count}
