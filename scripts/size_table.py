"""Write docs/sizes.md from the plans of configs/model: python scripts/size_table.py."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a checkout as well

from sapo_vl.plan.sizes import page

ROOT = Path(__file__).resolve().parents[1]

if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    target = ROOT / "docs" / "sizes.md"
    text = page(sorted((ROOT / "configs" / "model").glob("*.yaml")))
    target.write_text(text, encoding="utf-8")
    print(target.relative_to(ROOT))
