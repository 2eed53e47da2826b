"""Memory and arithmetic of a run: plan.py --config A.yaml [--config B.yaml ...]."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a checkout as well

from sapo_vl.plan.command import main

if __name__ == "__main__":
    sys.exit(main())
