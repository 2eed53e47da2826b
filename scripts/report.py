"""Write summary.json and report.html of a run: python scripts/report.py RUN_DIR [--seed N]."""

import argparse
import json
from pathlib import Path

from sapo_vl.report import build_report
from sapo_vl.report.load import load_evaluation
from sapo_vl.report.summary import summarize, table


def main() -> None:
    """Sum up, write both files, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="folder with cold_start/, sapo/ and test/")
    parser.add_argument("--seed", type=int, default=0, help="seed of the run")
    parser.add_argument("--seconds", nargs="*", default=[], help="stage=seconds, as measured")
    args = parser.parse_args()

    seconds = {name: float(s) for name, s in (item.split("=") for item in args.seconds)}
    summary = summarize(args.run, seconds, args.seed)
    (args.run / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    tests = {name: args.run / "test" / name for name in ("cold_start", "sapo")}
    report = build_report(
        args.run / "report.html",
        title=args.run.name,
        stages={name: args.run / name for name in ("cold_start", "sapo")},
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
    print(f"summary: {args.run / 'summary.json'}\nreport:  {report}")


if __name__ == "__main__":
    main()
