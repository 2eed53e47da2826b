"""End a fit between two iterations when asked from outside, by a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.utilities import rank_zero_info
from typing_extensions import override


class StopFile(L.Callback):
    """Stop after the iteration in which a file appears, so that the fit can be gone on with.

    For time limits of a cluster, where a signal would cut a rollout in half or end the processes
    that judge. The file is removed, IterationCheckpoint saves, the process ends with success.

    Args:
        path: the file; ``stop`` in the logger's folder by default.
    """

    def __init__(self, path: str | None = None) -> None:
        self.path = path

    @override
    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        file = Path(self.path or Path(trainer.log_dir or trainer.default_root_dir) / "stop")
        # One rank looks and tells the others: they might see the file an iteration apart.
        if not trainer.strategy.broadcast(trainer.is_global_zero and file.exists()):
            return
        trainer.strategy.barrier("stop file")
        if trainer.is_global_zero:
            file.unlink()
        rank_zero_info(f"{file} found: the fit ends here, to be gone on with from its checkpoint")
        trainer.should_stop = True
