"""Scores a JSONL file of responses with one verifier: what ``scripts/verify.py`` runs."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sapo_vl.protocols import Verifier
from sapo_vl.types import Verdict
from sapo_vl.verifiers import FORMS, VERIFIERS, VerifierPool
from sapo_vl.verifiers.records import as_prompt, read_records
from sapo_vl.verifiers.sandbox import SandboxError

_LINES = """\
a line of IN.jsonl is an object with
  id          any value; it comes back
  response    the model's whole text
  reference   the right answer: a text, a number, a list of texts of which each is right, or
              JSON (a box, a grid, tests of code)
and, where the verifier reads them,
  options     for choices: {"A": text, ...} or [text, ...], then labelled A, B, C, ...
  answers     more references of text, anls, docvqa_anls: a list of texts
  size        of the picture, [width, height] in pixels: box, point, refcoco with pixels
  original_size   of the picture that a reference in pixels belongs to, if it is another
  answer_type, precision   of MathVista's questions: mathvista_official
  tests       of code: {"inputs": [...], "outputs": [...], "fn_name": name or null};
              LiveCodeBench's public_test_cases, private_test_cases, metadata do as well
a line of OUT.jsonl is {"id", "score" in [0, 1], "extracted", "status", "reason"}; status is one of
ok, no_answer, unparsable_reference, timeout, error. A line that cannot be read ends the command
with status 1, names the file and the line, and leaves OUT.jsonl as it was.
"""
_CHUNK = 2000  # records judged at once; more would only fill the memory


def verify_file(
    verifier: Verifier, source: Path, target: Path, pool: VerifierPool | None = None
) -> int:
    """Score every line of ``source`` into ``target`` and return the number of lines.

    A line in is ``{id, response, reference, options?, ...}``, a line out ``{id, score, extracted,
    status, reason}``. ``options`` maps labels to texts or is a list, labelled A, B, ...;
    whatever else a line holds reaches the verifier as ``prompt.meta``. Blank lines are passed over.
    ``target`` is replaced as a whole at the end, so it is never half written.

    Args:
        verifier: judges every line.
        source: the file to read.
        target: the file to write.
        pool: worker processes with limits; None: this process, without limits.

    Raises:
        ValueError: a line is no JSON object or lacks a field; says the file and the line.
        OSError: a file cannot be read or written.
        RuntimeError: the pool cannot start its workers.
    """
    pool = VerifierPool(workers=0) if pool is None else pool
    # Beside the target: a rename does not cross file systems.
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            count, records = 0, read_records(source)
            while chunk := list(itertools.islice(records, _CHUNK)):
                pairs = [(replace(as_prompt(r), verifier=verifier), r["response"]) for r in chunk]
                for record, verdict in zip(chunk, pool.judge(pairs), strict=True):
                    out.write(json.dumps(_line(record, verdict)) + "\n")
                count += len(chunk)
        # mkstemp makes private files; the result gets the permissions of any new file.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status, 1 where the input is at fault."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.list:
        print("\n".join(VERIFIERS))
        return 0
    if given.verifier is None or given.source is None or given.target is None:
        parser.error("give --verifier NAME IN.jsonl OUT.jsonl, or --list")
    try:
        verifier = _build(given)
        pool = VerifierPool(given.workers, given.seconds, given.memory)
    except (TypeError, ValueError) as error:
        parser.error(str(error))
    try:
        with pool:
            count = verify_file(verifier, given.source, given.target, pool)
    except (ValueError, OSError, SandboxError) as error:
        print(f"verify: {error}", file=sys.stderr)
        return 1
    print(f"verify: {count} responses scored by {given.verifier} -> {given.target}")
    return 0


def _build(given: argparse.Namespace) -> Verifier:
    kind = VERIFIERS[given.verifier]
    options = {"form": given.form, "thinking": given.thinking or None}
    options = {name: value for name, value in options.items() if value is not None}
    for setting in given.set:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"--set {setting}: give NAME=VALUE")
        options[name] = _value(value)
    known = set(inspect.signature(kind).parameters)
    unknown = set(options) - known
    if unknown:
        raise ValueError(
            f"{given.verifier} has no {', '.join(sorted(unknown))}; it has "
            f"{', '.join(sorted(known)) or 'no options'}"
        )
    verifier: Verifier = kind(**options)
    return verifier


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _line(record: dict[str, Any], verdict: Verdict) -> dict[str, Any]:
    return {
        "id": record["id"],
        "score": verdict.score,
        "extracted": verdict.extracted,
        "status": verdict.status,
        "reason": verdict.reason,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="verify.py",
        description="Scores a JSONL file of responses with one verifier.",
        epilog=_LINES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "source", metavar="IN.jsonl", type=Path, nargs="?", help="responses, one a line: see below"
    )
    parser.add_argument(
        "target", metavar="OUT.jsonl", type=Path, nargs="?", help="verdicts, in the same order"
    )
    parser.add_argument("--verifier", metavar="NAME", choices=list(VERIFIERS), help="see --list")
    parser.add_argument(
        "--form", choices=FORMS, help="where a response holds its answer; default: the verifier's"
    )
    parser.add_argument(
        "--thinking", action="store_true", help="no answer without a closing </think>"
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="another constructor argument of the verifier, such as coords=pixels; repeatable",
    )
    parser.add_argument(
        "--workers", type=int, default=0, help="worker processes; 0 (default): in this one"
    )
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="limit of one verdict, with --workers"
    )
    parser.add_argument(
        "--memory", type=int, default=2048, help="MiB of one verdict, with --workers"
    )
    parser.add_argument("--list", action="store_true", help="name the verifiers")
    return parser
