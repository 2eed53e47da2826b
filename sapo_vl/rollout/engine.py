"""What every rollout engine promises."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import torch

from sapo_vl.policy import Policy
from sapo_vl.rollout.draws import Seed
from sapo_vl.types import PromptBatch, Rollout, Sampling

# Largest |difference of log-probs| between what samples and what trains that is taken for rounding.
# Half precision: one bf16 step of a logit near 16.
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.25, "float16": 0.05}


@runtime_checkable
class RolloutEngine(Protocol):
    """Draws responses: numbers in its constructor, the policy in its call."""

    def ready(self, policy: Policy, strategy: Any) -> AbstractContextManager[None]:
        """Context in which the engine may be called, as often as each rank likes.

        Every rank has to enter and leave it; no gradient inside, and the policy stays as it is.
        Where one rank fails inside, every rank raises as it leaves (``strategies.together``).
        """
        ...

    def __call__(
        self, policy: Policy, batch: PromptBatch, sampling: Sampling, seed: Seed
    ) -> Rollout:
        """Draw ``sampling.group_size`` responses to every prompt of the batch."""
        ...


def compute_dtype(policy: Policy) -> str:
    """What the policy computes in now: the trainer's precision may have changed it."""
    device = policy.device.type
    if torch.is_autocast_enabled(device):
        return str(torch.get_autocast_dtype(device)).removeprefix("torch.")
    return str(policy.model.lm_head.weight.dtype).removeprefix("torch.")


def tolerance_of(engine: Any, policy: Policy) -> float:
    """Largest difference of log-probs that rounding explains, between an engine and the policy.

    An engine that computes elsewhere says so itself (``VLLMEngine.rounding``), once it is ready.
    """
    if hasattr(engine, "rounding"):
        return float(engine.rounding(policy))
    return TOLERANCE[compute_dtype(policy)]
