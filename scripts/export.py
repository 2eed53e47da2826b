"""Write a checkpoint as a Hugging Face folder: export.py CHECKPOINT OUT_DIR [--adapter]."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a checkout as well

from sapo_vl.export.export import main

if __name__ == "__main__":
    sys.exit(main())
