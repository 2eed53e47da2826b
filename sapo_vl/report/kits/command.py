"""Score the answers of a test again with the evaluation kits, and compare with our verdicts.

The kits' rules `eval` what a model wrote: run this in a container, or on answers that you trust.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from sapo_vl.report.export import export_lmms_eval, export_vlmevalkit
from sapo_vl.report.kits.lmms_eval import check_lmms_eval
from sapo_vl.report.kits.outcome import HEADER, Outcome
from sapo_vl.report.kits.vlmevalkit import VLMEVALKIT_SETS, check_vlmevalkit

_CheckFiles = Callable[[Path, Mapping[str, Path]], Iterator[Outcome]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0: everything was scored, whether the scores agree or not."""
    parser = argparse.ArgumentParser(prog="check_kits.py", description=__doc__)
    parser.add_argument("folder", type=Path, help="what sapo-vl test wrote")
    parser.add_argument("--vlmevalkit", type=Path, metavar="PATH", help="a checkout of the kit")
    parser.add_argument("--lmms-eval", type=Path, metavar="PATH", help="a checkout of the kit")
    parser.add_argument("--sampling", help="which answers; needed where there are several")
    parser.add_argument("--tsv", action="store_true", help="text in place of spreadsheets")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure")
    given = parser.parse_args(arguments)
    if given.vlmevalkit is None and given.lmms_eval is None:
        parser.error("give --vlmevalkit PATH, --lmms-eval PATH or both")
    outcomes: list[Outcome] = []
    try:
        for outcome in _outcomes(given):
            if not outcomes:
                print(HEADER)
            print(outcome.line(), flush=True)
            outcomes.append(outcome)
    except (ValueError, ImportError) as error:
        parser.error(str(error))
    if given.json is not None:
        text = json.dumps([o.record() for o in outcomes], indent=1, ensure_ascii=False)
        given.json.write_text(text + "\n", encoding="utf-8")
    return 0 if outcomes else 1


def _outcomes(given: argparse.Namespace) -> Iterator[Outcome]:
    """What each kit made of each file, as it is done."""
    with tempfile.TemporaryDirectory() as out:
        for kit, check, files in _exported(given, Path(out)):
            yield from check(kit, files)


def _exported(
    given: argparse.Namespace, out: Path
) -> Iterator[tuple[Path, _CheckFiles, dict[str, Path]]]:
    """A kit, its check, and the exported files by the kit's names."""
    if given.vlmevalkit is not None:
        paths = export_vlmevalkit(
            given.folder, out / "vlmevalkit", sampling=given.sampling, xlsx=not given.tsv
        )
        yield given.vlmevalkit.resolve(), check_vlmevalkit, _named(paths)
    if given.lmms_eval is not None:
        paths = export_lmms_eval(given.folder, out / "lmms_eval", sampling=given.sampling)
        logs = [path for path in paths if path.suffix == ".jsonl"]
        files = {path.stem.removeprefix("samples_"): path for path in logs}
        yield given.lmms_eval.resolve(), check_lmms_eval, files


def _named(tables: Sequence[Path]) -> dict[str, Path]:
    """Tables by the kit's data set, which ends a file's name; of several draws the first."""
    found = {}
    for path in tables:
        for name in VLMEVALKIT_SETS:
            if path.stem.endswith((f"_{name}", f"_{name}_0")):
                found[name] = path
    return found
