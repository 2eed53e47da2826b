"""The Hugging Face model behind one class: loading, freezing, prefilling and scoring.

Reading order: config.py, loading.py, lora.py, inputs.py, head.py, policy.py.
"""

import logging

# peft imports bitsandbytes, which warns where a kernel for 4-bit weights on a CPU is missing, even
# where nothing is to be quantized.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)

from sapo_vl.policy.config import AdapterConfig, PolicyConfig  # noqa: E402
from sapo_vl.policy.policy import Policy, Scores  # noqa: E402

__all__ = ["AdapterConfig", "Policy", "PolicyConfig", "Scores"]
