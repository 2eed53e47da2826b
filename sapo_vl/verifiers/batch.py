"""Scores a JSONL file of responses with one verifier: what ``scripts/verify.py`` runs."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sapo_vl.types import Prompt, Verdict, Verifier
from sapo_vl.verifiers import FORMS, VERIFIERS

_LABELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def verify_file(verifier: Verifier, source: Path, target: Path) -> int:
    """Score every line of ``source`` into ``target`` and return the number of lines.

    A line in is ``{id, response, reference, options?, ...}``, a line out ``{id, score, extracted,
    status, reason}``. ``options`` maps labels to texts or is a list, labelled A, B, ...; whatever
    else a line holds reaches the verifier as ``prompt.meta``. Blank lines are passed over.
    ``target`` is replaced as a whole at the end, so it is never half written.

    Raises:
        ValueError: a line is no JSON object or lacks a field; says the file and the line.
        OSError: a file cannot be read or written.
    """
    # Beside the target: a rename does not cross file systems.
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            count = 0
            for record in read_records(source):
                out.write(json.dumps(judge(verifier, record)) + "\n")
                count += 1
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


def read_records(source: Path) -> Iterator[dict[str, Any]]:
    """Yield the checked records of a JSONL file.

    Raises:
        ValueError: a line is no JSON object or lacks a field; says the file and the line.
    """
    with source.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                _check(record)
            # RecursionError: thousands of nested brackets.
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{source}, line {number}: {error}") from error
            yield record


def judge(verifier: Verifier, record: dict[str, Any]) -> dict[str, Any]:
    """Return the line out for one checked record; a verifier that raises scores 0 as "error"."""
    try:
        verdict = verifier(as_prompt(record), record["response"])
    # One odd response must not cost the verdicts of all others.
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        verdict = Verdict(score=0.0, status="error", reason=reason)
    return {
        "id": record["id"],
        "score": verdict.score,
        "extracted": verdict.extracted,
        "status": verdict.status,
        "reason": verdict.reason,
    }


def as_prompt(record: dict[str, Any]) -> Prompt:
    """Return the prompt of a checked record: its reference, its options and the rest as meta."""
    options = record.get("options") or {}
    if isinstance(options, list):
        options = dict(zip(_LABELS, options, strict=False))
    known = ("id", "response", "reference", "options")
    return Prompt(
        key=str(record["id"]),
        reference=str(record["reference"]),
        options={label: str(text) for label, text in options.items()},
        meta={name: value for name, value in record.items() if name not in known},
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status, 1 where the input is at fault."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.list:
        print("\n".join(VERIFIERS))
        return 0
    if given.verifier is None or given.source is None or given.target is None:
        parser.error("give --verifier NAME IN.jsonl OUT.jsonl, or --list")
    verifier = VERIFIERS[given.verifier](form=given.form, thinking=given.thinking)
    try:
        count = verify_file(verifier, given.source, given.target)
    except (ValueError, OSError) as error:
        print(f"verify: {error}", file=sys.stderr)
        return 1
    print(f"verify: {count} responses scored by {given.verifier} -> {given.target}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="verify.py", description=__doc__)
    parser.add_argument("source", metavar="IN.jsonl", type=Path, nargs="?")
    parser.add_argument("target", metavar="OUT.jsonl", type=Path, nargs="?")
    parser.add_argument("--verifier", metavar="NAME", choices=list(VERIFIERS), help="see --list")
    parser.add_argument(
        "--form", choices=FORMS, default="boxed", help="where a response holds its answer"
    )
    parser.add_argument(
        "--thinking", action="store_true", help="no answer without a closing </think>"
    )
    parser.add_argument("--list", action="store_true", help="name the verifiers")
    return parser


def _check(record: Any) -> None:
    if not isinstance(record, dict):
        raise ValueError(f"holds {type(record).__name__}, not an object")
    missing = [name for name in ("id", "response", "reference") if name not in record]
    if missing:
        raise ValueError(f"lacks {', '.join(missing)}")
    if not isinstance(record["response"], str):
        raise ValueError("response must be a string")
    if not isinstance(record["reference"], str | int | float):
        raise ValueError("reference must be a string or a number")
    options = record.get("options")
    if not isinstance(options, dict | list | None):
        raise ValueError("options must map labels to texts or be a list")
    if isinstance(options, list) and len(options) > len(_LABELS):
        raise ValueError(f"options has {len(options)} entries, over {len(_LABELS)}")
