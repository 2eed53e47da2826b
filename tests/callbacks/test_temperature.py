"""Temperatures that are turned: on a line, by a controller, and exactly so after a resume."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from project import CoinVerifier, Project, trainer

from sapo_vl.callbacks import (
    GateMonitor,
    IterationCheckpoint,
    TemperatureController,
    TemperatureSchedule,
)
from sapo_vl.loggers import CSVLogger
from sapo_vl.objectives import GRPO, SAPO, ErfGate

OBJECTIVE = SAPO(1.0, 1.05, ErfGate(), outward_only=True)


def fit(
    project: Project, folder: Path, callback: L.Callback, steps: int, ckpt: Path | None = None
) -> tuple[Any, list[tuple[float, float]], list[float]]:
    """A fit with large steps: (module, temperatures and the 95 % quantile of each iteration)."""
    module = project.sapo(objective=OBJECTIVE, optimizer=lambda p: torch.optim.AdamW(p, lr=3e-3))
    t = trainer(
        folder,
        max_steps=steps,
        # The checkpoint first: what it keeps must not depend on the order of the list.
        callbacks=[
            IterationCheckpoint(1, keep_last=9, folder=str(folder)),
            GateMonitor(),
            callback,
        ],
        logger=CSVLogger(str(folder), name="log", version=""),
        log_every_n_steps=1,
    )
    data = project.data(tasks=project.tasks(verifier=CoinVerifier()), num_workers=0)
    t.fit(module, data, ckpt_path=ckpt, weights_only=True)
    with (folder / "log" / "metrics.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row.get("gate/tau_pos")]
    taus = [(float(row["gate/tau_pos"]), float(row["gate/tau_neg"])) for row in rows]
    return module, taus, [float(row["gate/abs_log_ratio_p95"]) for row in rows]


def test_a_schedule_is_a_line_that_ends(project: Project, tmp_path: Path) -> None:
    module, taus, _ = fit(project, tmp_path, TemperatureSchedule(4.0, 6.0, iterations=2), 8)
    assert taus == [
        pytest.approx(want) for want in [(1.0, 1.05), (2.5, 3.525), (4.0, 6.0), (4.0, 6.0)]
    ]
    assert module.objective == OBJECTIVE  # as it was configured, for the next fit


def test_a_controller_follows_the_quantile(project: Project, tmp_path: Path) -> None:
    controller = TemperatureController(target=1e-3, rate=0.5, most=3.0)
    _, taus, moved = fit(project, tmp_path, controller, 8)
    factor, want = 1.0, []
    for q in moved:
        want.append((factor * 1.0, factor * 1.05))
        factor = min(max(factor * (q / 1e-3) ** 0.5, 1.0), 3.0)
    assert taus == [pytest.approx(pair, rel=1e-4) for pair in want]
    assert taus[0] == pytest.approx((1.0, 1.05))
    assert max(taus)[0] > 1.5  # it did something


def test_a_controller_lets_go_again_and_keeps_within_its_bounds() -> None:
    controller = TemperatureController(target=0.1, rate=1.0, most=4.0)
    controller.configured = OBJECTIVE
    seen = []
    for q in (0.1, 0.2, 0.9, 0.05, 0.0):
        controller.answer(q)
        seen.append(controller.factor)
    assert seen == [pytest.approx(x) for x in (1.0, 2.0, 4.0, 2.0, 1.0)]


def test_a_resumed_run_has_the_controllers_factor(project: Project, tmp_path: Path) -> None:
    def control() -> TemperatureController:
        return TemperatureController(target=1e-3, rate=0.5, most=50.0)

    whole, taus, _ = fit(project, tmp_path / "whole", control(), 8)
    saved = tmp_path / "whole/checkpoints/iteration-000002.ckpt"
    resumed, again, _ = fit(project, tmp_path / "again", control(), 8, saved)
    assert again == taus[2:]
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)


class Interrupt(L.Callback):
    """Break a fit off after its second iteration."""

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.global_step == 4:
            raise RuntimeError("broken off")


def test_a_fit_that_breaks_off_leaves_the_objective_as_it_was(
    project: Project, tmp_path: Path
) -> None:
    """Else the next fit in the process would start from where the line had got to."""
    module = project.sapo(objective=OBJECTIVE)
    t = trainer(tmp_path, callbacks=[TemperatureSchedule(4.0, 6.0, 3), Interrupt()], max_steps=8)
    with pytest.raises(RuntimeError, match="broken off"):
        t.fit(module, project.data())
    assert module.objective == OBJECTIVE


def test_a_resumed_run_goes_on_along_the_line(project: Project, tmp_path: Path) -> None:
    _, taus, _ = fit(project, tmp_path / "whole", TemperatureSchedule(4.0, 6.0, 4), 6)
    saved = tmp_path / "whole/checkpoints/iteration-000002.ckpt"
    _, again, _ = fit(project, tmp_path / "again", TemperatureSchedule(4.0, 6.0, 4), 6, saved)
    assert again == taus[2:]
    assert len(again) == 1


def test_a_line_ends_exactly_where_it_says() -> None:
    """3.9 by way of 1.05 + (3.9 - 1.05) is a last bit less, and would be warned about."""
    schedule = TemperatureSchedule(3.9, 3.9, iterations=3)
    schedule.configured = SAPO()
    assert schedule._temperatures(0) == (1.0, 1.05)
    assert schedule._temperatures(3) == schedule._temperatures(9) == (3.9, 3.9)


def test_two_that_turn_the_same_are_refused(project: Project, tmp_path: Path) -> None:
    both: list[L.Callback] = [TemperatureSchedule(2.0, 3.0, 4), TemperatureController()]
    with pytest.raises(ValueError, match="TemperatureSchedule and TemperatureController would"):
        trainer(tmp_path, callbacks=both).fit(project.sapo(), project.data())


def test_another_objective_is_refused(project: Project, tmp_path: Path) -> None:
    module = project.sapo(objective=GRPO())
    t = trainer(tmp_path, max_steps=2, callbacks=[TemperatureSchedule(2.0, 3.0, 4)])
    with pytest.raises(ValueError, match="objective is GRPO"):
        t.fit(module, project.data())


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: TemperatureSchedule(1.0, 2.0, 0), "iterations"),
        (lambda: TemperatureSchedule(0.0, 2.0, 5), "tau_pos"),
        (lambda: TemperatureController(target=0.0), "target"),
        (lambda: TemperatureController(rate=-1.0), "rate"),
        (lambda: TemperatureController(most=0.5), "most"),
    ],
)
def test_impossible_settings_are_refused(make: Any, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        make()
