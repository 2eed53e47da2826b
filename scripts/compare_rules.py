"""Count where official and training rules disagree: compare_rules.py ORACLES [--json FILE]."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a checkout as well

from sapo_vl.verifiers.official.compare import main

if __name__ == "__main__":
    sys.exit(main())
