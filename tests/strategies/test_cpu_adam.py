"""Torch's AdamW as DeepSpeed's, where the optimizer's states are in CPU memory."""

from __future__ import annotations

import copy
import shutil
from typing import Any

import pytest
import torch
from torch import nn

from sapo_vl.strategies import ZeroStrategy, fitting_optimizer
from sapo_vl.strategies.cpu_adam import cpu_adam

pytest.importorskip("deepspeed")


def optimizer(kind: Any, model: nn.Linear) -> Any:
    bias = {"params": [model.bias], "lr": 1e-2, "weight_decay": 0.0}
    return kind(
        [{"params": [model.weight]}, bias], lr=1e-3, betas=(0.9, 0.95), eps=1e-6, weight_decay=0.1
    )


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What DeepSpeed's operator was made with; it is not compiled."""
    from deepspeed.ops.op_builder import CPUAdamBuilder

    calls: list[tuple[Any, ...]] = []

    class Operator:
        def create_adam(self, *settings: Any) -> None:
            calls.append(settings)

        def destroy_adam(self, number: int) -> None:
            pass

    monkeypatch.setattr(CPUAdamBuilder, "load", lambda self: Operator())
    return calls


@pytest.mark.parametrize(("kind", "decoupled"), [("AdamW", True), ("Adam", False)])
def test_settings_are_taken_over(made: list[Any], kind: str, decoupled: bool) -> None:
    torchs = optimizer(getattr(torch.optim, kind), nn.Linear(3, 2))
    found = fitting_optimizer(ZeroStrategy(stage=2, offload_optimizer=True), torchs)
    assert type(found).__name__ == "DeepSpeedCPUAdam"
    assert made[0][1:7] == (1e-3, 0.9, 0.95, 1e-6, 0.1, decoupled)
    for group, wanted in zip(found.param_groups, torchs.param_groups, strict=True):
        for name in ("params", "lr", "betas", "eps", "weight_decay"):
            assert group[name] == wanted[name], name


def test_others_stay_what_they_are(made: list[Any]) -> None:
    weight, offload = nn.Linear(2, 2).weight, ZeroStrategy(stage=2, offload_optimizer=True)
    for other in (torch.optim.SGD([weight]), torch.optim.AdamW([weight], amsgrad=True)):
        assert fitting_optimizer(offload, other) is other
    plain = torch.optim.AdamW([weight])
    assert fitting_optimizer(ZeroStrategy(stage=2), plain) is plain
    assert fitting_optimizer(None, plain) is plain
    assert not made


def test_what_does_not_compile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from deepspeed.ops.op_builder import CPUAdamBuilder

    def load(self: Any) -> None:
        raise OSError("no ninja")

    monkeypatch.setattr(CPUAdamBuilder, "load", load)
    with pytest.raises(RuntimeError, match=r"offload_optimizer.*no ninja.*Install g\+\+"):
        cpu_adam(torch.optim.AdamW([nn.Linear(2, 2).weight]))


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++") or not shutil.which("ninja"), reason="no compiler")
@pytest.mark.parametrize("kind", ["AdamW", "Adam"])
def test_steps_equal_torchs(kind: str) -> None:
    torch.manual_seed(0)
    model = nn.Linear(64, 64)
    same = copy.deepcopy(model)
    pairs = [(m, optimizer(getattr(torch.optim, kind), m)) for m in (model, same)]
    pairs[1] = (same, cpu_adam(pairs[1][1]))
    for _ in range(5):
        x = torch.randn(8, 64)
        for linear, steps in pairs:
            steps.zero_grad()
            linear(x).square().sum().backward()
            steps.step()
    for name, value in model.named_parameters():
        torch.testing.assert_close(same.get_parameter(name), value, rtol=0, atol=1e-6)
