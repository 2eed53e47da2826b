"""Keep the checkpoint with the best validation score."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import lightning as L
from lightning.pytorch.utilities import rank_zero_info
from typing_extensions import override


class BestCheckpoint(L.Callback):
    """Save ``checkpoints/best.ckpt`` whenever a logged score is better than ever before.

    The first one to reach a score keeps its place. A resumed run goes on from the best so far.

    Args:
        monitor: what was logged in validation, such as "eval/all/greedy".
        mode: whether larger or smaller is better.
        folder: where to write; the logger's folder by default.

    Raises:
        ValueError: in validation, when nothing of that name was logged.
    """

    def __init__(
        self, monitor: str, mode: Literal["max", "min"] = "max", folder: str | None = None
    ) -> None:
        self.monitor = monitor
        self.sign = {"max": 1.0, "min": -1.0}[mode]
        self.folder = folder
        self.best = math.nan
        self.iteration = 0

    @override
    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        if self.monitor not in trainer.callback_metrics:
            logged = sorted(n for n in trainer.callback_metrics if n.startswith("eval/"))
            raise ValueError(
                f"BestCheckpoint: nothing is logged as {self.monitor!r}; choose one of"
                f" {', '.join(logged) or 'data.val_tasks, which are empty'}"
            )
        score = float(trainer.callback_metrics[self.monitor])
        if math.isnan(score) or self.sign * score <= self.sign * self.best:
            return
        self.best = score
        self.iteration = trainer.fit_loop.epoch_loop.total_batch_idx + 1
        folder = Path(self.folder or trainer.log_dir or trainer.default_root_dir)
        trainer.save_checkpoint(folder / "checkpoints" / "best.ckpt", weights_only=False)
        rank_zero_info(f"best {self.monitor} so far: {score:.4g} after iteration {self.iteration}")

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "iteration": self.iteration}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.iteration = state_dict["best"], state_dict["iteration"]
