"""The official rules of VisuLogic, We-Math and DynaMath, oddities included.

The values are those of the benchmarks' own code (VisuLogic, DynaMath: as in VLMEvalKit), run once.
"""

from __future__ import annotations

import pytest

from sapo_vl.types import Prompt
from sapo_vl.verifiers.official import DynaMathOfficial, VisuLogicOfficial, WeMathOfficial


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        (r"Answer: \boxed{C}", "C"),
        (r"\boxed{A}, no, \boxed{C}", "C"),
        (r"\boxed{\text{C}}", "C"),
        (r"\boxed{C }", "C"),
        ("C", "C"),
        ("\nC ", "C"),
        ("It must be (C).", "C"),
        ("C\nbecause", "C"),
        ("The correct answer is: C. Not A.", "A"),
        ("The answer is B. The final answer is C", "C"),
        (r"\boxed{(C)}", None),
        (r"\boxed{c}", None),
        (r"\boxed{ C }", None),
        (r"\boxed{\textbf{C}}", None),
        ("C$", None),
        ("It is C", None),
        ("I see nothing.", None),
        ("", None),
    ],
)
def test_visulogic(response: str, letter: str | None) -> None:
    verdict = VisuLogicOfficial()(Prompt(reference="C"), response)
    assert verdict.extracted == letter
    assert verdict.status == ("ok" if letter else "no_answer")
    assert verdict.score == (letter == "C")


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("<Thought process>: <<x>> <Answer>: <<B>>", "B"),
        ("Answer: B. Answer: C", "C"),
        ("Answer: Because", "B"),
        ("A triangle", "A"),
        ("Answer: (B)", None),
        ("Answer: b", None),
        ("Answer:", None),
    ],
)
def test_wemath(response: str, letter: str | None) -> None:
    verdict = WeMathOfficial()(Prompt(reference="B"), response)
    assert (verdict.extracted, verdict.score) == (letter, float(letter == "B"))


@pytest.mark.parametrize(
    ("kind", "reference", "answer", "score"),
    [
        ("float", "2.0944", "2.094", 1),
        ("float", "2.0944", "2.09", 0),
        ("float", "2.0944", "2.0944 units", 1),
        ("float", "3.1416", "1\u03c0", 1),
        ("float", "3.1416", "\u03c0", 0),
        ("float", "2.0944", "about 2.0944", 0),
        ("multiple choice", "B", "b", 1),
        ("multiple choice", "B", "(B)", 1),
        ("multiple choice", "B", "B, the blue one", 0),  # E, A, ... stand in the words
        ("multiple choice", "B", "A or B", 0),
        ("text", "Sep", "in September", 1),
        ("text", "Sep", "Oct", 0),
    ],
)
def test_dynamath(kind: str, reference: str, answer: str, score: float) -> None:
    prompt = Prompt(reference=reference, meta={"answer_type": kind})
    response = f'Sure: {{"solution": "s", "short answer": "{answer}"}}'
    verdict = DynaMathOfficial()(prompt, response)
    assert (verdict.score, verdict.extracted) == (score, answer)


@pytest.mark.parametrize(
    "response",
    ["", "2.0944", '{"answer": "2.0944"}', '{"short answer": ""}', '{"short answer": "2'],
)
def test_dynamath_reads_nothing_but_the_short_answer(response: str) -> None:
    prompt = Prompt(reference="2.0944", meta={"answer_type": "float"})
    verdict = DynaMathOfficial()(prompt, response)
    assert (verdict.score, verdict.status) == (0, "no_answer")


def test_references_that_no_answer_can_equal() -> None:
    assert VisuLogicOfficial().check_reference(Prompt(reference="E"))
    assert WeMathOfficial().check_reference(Prompt(reference="4 cm"))
    assert DynaMathOfficial().check_reference(
        Prompt(reference="two", meta={"answer_type": "float"})
    )
