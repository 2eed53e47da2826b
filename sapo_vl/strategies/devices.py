"""Refuse at the start a run that asks for GPUs that this host lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

GPU = ("gpu", "cuda")


def check_devices(trainer: Mapping[str, Any]) -> None:
    """Check ``accelerator``, ``devices`` and ``precision`` of a trainer against this host.

    Raises:
        ValueError: it has no GPU, fewer than asked for, or one that cannot compute in bfloat16.
    """
    accelerator, precision = trainer["accelerator"], str(trainer["precision"] or "")
    there = torch.cuda.device_count()
    if accelerator in GPU and not there and not torch.backends.mps.is_available():
        raise ValueError(
            f"trainer.accelerator is {accelerator}, but PyTorch finds no GPU on this host. Set "
            "trainer.accelerator: cpu, or look at nvidia-smi and at "
            "python -c 'import torch; print(torch.version.cuda)'"
        )
    if accelerator not in (*GPU, "auto") or not there:
        return
    asked = _asked(trainer["devices"])
    if asked > there:
        raise ValueError(
            f"trainer.devices is {trainer['devices']}, but this host has GPUs 0 to {there - 1}. "
            f"Set trainer.devices: {there}, or auto (torchrun --nproc-per-node {there})"
        )
    if precision.startswith("bf16") and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise ValueError(
            f"trainer.precision is {precision}, but {torch.cuda.get_device_name()} does not "
            "compute in bfloat16 (Ampere and newer do). Set trainer.precision: 32-true"
        )


def _asked(devices: Any) -> int:
    """GPUs that have to be there; 0: as many as there are."""
    if isinstance(devices, str) and "," in devices:
        devices = [int(index) for index in devices.split(",") if index.strip()]
    if isinstance(devices, list):
        return max(devices, default=-1) + 1
    return 0 if devices == "auto" else max(0, int(devices))
