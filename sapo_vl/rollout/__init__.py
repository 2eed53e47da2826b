"""Draw responses from the policy: (policy, batch, sampling, seed) -> Rollout."""

from sapo_vl.rollout.engine import RolloutEngine
from sapo_vl.rollout.sampler import Sampler

__all__ = ["RolloutEngine", "Sampler"]
