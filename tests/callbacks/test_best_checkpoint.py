"""BestCheckpoint is cut short at every step that it takes: the best checkpoint is never lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sapo_vl.callbacks import BestCheckpoint

STEPS = 10  # at most, of a save and its swap
PARTS = ("latest", "rank_0.pt", "rank_1.pt")  # of a folder as DeepSpeed writes it


class Killed(BaseException):
    """The process ends here."""


class Steps:
    """Ends the process at a given call that changes the disk."""

    def __init__(self, last: int) -> None:
        self.left = last

    def __call__(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1


def save_file(path: Path, score: float, step: Callable[[], None]) -> None:
    step()
    path.write_text("")
    step()
    path.write_text(str(score))


def save_folder(path: Path, score: float, step: Callable[[], None]) -> None:
    for part in PARTS:
        step()
        path.mkdir(exist_ok=True, parents=True)
        (path / part).write_text(str(score))


def read(path: Path) -> float | None:
    """The score that a checkpoint was saved at; None: there is none, or it is not whole."""
    if path.is_dir():
        scores = {read(path / part) for part in PARTS}
        return scores.pop() if len(scores) == 1 else None
    return float(path.read_text() or "nan") if path.exists() else None


def trainer(folder: Path, score: float, save: Any, step: Callable[[], None]) -> Any:
    """What the callback asks of a trainer."""
    return SimpleNamespace(
        state=SimpleNamespace(fn="fit"),
        sanity_checking=False,
        is_global_zero=True,
        log_dir=str(folder),
        callback_metrics={"eval/all/greedy": torch.tensor(score)},
        fit_loop=SimpleNamespace(epoch_loop=SimpleNamespace(total_batch_idx=0)),
        strategy=SimpleNamespace(barrier=lambda name: None, global_rank=0),
        save_checkpoint=lambda path, weights_only: save(path, score, step),
    )


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Steps]]:
    """Moves and removals go through the last of these, too."""
    steps: list[Steps] = []

    def watched(change: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            steps[-1]()
            return change(*args, **kwargs)

        return call

    for name in ("rename", "replace", "unlink", "rmdir"):
        monkeypatch.setattr(os, name, watched(getattr(os, name)))
    yield steps
    steps.append(Steps(10**6))


@pytest.mark.parametrize("save", [save_file, save_folder])
@pytest.mark.parametrize("last", range(STEPS + 1))
def test_a_kill_at_any_step_leaves_a_whole_best(
    tmp_path: Path, disk: list[Steps], save: Any, last: int
) -> None:
    path = tmp_path / "checkpoints/best.ckpt"
    path.parent.mkdir()
    callback = BestCheckpoint("eval/all/greedy")
    disk.append(Steps(10**6))
    callback.on_validation_end(trainer(tmp_path, 0.25, save, disk[-1]), None)
    assert read(path) == 0.25
    disk.append(Steps(last))
    killed = False
    try:
        callback.on_validation_end(trainer(tmp_path, 0.5, save, disk[-1]), None)
    except Killed:
        killed = True
    assert killed or last > 3
    assert not killed or last < STEPS  # so that all of them are tried
    found = {read(p) for p in path.parent.glob("best.ckpt*")}
    assert found & {0.25, 0.5}

    disk.append(Steps(10**6))
    again = BestCheckpoint("eval/all/greedy")
    again.best = 0.25
    again.setup(trainer(tmp_path, 0.0, save, disk[-1]), None, "fit")
    assert read(path) in {0.25, 0.5}
    again.on_validation_end(trainer(tmp_path, 0.75, save, disk[-1]), None)
    assert read(path) == 0.75
    assert [p.name for p in path.parent.iterdir()] == ["best.ckpt"]


def test_a_folder_takes_the_place_of_a_file(tmp_path: Path) -> None:
    """A run goes on under another strategy."""
    callback = BestCheckpoint("eval/all/greedy", folder=str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    for score, save in ((0.25, save_file), (0.5, save_folder), (0.75, save_file)):
        callback.on_validation_end(trainer(tmp_path, score, save, lambda: None), None)
        assert read(tmp_path / "checkpoints/best.ckpt") == score
    assert len(list((tmp_path / "checkpoints").iterdir())) == 1
