"""Write the report of a run or of a test.

python scripts/report.py RUN_DIR [--seed N]   a run of cold start, SAPO and two tests: summary.json
                                              and report.html
python scripts/report.py EVAL_DIR             what sapo-vl test wrote: report.html, .json, .md, .csv
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a checkout as well

from sapo_vl.report import build_report
from sapo_vl.report.evaluation import write_evaluation_report
from sapo_vl.report.load import load_evaluation
from sapo_vl.report.summary import summarize, table


def main() -> None:
    """Tell a test's folder from a run's, and report it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="of a run, or of a test")
    parser.add_argument("--seed", type=int, default=0, help="seed of the run")
    parser.add_argument("--seconds", nargs="*", default=[], help="stage=seconds, as measured")
    args = parser.parse_args()
    if not args.folder.is_dir():
        parser.error(f"no folder {args.folder}")
    if (args.folder / "sapo").is_dir() or (args.folder / "cold_start").is_dir():
        report_run(args.folder, args.seed, args.seconds)
        return
    try:
        for path in write_evaluation_report(args.folder):
            print(path)
    except ValueError as error:
        parser.error(str(error))


def report_run(run: Path, seed: int, measured: list[str]) -> None:
    """Sum up, write both files, print the table."""
    seconds = {name: float(s) for name, s in (item.split("=") for item in measured)}
    summary = summarize(run, seconds, seed)
    (run / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    tests = {name: run / "test" / name for name in ("cold_start", "sapo")}
    report = build_report(
        run / "report.html",
        title=run.name,
        stages={name: run / name for name in ("cold_start", "sapo")},
        tests=tests,
        summary=summary,
    )
    print(table(*(load_evaluation(name, folder) for name, folder in tests.items())))
    low, high = summary["accuracy_gain_ci95"]
    print(
        f"\nsampled accuracy (avg@4) {summary['accuracy_cold_start']:.1%} -> "
        f"{summary['accuracy_sapo']:.1%}: {100 * summary['accuracy_gain']:+.1f} points "
        f"(95 % interval {100 * low:+.1f} to {100 * high:+.1f}, {summary['n']} prompts)"
    )
    print(f"summary: {run / 'summary.json'}\nreport:  {report}")


if __name__ == "__main__":
    main()
