"""MathArena's and PuzzleVQA's rules against what the originals say of the same responses."""

from __future__ import annotations

import pytest

from sapo_vl.types import Prompt
from sapo_vl.verifiers.official import MathArenaOfficial, PuzzleVQAOfficial

# (reference, response, verdict): extract_answer and check_answers of
# github.com/eth-sri/matharena (e927660), run once with strict_parsing off, as for AIME and HMMT.
MATHARENA = [
    ("70", "\\boxed{70}", 1),
    ("70", "So \\boxed{70}.", 1),
    ("70", "\\boxed{71}", 0),
    ("70", "\\boxed{ 70 }", 1),
    ("70", "\\boxed{070}", 1),
    ("70", "\\boxed{70.0}", 1),
    ("70", "\\boxed{70.5}", 0),
    ("70", "\\boxed{7_0}", 1),
    ("70", "\\boxed{1} and \\boxed{70}", 1),
    ("70", "\\boxed{70} or \\boxed{71}", 0),
    ("70", "\\fbox{70}", 1),
    ("70", "boxed{70}", 1),
    ("70", "The answer is 70.", 1),
    ("70", "The answer is 70", 1),
    ("70", "70 of 71", 0),
    ("70", "It is 7 0", 0),
    ("70", "nothing", 0),
    ("70", "\\boxed{}", 0),
    ("70", "\\boxed{}. So 70", 0),
    ("70", "\\boxed{x=70}", 1),
    ("70", "\\boxed{n = 70 = 70}", 1),
    ("70", "\\boxed{70^\\circ}", 1),
    ("70", "\\boxed{70^{\\circ}}", 1),
    ("70", "\\boxed{70\\text{ apples}}", 1),
    ("70", "\\boxed{\\text{70}}", 0),
    ("70", "\\boxed{70 \\text{ cm}}", 1),
    ("70", "\\boxed{70 cm}", 1),
    ("70", "\\boxed{\\frac{140}{2}}", 1),
    ("70", "\\boxed{140/2}", 1),
    ("70", "\\boxed{\\dfrac{140}{2}}", 1),
    ("70", "\\boxed{2 \\cdot 35}", 1),
    ("70", "\\boxed{7 \\times 10}", 1),
    ("70", "\\boxed{69+1}", 1),
    ("70", "\\boxed{70 \\approx 70.1}", 1),
    ("70", "\\boxed{69.9 \\approx 70}", 0),
    ("70", "\\boxed{(70)}", 1),
    ("70", "\\boxed{[70]}", 1),
    ("70", "\\boxed{\\{70\\}}", 1),
    ("70", "\\boxed{70, 71}", 0),
    ("70", "\\boxed{70,71}", 0),
    ("70", "\\boxed{70, 70}", 0),
    ("70", "\\boxed{$70$}", 1),
    ("70", "\\boxed{70.}", 1),
    ("70", "\\boxed{70\\,}", 1),
    ("70", "\\boxed{\\mathrm{70}}", 1),
    ("70", "\\boxed{\\boxed{70}}", 1),
    ("70", "\\boxed{7.0e1}", 1),
    ("70", "\\boxed{-70}", 0),
    ("70", "\\boxed{|-70|}", 1),
    ("70", "\\boxed{\\sqrt{4900}}", 1),
    ("70", "\\boxed{70\\%}", 1),
    ("70", "\\boxed{**70**}", 1),
    ("70", "\\boxed{70 or 71}", 1),
    ("70", "\\boxed{\n70\n}", 1),
    ("70", "\\boxed{seventy}", 0),
    ("70", "\\boxed{70", 1),
    ("70", "\\boxed{A=\\{70\\}}", 1),
    ("70", "\\boxed{70\\pi/\\pi}", 1),
    ("70", "\\boxed{\\left(70\\right)}", 1),
    ("70", "\\boxed{\uff17\uff10}", 1),
    ("70", "\\boxed{70}}", 1),
    ("70", "\\boxed{\\{70}", 1),
    ("70", "70 \\boxed{seventy}", 0),
    ("70", "\\boxed{70\\quad}", 1),
    ("70", "\\boxed{m+n=70}", 1),
    ("70", "\\boxed{+70}", 1),
    ("70", "\\boxed{\\displaystyle 70}", 1),
    ("70", "\\boxed{\\dfrac{x}{y}=70}", 1),
    ("70", "Answer: 70\\n", 1),
    ("70", "", 0),
    ("70", "\\boxed{8!/576}", 1),
    ("70", "\\boxed{70\\ }", 1),
    ("70", "\\boxed{\\textbf{70}}", 1),
    ("70", "\\boxed{\\mathbf{70}}", 1),
    ("70", "\\boxed{70\\text{ (since }x=3)}", 0),
    ("70", "\\boxed{70 - }", 1),
    ("70", "\\boxed{0x46}", 0),
    ("1000", "\\boxed{1,000}", 1),
    ("1000", "\\boxed{1{,}000}", 1),
    ("1000", "\\boxed{1\\,000}", 1),
    ("1000", "\\boxed{1 000}", 0),
    ("33", "\\boxed{033}", 1),
    ("25", "\\boxed{25.00000000001}", 1),
    ("25", "\\boxed{25.000000001}", 0),
]


