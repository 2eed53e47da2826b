"""The Hugging Face model behind one class: loading, freezing, prefilling and scoring.

Reading order: config.py, loading.py, inputs.py, head.py, policy.py.
"""

from sapo_vl.policy.config import PolicyConfig
from sapo_vl.policy.policy import Policy, Scores

__all__ = ["Policy", "PolicyConfig", "Scores"]
