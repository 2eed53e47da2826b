"""Counts where an official rule and our training rule disagree on public model answers."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sapo_vl.protocols import Verifier
from sapo_vl.types import Prompt
from sapo_vl.verifiers.choice import ChoiceVerifier
from sapo_vl.verifiers.math import MathVerifier
from sapo_vl.verifiers.number import NumberVerifier
from sapo_vl.verifiers.official.emma import EmmaFast
from sapo_vl.verifiers.official.mathvision import MathVisionOfficial
from sapo_vl.verifiers.official.mathvista import MathVistaOfficial
from sapo_vl.verifiers.text import TextVerifier

LABELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
OUTCOMES = ("both", "official_only", "training_only", "neither")
_MAX_EXAMPLES = 20  # of each outcome

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """One stored model answer, ready for both rules."""

    id: str
    kind: str  # choice, number, free, list
    prompt: Prompt
    response: str
    official: Verifier
    training: Verifier
    stored: bool  # the verdict that the benchmark's own code gave


def read_answers(folder: Path, name: str) -> Iterator[Answer]:
    """Yield the answers of ``<name>.jsonl``: mathvision, mathvista or emma.

    Raises:
        OSError: the file cannot be read.
    """
    with (folder / f"{name}.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            yield _READERS[name](json.loads(line))


def compare(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return counts per kind of question, and the first answers that the rules disagree on.

    ``official_only`` are the official rule's false positives as our rule sees them,
    ``training_only`` its false negatives; ``no_answer`` says in how many of the former our rule
    finds no answer: none in the form it asks for, or one that names no option.
    """
    counts: dict[str, Counter[str]] = {}
    examples: list[dict[str, Any]] = []
    shown: Counter[str] = Counter()
    for answer in answers:
        official = answer.official(answer.prompt, answer.response)
        training = answer.training(answer.prompt, answer.response)
        right = (official.score == 1, training.score == 1)
        outcome = OUTCOMES[{(1, 1): 0, (1, 0): 1, (0, 1): 2, (0, 0): 3}[right]]
        row = counts.setdefault(answer.kind, Counter())
        row[outcome] += 1
        row["no_answer"] += outcome == "official_only" and training.status == "no_answer"
        if right[0] != right[1]:
            # What the two rules make of it, in their own words.
            reasons = {"official": official.reason, "training": training.reason}
            shown[outcome] += 1
            if shown[outcome] > _MAX_EXAMPLES:
                continue
            examples.append({"id": answer.id, "outcome": outcome, **reasons})
    table = {k: {n: row[n] for n in (*OUTCOMES, "no_answer")} for k, row in counts.items()}
    return {"rows": len(answers), "counts": table, "examples": examples}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="compare_rules.py", description=__doc__)
    parser.add_argument("folder", type=Path, help="holds mathvision.jsonl, mathvista.jsonl, ...")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write counts and examples")
    given = parser.parse_args(arguments)
    found = {}
    print(f"{'oracle':<12}{'kind':<8}" + "".join(f"{n:>15}" for n in (*OUTCOMES, "no_answer")))
    for name in _READERS:
        if not (given.folder / f"{name}.jsonl").is_file():
            print(f"{name:<12}not in {given.folder}")
            continue
        found[name] = compare(list(read_answers(given.folder, name)))
        for kind, row in sorted(found[name]["counts"].items()):
            print(f"{name:<12}{kind:<8}" + "".join(f"{count:>15}" for count in row.values()))
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1, ensure_ascii=False), encoding="utf-8")
    return 0 if found else 1


def _options(texts: list[str] | None) -> dict[str, str]:
    return dict(zip(LABELS, texts or [], strict=False))


def _boxed(record: Record, official: Verifier) -> Answer:
    prompt = Prompt(reference=record["answer"], options=_options(record["options"]))
    training: Verifier = ChoiceVerifier() if prompt.options else MathVerifier()
    kind = "choice" if prompt.options else "free"
    stored = record["official_correct"]
    return Answer(record["id"], kind, prompt, record["response"], official, training, stored)


def _mathvista(record: Record) -> Answer:
    meta = {name: record[name] for name in ("answer_type", "precision")}
    options = _options(record["choices"])
    prompt = Prompt(reference=record["answer"], options=options, meta=meta)
    kind = "choice" if options else {"list": "list"}.get(record["answer_type"], "number")
    rules: dict[str, Callable[..., Verifier]] = {"choice": ChoiceVerifier, "number": NumberVerifier}
    training = rules.get(kind, TextVerifier)(form="whole")
    response, stored = record["extraction"], record["official_correct"]
    return Answer(record["id"], kind, prompt, response, MathVistaOfficial(), training, stored)


_READERS: dict[str, Callable[[Record], Answer]] = {
    "mathvision": lambda record: _boxed(record, MathVisionOfficial()),
    "mathvista": _mathvista,
    "emma": lambda record: _boxed(record, EmmaFast()),
}
