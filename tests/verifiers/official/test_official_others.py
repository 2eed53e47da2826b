"""What the official rules for choices, charts, documents, grids and boxes accept and refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.official import OFFICIAL

ABCD = {"A": "red", "B": "green", "C": r"$\frac{7}{2}$", "D": "blue"}


def judge(name: str, reference: str, response: str, **extra: Any) -> Verdict:
    arguments = extra.pop("arguments", {})
    return OFFICIAL[name](**arguments)(Prompt(reference=reference, **extra), response)


@pytest.mark.parametrize(
    ("response", "extracted"),
    [
        ("(B)", "B"),
        ("It is B because", "B"),
        ("B.", "B"),
        ("(A) no, (B)", "B"),
        ("The correct answer is B . Note that A is not", "A"),
        ("The colour that I can see is green here", "B"),
        ("green", None),  # five words or fewer: texts are not looked for
        (r"\boxed{B}", None),
        ("", None),
    ],
)
def test_mmmu_choice_never_draws(response: str, extracted: str | None) -> None:
    verdict = judge("mmmu_official", "B", response, options=ABCD)
    assert verdict.extracted == extracted
    assert verdict.score == (extracted == "B")
    if extracted is None:
        assert verdict.status == "no_answer"
        assert "random" in verdict.reason


@pytest.mark.parametrize(
    ("reference", "response", "score"),
    [
        ("7", "The result is 7.004", 1),  # two decimals
        ("7", "1 2 3 4 5 6 7 8 9", 1),  # enumerations pass
        ("1024", "so it is 1,024", 1),
        ("0.5", "5e-1", 1),
        ("red", "The car is a Ferrari, so red wine", 1),
        ("red", "blue", 0),
        ("x", "the axis", 0),
        ("7", "", 0),
    ],
)
def test_mmmu_open(reference: str, response: str, score: float) -> None:
    assert judge("mmmu_official", reference, response).score == score


def test_mmmu_pro_reads_after_the_last_answer_mark() -> None:
    response = "Perhaps (A).\nAnswer: B"
    for arguments, score in (({"answer_line": True}, 1), ({}, 0)):
        assert judge("mmmu_official", "B", response, options=ABCD, arguments=arguments).score == (
            score
        )
    assert judge("mmmu_official", "7", "eight", meta={"answers": ["eight"]}).score == 1


@pytest.mark.parametrize(
    ("reference", "response", "score"),
    [
        ("2010", "2008", 1),  # years are numbers
        ("50%", "0.5", 1),
        ("50%", "50", 0),
        ("0", "0.0", 0),
        ("977633", "977,633", 0),
        ("Yes", "yes", 1),
        ("Yes", "Yes.", 0),
        ("100", "105.1", 0),
        ("5", "nan", 0),
    ],
)
def test_chartqa(reference: str, response: str, score: float) -> None:
    assert judge("chartqa_official", reference, response).score == score


@pytest.mark.parametrize(
    ("reference", "response", "score"),
    [("abcx", "abcd", 0.75), ("a", "ab", 0), ("A  b", "a B", 1), ("x", "y" * 100_000, 0)],
)
def test_docvqa(reference: str, response: str, score: float) -> None:
    assert judge("docvqa_anls", reference, response).score == pytest.approx(score)


def test_zebralogic_reads_the_data_sets_form_and_scores_cells() -> None:
    reference = json.dumps(
        {"header": ["House", "Name", "Drink"], "rows": [["1", "Eric", "tea"], ["2", "Bob", "milk"]]}
    )
    houses = {"House 1": {"Name": "eric ", "Drink": "tea"}, "House 2": {"Name": "Bob"}}
    response = json.dumps({"reasoning": "r", "solution": houses})
    verdict = judge("zebralogic", reference, response)
    assert (verdict.score, verdict.parts) == (
        0,
        {"puzzle": 0, "cell": 0.75, "right": 3, "cells": 4},
    )
    # A response without an answer counts all its cells, and an empty cell is a wrong one.
    nothing = judge("zebralogic", reference, "I give up.")
    assert nothing.parts == {"puzzle": 0, "cell": 0, "right": 0, "cells": 4}
    empty = json.dumps({"solution": {"House 1": {"Name": [], "Drink": ""}, "House 2": {}}})
    assert judge("zebralogic", reference, empty).parts["right"] == 0
    assert judge("zebralogic", reference, response, arguments={"metric": "cell"}).score == 0.75
    assert judge("zebralogic", "[]", response).status == "unparsable_reference"
    with pytest.raises(ValueError, match="metric"):
        OFFICIAL["zebralogic"](metric="houses")


def test_refcoco_takes_the_best_box_of_two_scales() -> None:
    meta = {"size": [500, 500]}
    reference = "[50, 100, 100, 100]"
    for box in ("[50,100,150,200]", "[100, 200, 300, 400]", '{"bbox": [50,100,150,200]}'):
        assert judge("refcoco", reference, f"it is {box}", meta=meta).score == 1
    assert judge("refcoco", reference, "[100, 200, 300, 400]").score == 0
    assert judge("refcoco", reference, "nothing").status == "no_answer"
    assert judge("refcoco", "[1, 2, 0, 4]", "[1,2,3,4]").status == "unparsable_reference"


@pytest.mark.parametrize("name", ["mathvision_official", "mmmu_official", "emma_fast"])
def test_only_what_follows_the_reasoning_is_scored(name: str) -> None:
    thinking = {"thinking": True}
    response = "<think>(A) The answer is A</think>(B)"
    assert judge(name, "B", response, options=ABCD, arguments=thinking).score == (
        name != "emma_fast"
    )
    cut = judge(name, "A", "A", options=ABCD, arguments=thinking)
    assert (cut.score, cut.status) == (0, "no_answer")
