"""Time and memory of ours against repeated prompts and TRL: bench.py [--quick] --json FILE.

Same random weights, pictures, group size, threads and dtype; interleaved repetitions. Without
further options: P about 313, C=64, G=8 and the large case P about 1300, C=256, G=8.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a checkout as well

from sapo_vl.bench.cases import DEFAULT, LARGE, Case, ModelSpec, grid
from sapo_vl.bench.machine import describe_machine
from sapo_vl.bench.models import build_folder
from sapo_vl.bench.options import add_model_options, chosen_model
from sapo_vl.bench.peer import DIFFERENCES
from sapo_vl.bench.plot import to_svg
from sapo_vl.bench.quiet import quiet_libraries
from sapo_vl.bench.result import CaseResult, summarize
from sapo_vl.bench.suite import SECTIONS, run_case
from sapo_vl.bench.table import summary_line, to_markdown

Task = tuple[Case, tuple[str, ...]]


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the table, write what was asked for."""
    args = _parse(arguments)
    quiet_libraries()
    torch.set_num_threads(args.threads)
    spec = chosen_model(args)
    repetitions = args.repetitions or (3 if args.quick else 5)
    for report in measure(spec, repetitions, tasks(args)):  # a stopped run keeps what it has
        markdown = to_markdown(report)
        _write(args.json, json.dumps(report, indent=2) + "\n")
        if args.table:
            _write(args.table, markdown)
        if args.plot:
            _write(args.plot, to_svg(report))
    print(markdown)
    print(f"How many times better, {DEFAULT.name}:\n{summary_line(report['summary'])}")
    if report["peer"]["missing"]:
        print(f"\nATTENTION: TRL was not measured: {report['peer']['missing']}")


def tasks(args: argparse.Namespace) -> list[Task]:
    """The cases to measure, each with its sections; the grid has updates alone."""
    sections = ("update",) if args.updates else SECTIONS
    if args.case:
        return [(Case(prompt=p, response=c, group=g), sections) for p, c, g in args.case]
    chosen: list[Task] = [(DEFAULT, sections)]
    if not args.quick:
        chosen.append((LARGE, sections))
    if args.grid:
        chosen += [(case, ("update",)) for case in grid()]
    return chosen


def measure(spec: ModelSpec, repetitions: int, chosen: list[Task]) -> Iterator[dict[str, Any]]:
    """Run every case on one model; yields the content of the JSON after every section."""
    machine, results = describe_machine(), []
    with TemporaryDirectory() as folder:
        model, workspace = Path(folder) / "model", Path(folder) / "trl"
        parameters = build_folder(spec, model)
        settings = {**spec.to_json(), "parameters": parameters, "repetitions": repetitions}
        for case, sections in chosen:
            results.append(CaseResult(case))
            for _ in run_case(spec, model, results[-1], repetitions, sections, workspace):
                missing = next((r.peer_missing for r in results if r.peer_missing), None)
                yield {
                    "machine": machine,
                    "settings": settings,
                    "peer": {"missing": missing, "differences": list(DIFFERENCES)},
                    "cases": [result.to_json() for result in results],
                    "summary": summarize(results),
                }


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, help="where to write all figures")
    parser.add_argument("--table", type=Path, help="where to write the Markdown table")
    parser.add_argument("--plot", type=Path, help="where to write bars as SVG")
    parser.add_argument("--quick", action="store_true", help="default case, 3 repetitions")
    parser.add_argument("--grid", action="store_true", help="also updates over P, C and G")
    parser.add_argument("--case", type=int, nargs=3, action="append", metavar=("P", "C", "G"))
    parser.add_argument("--updates", action="store_true", help="updates alone")
    parser.add_argument("--repetitions", type=int, help="5, or 3 with --quick")
    add_model_options(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
