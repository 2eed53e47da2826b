"""Score a JSONL file of responses: verify.py --verifier NAME IN.jsonl OUT.jsonl [--workers N]."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a checkout as well

from sapo_vl.verifiers.batch import main

if __name__ == "__main__":
    sys.exit(main())
