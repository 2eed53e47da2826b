#!/usr/bin/env python3
"""Make WebDataset shards from a source, or check the shards in a folder.

scripts/make_shards.py figures --tasks count_colour --split train,val --count 2000 OUT_DIR
scripts/make_shards.py easy_vqa OUT_DIR
scripts/make_shards.py puzzlevqa nlvr --data FOLDER_OF_SETS OUT_DIR
scripts/make_shards.py folder --data mine/samples.jsonl --name mine OUT_DIR
scripts/make_shards.py --check OUT_DIR [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a checkout that isn't installed

from datamodules.shards import check_shards, write_shards
from datamodules.sources.catalogue import SOURCES, Request, shard_sets

SHOWN = 20


def main(argv: list[str] | None = None) -> int:
    """Run the command line; 0: done, 1: problems found or nothing made, 2: wrong arguments."""
    parser = _parser()
    args = parser.parse_intermixed_args(argv)
    if args.check is None and len(args.names) < 2:
        parser.error("name at least one SOURCE and the OUT_DIR, or --check DIR")
    if args.check is not None and args.names:
        parser.error(f"--check takes its folder alone; what are {' '.join(args.names)} for?")
    try:
        return _check(args) if args.check is not None else _make(args)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"make_shards: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = f"sources ({', '.join(SOURCES)}), then the folder to write to"
    parser.add_argument("names", nargs="*", metavar="SOURCE ... OUT_DIR", help=names)
    parser.add_argument(
        "--tasks", type=_words, default=(), help="figures: task,task (default: all)"
    )
    parser.add_argument("--split", type=_words, default=(), help="train,val,test (default: train)")
    parser.add_argument("--count", type=int, help="samples a task and split (figures: 1000)")
    parser.add_argument("--size", type=int, default=64, help="figures: pixels a side (64)")
    parser.add_argument("--seed", type=int, default=0, help="figures: seed of the scenes (0)")
    parser.add_argument(
        "--data", type=Path, help="public sets and folder: JSONL file or its folder"
    )
    parser.add_argument("--name", default="folder", help="folder: name of the shards")
    forms = ("auto", "text", "label")
    parser.add_argument("--answers", choices=forms, default="auto", help="folder: form of a choice")
    parser.add_argument("--max-samples", type=int, default=10_000, help="samples a shard (10000)")
    parser.add_argument("--check", metavar="DIR", help="check all shards of a folder, or a pattern")
    parser.add_argument("--json", type=Path, metavar="FILE", help="with --check: write the report")
    return parser


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _make(args: argparse.Namespace) -> int:
    *sources, out_dir = args.names
    request = Request(
        tasks=args.tasks,
        splits=args.split,
        count=args.count,
        size=args.size,
        seed=args.seed,
        data=args.data,
        name=args.name,
        answers=args.answers,
    )
    for source in sources:
        for name, samples in shard_sets(source, request):
            paths = write_shards(samples, out_dir, name, max_samples=args.max_samples)
            counts = json.loads((Path(out_dir) / f"{name}-shards.json").read_text())["shards"]
            for path in paths:
                print(f"{path}: {counts[path.name]} samples")
    return 0


def _check(args: argparse.Namespace) -> int:
    report = check_shards(args.check)
    for shard in report["shards"]:
        faults = ", ".join(f"{number} {why}" for why, number in shard["counts"].items())
        found = f"{shard['samples']} good samples, {shard['images']} images"
        print(f"{shard['shard']}: {found}; {faults or 'no problem'}")
        _show(shard["problems"])
    for name in report["missing_shards"]:
        print(f"{name}: written once, not there now")
    if args.json is not None:
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    print(f"{report['samples']} good samples, {report['problems']} problems")
    return 0 if report["ok"] else 1


def _show(problems: list[dict[str, Any]]) -> None:
    for problem in problems[:SHOWN]:
        print(f"  {problem['where']}: {problem['why']}: {problem['detail']}")
    if len(problems) > SHOWN:
        print(f"  and {len(problems) - SHOWN} more (all of them: --json FILE)")


if __name__ == "__main__":
    sys.exit(main())
