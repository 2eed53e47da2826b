"""A run that asks for GPUs which are not there is told so, with the key and the mend."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sapo_vl.cli import main
from sapo_vl.strategies.devices import check_devices


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make this host one with so many GPUs."""

    def make(gpus: int, bf16: bool = True) -> None:
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla T4")
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bf16)

    return make


def trainer(accelerator: str = "auto", devices: Any = "auto", precision: Any = None) -> Any:
    return {"accelerator": accelerator, "devices": devices, "precision": precision}


@pytest.mark.parametrize("accelerator", ["gpu", "cuda"])
def test_no_gpu(host: Any, accelerator: str) -> None:
    host(0)
    with pytest.raises(ValueError, match=rf"^trainer.accelerator is {accelerator}.*: cpu.*$"):
        check_devices(trainer(accelerator))
    for other in ("auto", "cpu"):
        check_devices(trainer(other, 4, "bf16-mixed"))


@pytest.mark.parametrize("devices", [3, "3", [0, 2], "0,2"])
def test_more_devices_than_there_are(host: Any, devices: Any) -> None:
    host(2)
    for accelerator in ("gpu", "cuda", "auto"):
        with pytest.raises(ValueError, match=r"^trainer.devices is .*GPUs 0 to 1.*devices: 2, or"):
            check_devices(trainer(accelerator, devices))
    check_devices(trainer("cpu", devices))
    host(3)
    check_devices(trainer("gpu", devices))


@pytest.mark.parametrize("devices", ["auto", -1, "-1", 2, [0, 1]])
def test_what_is_there_may_be_asked_for(host: Any, devices: Any) -> None:
    host(2)
    check_devices(trainer("gpu", devices, "bf16-mixed"))


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true"])
def test_a_gpu_without_bfloat16(host: Any, precision: str) -> None:
    host(1, bf16=False)
    with pytest.raises(ValueError, match=rf"^trainer.precision is {precision}, but Tesla T4.*32-"):
        check_devices(trainer("gpu", 1, precision))
    for other in (None, 32, "32-true"):
        check_devices(trainer("gpu", 1, other))


def test_the_command_line_checks(host: Any) -> None:
    host(0)
    model = ["--model=sapo_vl.modules.SFTModule", "--model.policy.path=nowhere"]
    data = ["--data=lightning.pytorch.LightningDataModule"]
    with pytest.raises(ValueError, match=r"trainer.accelerator is gpu"):
        main(["fit", *model, *data, "--trainer.accelerator=gpu"])
