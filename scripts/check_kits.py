"""Score the answers of a test again with VLMEvalKit and lmms-eval, and compare the verdicts.

python scripts/check_kits.py EVAL_DIR --vlmevalkit PATH [--json FILE]
python scripts/check_kits.py EVAL_DIR --lmms-eval PATH [--json FILE]
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a checkout as well

from sapo_vl.report.kits import main

if __name__ == "__main__":
    sys.exit(main())
