"""Checkpoints between iterations, to go on from, and a Hugging Face folder, to use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.utilities import rank_zero_info
from typing_extensions import override

from sapo_vl.export import export_checkpoint
from sapo_vl.strategies import together


class IterationCheckpoint(L.Callback):
    """Save the whole training state every so many iterations, and the model when training ends.

    ``checkpoints/iteration-000100.ckpt`` resumes with ``--ckpt_path``; ``hf/`` loads in
    transformers. A rollout is never cut in half: hooks run between iterations.

    Args:
        every_n_iterations: how often; 0 saves at the end only.
        keep_last: how many checkpoints to keep; older ones are removed after a new one is whole. A
            run that goes on in the same folder counts those it has from before.
        export: write ``hf/`` at the end, LoRA adapters merged, as scripts/export.py does.
        folder: where to write; the logger's folder by default.
    """

    def __init__(
        self,
        every_n_iterations: int = 100,
        keep_last: int = 2,
        export: bool = True,
        folder: str | None = None,
    ) -> None:
        if keep_last < 1:
            raise ValueError(f"keep_last is {keep_last}; it must be at least 1")
        self.every_n_iterations = every_n_iterations
        self.keep_last = keep_last
        self.export = export
        self.folder = folder
        self.saved: list[Path] = []
        self._restored: list[str] = []  # names of what an earlier start of this run has saved

    @override
    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        # Last, as Lightning places its own: what others keep has to know this iteration, too.
        # A new list, since the trainer is walking through the old one.
        trainer.callbacks = sorted(trainer.callbacks, key=lambda callback: callback is self)  # type: ignore[attr-defined]

    @override
    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        folder = self._folder(trainer) / "checkpoints"
        there = [folder / name for name in self._restored if (folder / name).exists()]
        self.saved = trainer.strategy.broadcast(there)
        self._restored = []

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"saved": [path.name for path in self.saved]}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._restored = state_dict["saved"]

    @override
    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        if self.every_n_iterations and _iterations(trainer) % self.every_n_iterations == 0:
            self._save(trainer)

    @override
    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        checkpoint = self._save(trainer)
        if not self.export:
            return
        folder = self._folder(trainer) / "hf"
        with together(trainer.strategy):
            if trainer.global_rank == 0:
                export_checkpoint(checkpoint, folder, replace=True)
        rank_zero_info(f"model written to {folder}")

    def _save(self, trainer: L.Trainer) -> Path:
        name = f"iteration-{_iterations(trainer):06d}.ckpt"
        path = self._folder(trainer) / "checkpoints" / name
        if path in self.saved:
            return path
        self.saved.append(path)  # a checkpoint names itself, too
        trainer.save_checkpoint(path, weights_only=False)  # the optimizer, too
        while len(self.saved) > self.keep_last:
            trainer.strategy.remove_checkpoint(self.saved.pop(0))
        return path

    def _folder(self, trainer: L.Trainer) -> Path:
        return Path(self.folder or trainer.log_dir or trainer.default_root_dir)


def _iterations(trainer: L.Trainer) -> int:
    """Iterations done over the whole run; a resumed fit counts its own from 0 again."""
    return trainer.fit_loop.epoch_loop.total_batch_idx + 1
