"""Every stored verdict of the benchmarks' own code, against our form of it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sapo_vl.verifiers.official import emma, mathvision_text
from sapo_vl.verifiers.official.compare import Answer, read_answers

ORACLES = Path(__file__).resolve().parents[3].parent / "shared" / "oracles"
ROWS = {"mathvision": 3040, "mathvista": 2000, "emma": 400}
SHARE = 0.995

# id of a row -> why our verdict is not the stored one. There is none at present.
DIFFERENCES: dict[str, dict[str, str]] = {"mathvision": {}, "mathvista": {}, "emma": {}}

names = pytest.mark.parametrize("name", list(ROWS))


def path(name: str) -> Path:
    found = ORACLES / f"{name}.jsonl"
    if not found.is_file():
        pytest.skip(f"the model answers (shared/oracles/{name}.jsonl) are not beside this tree")
    return found


def load(name: str) -> list[Answer]:
    path(name)
    return list(read_answers(ORACLES, name))


def records(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path(name).read_text(encoding="utf-8").splitlines()]


@names
def test_agreement_but_for_the_declared_differences(name: str) -> None:
    answers, wrong, agreed = load(name), {}, 0
    for answer in answers:
        verdict = answer.official(answer.prompt, answer.response)
        same = (verdict.score == 1) == answer.stored
        agreed += same
        if same == (answer.id in DIFFERENCES[name]):
            wrong[answer.id] = "agrees now: take it off the table" if same else verdict.reason
    print(f"{name}: {agreed} of {len(answers)} verdicts agree")
    assert wrong == {}
    assert len(answers) == ROWS[name]
    assert agreed >= SHARE * len(answers)
    assert set(DIFFERENCES[name]) <= {answer.id for answer in answers}


@names
def test_no_row_is_left_without_a_verdict(name: str) -> None:
    answers = load(name)
    status = Counter(a.official(a.prompt, a.response).status for a in answers)
    assert set(status) <= {"ok", "no_answer"}
    assert all(a.official.check_reference(a.prompt) is None for a in answers)


def test_mathvision_extracts_what_the_script_stored() -> None:
    rows = records("mathvision")
    odd = [
        row["id"]
        for row in rows
        if mathvision_text.find_answer(row["response"]) != row["official_extraction"]
    ]
    assert odd == []


def test_emma_extracts_what_the_script_stored() -> None:
    rows = records("emma")
    odd = [
        row["id"] for row in rows if emma.find_answer(row["response"]) != row["official_extraction"]
    ]
    assert odd == []
