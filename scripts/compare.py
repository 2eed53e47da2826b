"""Compare tests of the same items, or training runs.

python scripts/compare.py RUN_DIR RUN_DIR ... --out DIR

Folders of sapo-vl test (with a metrics.json) are paired item by item, every one with the first.
Folders of sapo-vl fit (with a metrics.csv) get their curves on one page.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a checkout as well

from sapo_vl.report.compare import compare_folders


def main() -> None:
    """Compare, and say what was written."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+", metavar="RUN_DIR")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--names", nargs="+", help="of the runs; by default their folders")
    args = parser.parse_args()
    try:
        for path in compare_folders(args.folders, args.out, args.names):
            print(path)
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
