"""A rollout engine with a distribution of its own, corrected for inside an iteration."""

from __future__ import annotations

import copy
import dataclasses
import math
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from project import CoinVerifier, Project, trainer

from sapo_vl.callbacks import RewardMonitor
from sapo_vl.objectives import TruncatedWeights
from sapo_vl.rollout import Sampler
from sapo_vl.types import Rollout


class HalfAsLikely(Sampler):
    """Draws as the sampler does and says that every token was half as likely as it was."""

    def __call__(self, *args: Any) -> Rollout:
        rollout = super().__call__(*args)
        return dataclasses.replace(rollout, logp_BT=rollout.logp_BT - math.log(2))


def step(project: Project, root: Path, **options: Any) -> tuple[dict[str, torch.Tensor], Any]:
    """What one SGD update adds to the weights, and what was logged."""
    module = project.sapo(gradient_clip_norm=0.0, updates_per_iteration=1, **options)
    module.configure_model()
    before = copy.deepcopy(module.policy.model.state_dict())
    fit: L.Trainer = trainer(root, max_steps=1, callbacks=[RewardMonitor()])
    fit.fit(module, project.data(tasks=project.tasks(verifier=CoinVerifier())))
    after = module.policy.model.state_dict()
    return {name: after[name] - before[name] for name in before}, fit.logged_metrics


def test_a_correction_weighs_the_gradient_and_is_logged(project: Project, tmp_path: Path) -> None:
    plain, logged = step(project, tmp_path / "plain", rollout=HalfAsLikely())
    assert "policy/correction_mean" not in logged
    weighed, logged = step(
        project, tmp_path / "weighed", rollout=HalfAsLikely(), correction=TruncatedWeights(4.0)
    )
    assert float(logged["policy/correction_mean"]) == pytest.approx(2.0, abs=1e-4)
    assert max(float(change.abs().max()) for change in plain.values()) > 1e-4
    for name, change in plain.items():
        torch.testing.assert_close(weighed[name], 2 * change, rtol=1e-3, atol=2e-6)
