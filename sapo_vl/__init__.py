"""sapo_vl: reinforcement learning of vision-language models with SAPO, a soft adaptive gate."""

import logging

__version__ = "0.1.0"

# peft imports bitsandbytes, which warns where a kernel for 4-bit weights on a CPU is missing, even
# where nothing is to be quantized.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
