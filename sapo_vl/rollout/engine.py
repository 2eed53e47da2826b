"""What every rollout engine promises."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from sapo_vl.policy import Policy
from sapo_vl.rollout.draws import Seed
from sapo_vl.types import PromptBatch, Rollout, Sampling


@runtime_checkable
class RolloutEngine(Protocol):
    """Draws responses: numbers in its constructor, the policy in its call."""

    def __call__(
        self, policy: Policy, batch: PromptBatch, sampling: Sampling, seed: Seed
    ) -> Rollout:
        """Draw ``sampling.group_size`` responses to every prompt of the batch."""
        ...
