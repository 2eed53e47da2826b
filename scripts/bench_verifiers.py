"""Measure the verifiers: bench_verifiers.py [--answers N] [--workers N] [--json FILE]."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a checkout as well

from sapo_vl.verifiers.bench import main

if __name__ == "__main__":
    sys.exit(main())
