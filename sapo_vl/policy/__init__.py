"""The Hugging Face model behind one class: loading, freezing, prefilling and scoring.

Reading order: config.py, loading.py, lora.py, inputs.py, head.py, policy.py.
"""

from sapo_vl.policy.config import AdapterConfig, PolicyConfig
from sapo_vl.policy.policy import Policy, Scores

__all__ = ["AdapterConfig", "Policy", "PolicyConfig", "Scores"]
