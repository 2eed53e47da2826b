"""Weights that ZeRO-3 has split over ranks, whole again: some to be read, or all to go on with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


@contextmanager
def gathered(parameters: Sequence[Any]) -> Iterator[None]:
    """Context in which these parameters are whole on every rank; every rank enters and leaves it.

    For reading: no gradient, and what is written to them is lost. Parameters that are whole
    already, under any strategy but FSDP2, are left alone; FSDP2's are not made whole here.
    """
    status = [getattr(p, "ds_status", None) for p in parameters]
    split = [p for p, s in zip(parameters, status, strict=True) if s and s.name == "NOT_AVAILABLE"]
    if not split:
        yield
        return
    import deepspeed

    # Tensors made in inference mode could not be trained on afterwards.
    with torch.inference_mode(False), torch.no_grad(), deepspeed.zero.GatheredParameters(split):
        yield


@contextmanager
def all_gathered(engine: Any) -> Iterator[None]:
    """All weights of DeepSpeed's engine whole on every rank, which may then go different ways."""
    import deepspeed

    parameters = list(engine.module.parameters())
    # Tensors made in inference mode could not be trained on afterwards. Leaving that mode turns
    # gradients on, whatever was said outside.
    with (
        torch.inference_mode(False),
        torch.no_grad(),
        deepspeed.zero.GatheredParameters(parameters),
    ):
        # Gathering is not enough: the hooks that fetch and release weights talk to the other
        # ranks, which may be done with their responses by now.
        _remove_hooks(offload_of(engine), parameters)
        try:
            yield
        finally:
            _restore_hooks(offload_of(engine))


def offload_of(engine: Any) -> Any:
    """What holds ZeRO-3's hooks: part of the optimizer in training, in its place otherwise."""
    return getattr(engine.optimizer, "parameter_offload", engine.optimizer)


def _remove_hooks(offload: Any, parameters: list[nn.Parameter]) -> None:
    for parameter in parameters:
        parameter.ds_active_sub_modules.clear()  # type: ignore[attr-defined]
    for hook in (*offload.forward_hooks, *offload.backward_hooks, offload.fwd_pre_hook):
        hook.remove()
    offload.forward_hooks, offload.backward_hooks = [], []


def _restore_hooks(offload: Any) -> None:
    coordinator = offload.get_param_coordinator()
    offload.fwd_pre_hook = offload.module.register_forward_pre_hook(
        lambda *_: coordinator.reset_step()
    )
    offload._register_deepspeed_module(offload.module)  # forgets the trace of modules, too
