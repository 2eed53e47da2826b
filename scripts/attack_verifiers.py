"""Let a policy optimise every reward: attack_verifiers.py [--verdicts N] [--json FILE]."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a checkout as well

from sapo_vl.verifiers.attack.report import main

if __name__ == "__main__":
    sys.exit(main())
