"""Write the answers of a test in the files of another evaluation kit, to score them again there.

python scripts/export_results.py EVAL_DIR OUT_DIR --to vlmevalkit [--tsv] [--sampling NAME]
python scripts/export_results.py EVAL_DIR OUT_DIR --to lmms-eval [--sampling NAME]
"""

import argparse
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a checkout as well

from sapo_vl.report.export import export_lmms_eval, export_vlmevalkit


def main() -> None:
    """Export, and say what was written."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="what sapo-vl test wrote")
    parser.add_argument("out", type=Path, help="folder to write to")
    parser.add_argument("--to", choices=["vlmevalkit", "lmms-eval"], required=True)
    parser.add_argument("--sampling", help="which answers; needed where there are several")
    parser.add_argument("--tsv", action="store_true", help="text in place of spreadsheets")
    # Spreadsheets, the kit's own form, are the default now; the flag of old does no harm.
    parser.add_argument("--xlsx", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    kits = {
        "vlmevalkit": partial(export_vlmevalkit, xlsx=not args.tsv),
        "lmms-eval": export_lmms_eval,
    }
    try:
        for path in kits[args.to](args.folder, args.out, sampling=args.sampling):
            print(path)
    except (ValueError, ImportError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
