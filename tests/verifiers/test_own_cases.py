r"""Our own hard cases, of the kinds that the collected ones are of: what must pass and what not.

Where a choice was open, these are the choices made: a bare list may be answered in any brackets, a
pair or an interval in its own alone; n is not N, but Sunday is sunday; \log has the base 10; i is
the imaginary unit; integrals and sums are no usable references; x=1, y=2 is (1,2).
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sapo_vl.types import Prompt
from sapo_vl.verifiers import TRAINING

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "own_cases.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case['verifier']} {case['reference']} {case['score']:g}"
)
def test_every_answer_scores_as_written(case: dict[str, Any]) -> None:
    verifier = TRAINING[case["verifier"]](form="whole")
    prompt = Prompt(reference=case["reference"], options=case.get("options", {}))
    found = {answer: verifier(prompt, answer) for answer in case["answers"]}
    assert {v.status for v in found.values()} <= {"ok", "no_answer"}
    wrong = {
        a: v.reason for a, v in found.items() if v.score != pytest.approx(case["score"], abs=1e-4)
    }
    assert wrong == {}


def test_the_cases_are_of_every_kind_and_both_ways() -> None:
    right, wrong = Counter(), Counter()
    for case in CASES:
        side = right if case["score"] > 0.5 else wrong
        side[case["verifier"]] += len(case["answers"])
    kinds = set(TRAINING) - {"format"}
    assert set(right) == kinds
    assert set(wrong) == kinds
    assert min(right["math"], wrong["math"], right["choice"], wrong["choice"]) > 50


@pytest.mark.parametrize(
    "reference", [r"\int_0^1 x dx", r"\sum_{k=1}^n k", r"\lim_{x\to 0} x", "nan"]
)
def test_references_that_have_no_value_are_named(reference: str) -> None:
    assert TRAINING["math"]().check_reference(Prompt(reference=reference)) is not None
