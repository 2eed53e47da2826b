"""Compare a model folder with a vLLM server that serves it: check_vllm.py FOLDER [--url URL]."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a checkout as well

from sapo_vl.rollout.vllm_check import main

if __name__ == "__main__":
    sys.exit(main())
