from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning as L
from project import Project, trainer

from sapo_vl.callbacks import IterationCheckpoint, StopFile


class Touch(L.Callback):
    """Asks for the end in the middle of an iteration."""

    def __init__(self, file: Path, iteration: int) -> None:
        self.file, self.iteration, self.seen = file, iteration, []

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, index: int) -> None:
        if index == self.iteration:
            self.file.touch()

    def on_train_batch_end(
        self, trainer: Any, module: Any, outputs: Any, batch: Any, index: int
    ) -> None:
        self.seen.append(outputs["iteration"].iteration)


def test_a_stopped_fit_goes_on_where_it_ended(project: Project, tmp_path: Path) -> None:
    file = tmp_path / "stop"

    def fit(ckpt: Path | None, iteration: int) -> Touch:
        touch = Touch(file, iteration)
        save = IterationCheckpoint(0, folder=str(tmp_path), export=False)
        run = trainer(tmp_path, max_steps=8, callbacks=[touch, StopFile(), save])
        run.fit(project.sapo(), project.data(), ckpt_path=ckpt)
        return touch

    assert fit(None, 1).seen == [0, 1]
    assert not file.exists()  # or the next fit would end at once
    saved = tmp_path / "checkpoints/iteration-000002.ckpt"
    assert fit(saved, 99).seen == [2, 3]
