#!/usr/bin/env python3
"""Make WebDataset shards from a source, check the shards in a folder, or filter them by pass rate.

scripts/make_shards.py figures --tasks count_colour --split train,val --count 2000 OUT_DIR
scripts/make_shards.py easy_vqa OUT_DIR
scripts/make_shards.py puzzlevqa nlvr --data FOLDER_OF_SETS OUT_DIR
scripts/make_shards.py folder --data mine/samples.jsonl --name mine --verifier number OUT_DIR
scripts/make_shards.py parquet --data "mine/*.parquet" --name mine --question problem OUT_DIR
scripts/make_shards.py mathvision --data MathVision.tsv --max-pixels 1000000 OUT_DIR
scripts/make_shards.py puzzlevqa --data FOLDER --group-by puzzle --val-share 0.1 OUT_DIR
scripts/make_shards.py --filter runs/test/samples.jsonl --max-pass 0.9 SHARDS OUT_DIR
scripts/make_shards.py --check OUT_DIR [--json FILE] [--contact-sheet FILE.png]

The same command goes on after an interruption.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a checkout that isn't installed

from datamodules.making import Writing, make_shards
from datamodules.recode import Recode
from datamodules.shard_check import check_shards, summary_lines
from datamodules.sources.catalogue import SOURCES, Request, SourceSet, source_sets

SHOWN = 20
FIELDS = ("question", "answer", "options", "images", "id")


def main(argv: list[str] | None = None) -> int:
    """Run the command line.

    Returns:
        0: done, 1: problems found or nothing made, 2: wrong arguments, 130: interrupted.
    """
    parser = _parser()
    args = parser.parse_intermixed_args(argv)
    if args.check is None and len(args.names) < 2:
        parser.error("name at least one SOURCE and the OUT_DIR, or --check DIR")
    if args.check is not None and args.names:
        parser.error(f"--check takes its folder alone; what are {' '.join(args.names)} for?")
    if args.filter and len(args.names) != 2:
        parser.error("--filter takes the folder of shards and the OUT_DIR")
    run = _check if args.check is not None else _filter if args.filter else _make
    try:
        return run(args)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"make_shards: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("make_shards: interrupted; the same command goes on from here", file=sys.stderr)
        return 130  # what a shell expects of Ctrl-C


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = f"sources ({', '.join(SOURCES)}), then the folder to write to"
    parser.add_argument("names", nargs="*", metavar="SOURCE ... OUT_DIR", help=names)
    add = parser.add_argument_group("what to read").add_argument
    add("--tasks", type=_words, default=(), help="figures: task,task (default: all)")
    add("--split", type=_words, default=(), help="train,val,test (default: the source's own)")
    add("--count", type=int, help="samples a task and split (figures: 1000; others: all)")
    add("--size", type=int, default=64, help="figures: pixels a side (64)")
    add("--seed", type=int, default=0, help="of drawn scenes and of --shuffle (0)")
    add("--data", type=Path, help="where a set lies: a file, a folder or a glob in quotes")
    add("--name", default="folder", help="folder, parquet, tsv, conversations: name of the shards")
    forms = ("auto", "text", "label")
    add("--answers", choices=forms, default="auto", help="form of a choice in those four")
    for field in FIELDS:
        add(f"--{field}", metavar="COLUMN", help="in those four (default: found by its name)")
    add("--image-root", type=Path, metavar="DIR", help="what image paths are relative to")
    add = parser.add_argument_group("how to write").add_argument
    add("--max-samples", type=int, default=10_000, help="samples a shard (10000)")
    add("--max-bytes", type=int, default=1_000_000_000, help="bytes a shard (10^9)")
    add("--shuffle", action="store_true", help="write in an order drawn from --seed")
    add("--group-by", default="", metavar="FIELD", help="what variants of one problem share")
    add("--val-share", type=float, default=0.0, help="share of the groups for NAME-val (0)")
    add("--max-side", type=int, help="longest side of an image in pixels")
    add("--max-pixels", type=int, help="width x height of an image")
    add("--format", choices=("png", "jpg", "webp"), help="re-encode images of another format")
    add("--verifier", default="auto", help=_VERIFIER_HELP)
    add("--skip-bad", action="store_true", help="list unusable rows instead of stopping")
    add = parser.add_argument_group("what is there").add_argument
    add("--check", metavar="DIR", help="check all shards of a folder, or a pattern")
    add("--json", type=Path, metavar="FILE", help="with --check: write the report")
    add(
        "--contact-sheet", type=Path, metavar="PNG", help="with --check: write a picture of samples"
    )
    add("--filter", type=Path, nargs=1, action="extend", metavar="JSONL", help=_FILTER_HELP)
    add("--min-pass", type=float, default=1e-6, help="smallest pass rate that stays (above 0)")
    add("--max-pass", type=float, default=1 - 1e-6, help="largest that stays (below 1)")
    add("--unanswered", choices=("keep", "drop"), default="drop", help="samples without answers")
    add("--sampling", default="", help="with --filter: only answers drawn with this sampling")
    return parser


_VERIFIER_HELP = (
    "leave samples out whose reference it can't use: a name of scripts/verify.py --list, a dotted"
    " path to a class, none, or auto (default): the one that suits a public set"
)
_FILTER_HELP = (
    "keep prompts by the answers an evaluation wrote (samples.jsonl; may be given several times)"
)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _make(args: argparse.Namespace) -> int:
    *sources, out_dir = args.names
    recode = Recode(max_side=args.max_side, max_pixels=args.max_pixels, format=args.format)
    writing = Writing(
        max_samples=args.max_samples,
        max_bytes=args.max_bytes,
        shuffle=args.shuffle,
        seed=args.seed,
        group_by=args.group_by,
        val_share=args.val_share,
        recode=recode,
        skip_bad=args.skip_bad,
    )
    request = Request(
        tasks=args.tasks,
        splits=args.split,
        count=args.count,
        size=args.size,
        seed=args.seed,
        data=args.data,
        name=args.name,
        answers=args.answers,
        columns=tuple((x, getattr(args, x)) for x in FIELDS if getattr(args, x) is not None),
        image_root=args.image_root,
        known_format=not recode.changes,
    )
    for source in sources:
        for one in source_sets(source, request):
            _make_set(one, out_dir, writing, args.verifier)
    return 0


def _make_set(source: SourceSet, out_dir: str, writing: Writing, verifier: str) -> None:
    name, rule = _resolve(verifier, source)
    with _progress(f"{source.name}-{source.split}") as progress:
        made = make_shards(
            source, out_dir, writing, verifier=rule, verifier_name=name, progress=progress
        )
    for one in made:
        there = "" if one.again else " (there already, hash verified)"
        for path in one.paths:
            print(f"{path}: {one.manifest['shards'][path.name]['samples']} samples{there}")
    refused = made[0].manifest["refused"]
    if refused["count"]:
        why = ", ".join(f"{number} {why}" for why, number in refused["why"].items())
        print(f"left out, and listed in the manifest: {why}")
        _show(refused["listed"])


def _resolve(name: str, source: SourceSet) -> tuple[str, Any]:
    """Give a verifier by its promised name or dotted path, and what the manifest calls it."""
    if name == "none" or (name == "auto" and not source.described.verifier):
        return "", None
    # Imported here: a parser of formulas is nothing that drawing figures should wait for.
    from sapo_vl.verifiers import VERIFIERS, ChoiceVerifier

    if name == "auto":
        name = source.described.verifier
        return (
            (name, _ByOptions(VERIFIERS[name](), ChoiceVerifier()))
            if name in VERIFIERS
            else ("", None)
        )
    if name in VERIFIERS:
        rule: Any = VERIFIERS[name]()
    elif "." in name:
        module, _, attribute = name.rpartition(".")
        try:
            rule = getattr(importlib.import_module(module), attribute)()
        except (ImportError, AttributeError, TypeError) as error:
            raise ValueError(f"--verifier {name} can't be made: {error}") from None
    else:
        raise ValueError(
            f"no verifier is called {name!r}; there are {', '.join(VERIFIERS)}, none, or a dotted"
            " path to a class"
        )
    if not hasattr(rule, "check_reference"):
        raise ValueError(f"--verifier {name} has no check_reference, so it can't check any")
    return name, rule


class _ByOptions:
    """Checks a reference as a choice where there are options, else by the rule of the set."""

    def __init__(self, rule: Any, choice: Any) -> None:
        self._rule, self._choice = rule, choice

    def check_reference(self, prompt: Any) -> str | None:
        return (self._choice if prompt.options else self._rule).check_reference(prompt)


def _filter(args: argparse.Namespace) -> int:
    from datamodules.filtering import PassFilter, filter_shards

    rule = PassFilter(
        min_pass=args.min_pass,
        max_pass=args.max_pass,
        unanswered=args.unanswered,
        sampling=args.sampling,
    )
    shards, out_dir = args.names
    report = filter_shards(
        shards,
        args.filter,
        out_dir,
        rule,
        max_samples=args.max_samples,
        max_bytes=args.max_bytes,
    )
    for made in report["sets"]:
        dropped = ", ".join(f"{number} {why}" for why, number in made["filter"]["dropped"].items())
        print(f"{made['name']}: {made['samples']} samples stay; dropped: {dropped or 'none'}")
    for name, dropped in report["empty"].items():
        print(f"{name}: no sample stays, so it is not written; dropped: {dropped}")
    if report["unanswered_kept"]:
        print(f"{report['unanswered_kept']} samples without answers stay")
    if report["unmatched_answers"]:
        print(f"{report['unmatched_answers']} answered samples are in no shard of {shards}")
    return 0


def _check(args: argparse.Namespace) -> int:
    with _progress(f"checking {args.check}") as progress:
        report = check_shards(args.check, progress=progress)
    for shard in report["shards"]:
        faults = ", ".join(f"{number} {why}" for why, number in shard["counts"].items())
        found = f"{shard['samples']} good samples, {shard['images']} images"
        found += f", {shard['videos']} videos" if shard["videos"] else ""
        print(f"{shard['shard']}: {found}, hash {shard['hash']}; {faults or 'no problem'}")
        _show(shard["problems"])
    for name in report["missing_shards"]:
        print(f"{name}: written once, not there now")
    print("\n".join(summary_lines(report["summary"])))
    if report["evaluation_only"]:
        print(f"for evaluation only: {', '.join(report['evaluation_only'])}")
    if args.json is not None:
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    if args.contact_sheet is not None:
        from datamodules.contact_sheet import contact_sheet

        shown = contact_sheet(args.check, args.contact_sheet)
        print(f"{args.contact_sheet}: a picture of {shown} samples")
    print(f"{report['samples']} good samples, {report['problems']} problems")
    return 0 if report["ok"] else 1


def _show(problems: list[dict[str, Any]]) -> None:
    for problem in problems[:SHOWN]:
        print(f"  {problem['where']}: {problem['why']}: {problem['detail']}")
    if len(problems) > SHOWN:
        print(f"  and {len(problems) - SHOWN} more (all of them: --json FILE, or the manifest)")


@contextmanager
def _progress(title: str) -> Iterator[Callable[[int], None] | None]:
    """Show a running count on a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description} {task.completed}"))
    with Progress(
        *columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done: bar.update(task, completed=done)


if __name__ == "__main__":
    sys.exit(main())