@pytest.mark.parametrize(("reference", "response", "verdict"), MATHARENA)
def test_matharena_says_what_the_original_says(reference: str, response: str, verdict: int) -> None:
    assert MathArenaOfficial()(Prompt(reference=reference), response).score == verdict


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        (r"\frac{1}{576}", r"\frac1{576}"),
        (r"2^{25} \cdot 26!", r"2^{25}\cdot 26!"),
        (r"1-\frac{2}{\pi}", r"\frac{\pi-2}{\pi}"),
        (r"\frac{9 \sqrt{23}}{23}", r"9/\sqrt{23}"),
        (r"-\frac{1}{2}", "-0.5"),
        ("1, 2", r"2 \text{ and } 1"),
        ("1, 2", "2;1"),
    ],
)
def test_matharena_reads_numbers_of_any_form(reference: str, answer: str) -> None:
    rule = MathArenaOfficial()
    assert rule(Prompt(reference=reference), rf"\boxed{{{answer}}}").score == 1
    assert rule(Prompt(reference=reference), r"\boxed{3}").score == 0


def test_matharena_where_we_part_from_the_original() -> None:
    rule = MathArenaOfficial()
    assert rule(Prompt(reference="0"), r"\boxed{0}").score == 1  # there 0 is equal to nothing
    assert rule(Prompt(reference="70"), r"\boxed{\binom{70}{1}}").score == 0  # there a number
    assert rule(Prompt(reference="x^2"), r"\boxed{x^2}").status == "unparsable_reference"


def test_matharena_reads_only_what_follows_the_reasoning() -> None:
    rule, prompt = MathArenaOfficial(thinking=True), Prompt(reference="70")
    assert rule(prompt, r"<think>\boxed{71}</think>\boxed{70}").score == 1
    assert rule(prompt, r"<think>\boxed{70}").status == "no_answer"


SIZES = {"A": "small", "B": "large", "C": "medium"}


@pytest.mark.parametrize(
    ("response", "score"),
    [
        ("The answer is (B).", 1),
        ("(A) is wrong, so (B)", 1),
        ("(B) is right, (A) is not", 0),  # the last one counts
        ("It must be B", 1),
        ("Because of the pattern, large", 1),  # the B of "Because"
        ("so it is large", None),
        ("(D)", 0),  # beyond the options: the first one
    ],
)
def test_puzzlevqa_takes_the_last_letter(response: str, score: float | None) -> None:
    verdict = PuzzleVQAOfficial()(Prompt(reference="B", options=SIZES), response)
    assert verdict.score == (score or 0)
    assert verdict.status == ("no_answer" if score is None else "ok")


def test_puzzlevqa_takes_a_letter_beyond_the_options_for_the_first() -> None:
    rule = PuzzleVQAOfficial()
    assert rule(Prompt(reference="A", options=SIZES), "(D)").score == 1
    twins = {"A": "6", "B": "6", "C": "7"}  # options are compared by their text
    assert rule(Prompt(reference="A", options=twins), "(B)").score == 1
    assert rule(Prompt(reference="large", options=SIZES), "(B)").status == "unparsable_reference"
