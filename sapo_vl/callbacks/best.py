"""Keep the checkpoint with the best validation score."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any, Literal

import lightning as L
from lightning.pytorch.utilities import rank_zero_info
from typing_extensions import override

from sapo_vl.strategies import together


class BestCheckpoint(L.Callback):
    """Save ``checkpoints/best.ckpt`` whenever a logged score is better than ever before.

    The first one to reach a score keeps its place. A resumed run goes on from the best so far. A
    new best is written beside the last one and takes its place when it is whole; a run that is
    killed in between leaves ``best.ckpt``, or all of it as ``best.ckpt.new``, which the next fit in
    that folder puts in place.

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
    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        path = self._path(trainer)  # asks the other ranks
        with together(trainer.strategy):
            if trainer.is_global_zero:
                finish_swap(path)  # before a checkpoint is loaded, which may be this one

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
        path = self._path(trainer)
        new = beside(path, "new")
        with together(trainer.strategy):
            if trainer.is_global_zero:
                _remove(new)  # a part of one, left by a run that was killed
        trainer.save_checkpoint(new, weights_only=False)  # whole on all ranks when it returns
        with together(trainer.strategy):
            if trainer.is_global_zero:
                swap(path)
        rank_zero_info(f"best {self.monitor} so far: {score:.4g} after iteration {self.iteration}")

    def _path(self, trainer: L.Trainer) -> Path:
        folder = Path(self.folder or trainer.log_dir or trainer.default_root_dir)
        return folder / "checkpoints" / "best.ckpt"

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "iteration": self.iteration}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.iteration = state_dict["best"], state_dict["iteration"]


def beside(path: Path, what: str) -> Path:
    """The place beside a checkpoint of the one that comes ("new") or goes ("old")."""
    return path.with_name(f"{path.name}.{what}")


def swap(path: Path) -> None:
    """Put a checkpoint that is whole, beside ``path``, in its place; files and folders alike.

    Folders cannot be replaced in one step. ``old`` is there only while that goes on, and while it
    is, ``new`` is whole.
    """
    new, old = beside(path, "new"), beside(path, "old")
    if path.is_file() and new.is_file():
        new.replace(path)
        return
    if path.exists():
        path.rename(old)
    new.rename(path)
    _remove(old)


def finish_swap(path: Path) -> None:
    """Do what is left of a swap that was cut short."""
    new, old = beside(path, "new"), beside(path, "old")
    if old.exists() and not path.exists():
        new.rename(path)
    _remove(old)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
