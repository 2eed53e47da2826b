from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch
from lightning.pytorch.plugins import Precision
from lightning.pytorch.strategies import DeepSpeedStrategy
from project import Project, trainer

from sapo_vl.policy import AdapterConfig
from sapo_vl.strategies import ZeroStrategy, clip_and_step, whole_weights
from sapo_vl.strategies.fsdp2 import _split


def test_a_missing_deepspeed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sapo_vl.strategies.zero.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'sapo-vl\[deepspeed\]'"):
        ZeroStrategy()


def test_offloaded_parameters_need_stage_3() -> None:
    pytest.importorskip("deepspeed")
    with pytest.raises(ValueError, match="offload_parameters needs stage 3, stage is 2"):
        ZeroStrategy(stage=2, offload_parameters=True)


def test_lightnings_own_deepspeed_is_refused() -> None:
    pytest.importorskip("deepspeed")
    with pytest.raises(ValueError, match=r"sapo_vl\.strategies\.ZeroStrategy"):
        whole_weights(DeepSpeedStrategy(stage=2))


def test_another_device_of_deepspeed_is_named(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("deepspeed") is None:
        pytest.skip("deepspeed is not installed")
    import deepspeed.accelerator

    chosen = type("Cuda", (), {"_name": "cuda"})()
    monkeypatch.setattr(deepspeed.accelerator, "get_accelerator", lambda: chosen)
    run = trainer(tmp_path, strategy=ZeroStrategy(stage=2))
    with (
        patch.dict(os.environ),  # or processes of later tests would take themselves for this rank
        pytest.raises(RuntimeError, match=r"has chosen cuda; set .* DS_ACCELERATOR=cpu"),
    ):
        run.fit(project.sapo(), project.data())


def test_plain_strategies_clip_to_the_norm_that_is_returned(project: Project) -> None:
    module = project.sapo()
    module.policy = torch.nn.Linear(3, 1)  # type: ignore[assignment]
    module.clip_gradients = lambda optimizer, norm, kind: torch.nn.utils.clip_grad_norm_(  # type: ignore[method-assign,misc,assignment]
        module.policy.parameters(), norm
    )
    before = [p.detach().clone() for p in module.policy.parameters()]
    optimizer = torch.optim.SGD(module.policy.parameters(), lr=1.0)
    module.policy(torch.full((1, 3), 2.0)).sum().backward()
    strategy = SimpleNamespace(precision_plugin=Precision())
    norm = clip_and_step(strategy, module, optimizer, 0.5)
    assert norm == pytest.approx(13**0.5)  # three gradients of 2 and one of 1
    after = module.policy.parameters()
    moved = sum(float((a - b).square().sum()) for a, b in zip(after, before, strict=True)) ** 0.5
    assert moved == pytest.approx(0.5, rel=1e-4)


def test_weights_of_two_dtypes_cannot_be_split_by_fsdp2(project: Project) -> None:
    policy = project.policy(dtype="bfloat16", lora=AdapterConfig(rank=2, alpha=2))
    with pytest.raises(ValueError, match=r"bfloat16 and float32.*policy\.dtype: float32"):
        _split(policy, None, "bf16-mixed")


def test_small_steps_are_not_rounded_away_under_fsdp2(project: Project) -> None:
    with pytest.raises(ValueError, match=r"policy\.dtype is bfloat16.*policy\.dtype: float32"):
        _split(project.policy(dtype="bfloat16"), None, "bf16-mixed")
