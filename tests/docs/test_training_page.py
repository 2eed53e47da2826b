"""docs/training.md names every metric that a run logs, and its gate table is the gate's."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
from project import CoinVerifier, Project, trainer

from sapo_vl.callbacks import (
    GateMonitor,
    ParityCheck,
    RewardMonitor,
    SkipLog,
    ThroughputMonitor,
)
from sapo_vl.objectives import KLPenalty, SigmoidGate, TruncatedWeights

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
TRAINERS_OWN = {"epoch", "step"}


def documented() -> list[re.Pattern[str]]:
    """The names in backticks in the table's first column; <...> stands for anything."""
    section = PAGE.split("## All metrics")[1].split("##")[0]
    cells = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    names = [name for cell in cells for name in re.findall(r"`([a-z0-9_/<>]+)`", cell)]
    suffixes = [name for name in names if name.startswith("_")]
    names = [name for name in names if not name.startswith("_")]
    names += [n + s for n in names if n.startswith("eval/") for s in suffixes]
    return [re.compile(re.sub(r"<\w+>", "[^/]+", name)) for name in names]


def test_every_logged_metric_is_on_the_page_and_every_name_there_is_logged(
    project: Project, tmp_path: Path
) -> None:
    callbacks = [RewardMonitor(), GateMonitor(), ThroughputMonitor(), SkipLog(), ParityCheck()]
    fit = trainer(tmp_path, max_steps=2, callbacks=callbacks, val_check_interval=1)
    data = project.data(tasks=project.tasks(verifier=CoinVerifier()), val_tasks=project.tasks())
    fit.fit(project.sapo(correction=TruncatedWeights(), kl=KLPenalty(0.01)), data)
    logged = set(fit.logged_metrics) | set(fit.callback_metrics)
    patterns = documented()
    assert len(patterns) > 40
    for name in logged - TRAINERS_OWN:
        assert any(p.fullmatch(name) for p in patterns), f"{name} is not in docs/training.md"
    unlogged = {p.pattern for p in patterns if not any(p.fullmatch(name) for name in logged)}
    # These verifiers break no score down.
    assert unlogged <= {"reward/[^/]+/[^/]+"}


@pytest.mark.parametrize("line", [x for x in PAGE.splitlines() if re.match(r"\| 1[0-9.]* ", x)])
def test_the_tables_weights_are_the_gates(line: str) -> None:
    tau, *weights = (float(re.match(r"[0-9.]+", cell)[0]) for cell in line.strip("| ").split(" | "))
    ratio = torch.tensor([[0.8, 0.9, 1.1, 1.2, 1.5, 2.0, 3.0]], dtype=torch.float64)
    gate = SigmoidGate()(ratio.log(), torch.tensor([[tau]], dtype=torch.float64))
    assert gate.weight_BT[0].tolist() == pytest.approx(weights, abs=6e-4)
    half = SigmoidGate()(torch.tensor([[math.log1p(1.7627 / tau)]]), torch.tensor([[tau]]))
    assert float(half.weight_BT) == pytest.approx(0.5, abs=1e-3)
