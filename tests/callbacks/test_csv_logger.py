from __future__ import annotations

from pathlib import Path

from project import CoinVerifier, Project, trainer

from sapo_vl.callbacks import IterationCheckpoint, RewardMonitor
from sapo_vl.loggers import CSVLogger
from sapo_vl.report.history import earlier_parts
from sapo_vl.report.load import load_stage


def fit(project: Project, folder: Path, steps: int, path: Path | None = None) -> None:
    logger = CSVLogger(folder, name="", version="", flush_logs_every_n_steps=1)
    callbacks = [RewardMonitor(), IterationCheckpoint(1, keep_last=9, export=False)]
    t = trainer(folder, max_steps=steps, logger=logger, callbacks=callbacks, log_every_n_steps=1)
    data = project.data(tasks=project.tasks(verifier=CoinVerifier()))
    t.fit(project.sapo(), data, ckpt_path=path, weights_only=True)


def test_a_resumed_run_keeps_what_it_logged_before(project: Project, tmp_path: Path) -> None:
    fit(project, tmp_path / "whole", 10)
    fit(project, tmp_path / "parts", 6)
    fit(project, tmp_path / "parts", 10, tmp_path / "parts/checkpoints/iteration-000002.ckpt")
    assert [p.name for p in earlier_parts(tmp_path / "parts/metrics.csv")] == ["metrics-1.csv"]
    whole, parts = (load_stage("s", tmp_path / n).metrics for n in ("whole", "parts"))
    assert whole["reward/mean"].steps == parts["reward/mean"].steps == (0, 1, 2, 3, 4)
    assert whole["policy/entropy"] == parts["policy/entropy"]

    fit(project, tmp_path / "parts", 4)  # a new run in the same folder shows nothing of the old
    assert load_stage("s", tmp_path / "parts").metrics["reward/mean"].steps == (0, 1)
    assert len(earlier_parts(tmp_path / "parts/metrics.csv")) == 2
