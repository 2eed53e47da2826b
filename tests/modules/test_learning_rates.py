"""A learning rate for each part: which parameters it moves, and how far."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from project import CoinVerifier, Project, trainer

from sapo_vl.modules.parameter_groups import parameter_groups
from sapo_vl.policy import AdapterConfig, PolicyConfig
from sapo_vl.policy.parts import part_of

RATES = {"vision": 0.02, "merger": 0.3}


def fit(project: Project, root: Path, **settings: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    """One step of plain gradient descent at 0.1: the module, and what each parameter moved by."""
    module = project.sapo(gradient_clip_norm=0.0, updates_per_iteration=1, **settings)
    module.configure_model()
    before = {name: p.detach().clone() for name, p in module.policy.named_parameters()}
    data = project.data(tasks=project.tasks(verifier=CoinVerifier()))
    trainer(root, max_steps=1).fit(module, data)
    return module, {n: p.detach() - before[n] for n, p in module.policy.named_parameters()}


def test_each_part_moves_by_its_own_rate(project: Project, tmp_path: Path) -> None:
    _, plain = fit(project, tmp_path)
    module, own = fit(project, tmp_path, learning_rates=RATES)
    for name, moved in own.items():
        scale = RATES.get(part_of(name), 0.1) / 0.1
        # A weight of about 1 moves in float32's steps of 1.2e-7, and is read after each rounding.
        torch.testing.assert_close(moved, plain[name] * scale, rtol=1e-3, atol=3e-7)
    assert {part_of(n) for n, moved in own.items() if moved.any()} == {"language", *RATES}
    groups = module.optimizers().param_groups
    assert [group["lr"] for group in groups] == [0.1, 0.02, 0.3]  # the optimizer's own first


def test_every_parameter_is_in_one_group(project: Project) -> None:
    policy = project.policy()
    for rates in (RATES, dict.fromkeys(("vision", "merger", "language"), 1.0)):
        groups = parameter_groups(policy, rates)
        found = [id(p) for group in groups for p in group["params"]]
        assert sorted(found) == sorted(id(p) for p in policy.parameters())
        assert len(groups) == 3


def test_adapters_have_the_rate_of_their_part(project: Project) -> None:
    policy = project.policy(lora=AdapterConfig(rank=2, alpha=4, parts=["language", "vision"]))
    rest, vision = parameter_groups(policy, {"vision": 0.5})
    named = {id(p): name for name, p in policy.named_parameters()}
    assert vision["lr"] == 0.5
    for group, inside in ((rest, False), (vision, True)):
        names = [named[id(p)] for p in group["params"]]
        assert names
        assert all("lora_" in name and (part_of(name) == "vision") == inside for name in names)


def test_without_rates_the_optimizer_gets_one_list(project: Project) -> None:
    policy = project.policy()
    assert parameter_groups(policy, {}) == list(policy.parameters())


def test_a_part_that_is_frozen_cannot_have_a_rate(project: Project, tmp_path: Path) -> None:
    frozen = PolicyConfig(path=project.model, freeze=["vision"])
    with pytest.raises(ValueError, match=r"learning_rates\.vision: nothing of the vision part"):
        fit(project, tmp_path, policy=frozen, learning_rates=RATES)


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ({"tower": 1e-6}, "unknown part 'tower'"),
        ({"vision": 0.0}, r"policy\.freeze: \[vision\]"),
        ({"vision": float("nan")}, "learning_rates.vision is nan"),
    ],
)
def test_impossible_rates_are_refused(
    project: Project, rates: dict[str, float], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        project.sapo(learning_rates=rates)
