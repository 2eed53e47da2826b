"""Draw responses from the policy: (policy, batch, sampling, seed) -> Rollout."""

from sapo_vl.rollout.engine import RolloutEngine
from sapo_vl.rollout.sampler import Sampler
from sapo_vl.rollout.vllm_engine import VLLMEngine

__all__ = ["RolloutEngine", "Sampler", "VLLMEngine"]
