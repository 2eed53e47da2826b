from __future__ import annotations

import pytest

from sapo_vl.types import Prompt
from sapo_vl.verifiers import ChoiceVerifier

NUMBERS = {"A": "12", "B": "18", "C": "24", "D": "30"}
TEXTS = {"A": "a red cube", "B": "a blue cube", "C": "a red ball", "D": "a blue ball"}


def score(answer: str, reference: str, options: dict[str, str]) -> float:
    verdict = ChoiceVerifier(form="whole")(Prompt(reference=reference, options=options), answer)
    assert verdict.status in ("ok", "no_answer")
    return verdict.score


@pytest.mark.parametrize(
    "answer",
    [
        "C",
        "c",
        "(C)",
        "[C]",
        "C.",
        "C)",
        "(c).",
        "**C**",
        "`C`",
        "$C$",
        r"\text{C}",
        r"\mathrm{C}",
        r"\textbf{(C) } 24",
        "\uff23",
        "\uff08\uff23\uff09",
        "C: 24",
        "C. 24",
        "C 24".replace(" ", ") "),
        "C. The other options are smaller.",
        "The answer is C.",
        "The correct answer is **C**. Note that A is a common distractor.",
        "So the final answer is (C)",
        "Answer: C",
        "Option C",
        "Antwort: C",
        "答案:C",
        "选 C",
        "24",
        "24.0",
        "The answer is 24.",
    ],
)
def test_these_name_option_c(answer: str) -> None:
    assert score(answer, "C", NUMBERS) == 1
    assert score(answer, "A", NUMBERS) == 0


@pytest.mark.parametrize(
    "answer",
    [
        "A, C",
        "A or C",
        "C or A",
        "ABCD",
        "C. or A.",
        "C: 12",
        "(A) or (C)",
        "(A) too small, (C) fits",
        "25",
        "Can't say",
        "None of the above",
        "Sorry, I can't recognise the image.",
        "12 or 24",
        "CC",
        "x" * 3000,
    ],
)
def test_these_do_not_name_option_c(answer: str) -> None:
    assert score(answer, "C", NUMBERS) == 0


def test_words_are_no_labels() -> None:
    for label in NUMBERS:
        assert score("I think a cube is shown. I am sure.", label, NUMBERS) == 0
        assert score("Don't know", label, NUMBERS) == 0


@pytest.mark.parametrize(
    "answer", ["B, D", "D, B", "BD", "DB", "B and D", "(B), (D)", "B; D", "B D"]
)
def test_several_labels_are_a_set(answer: str) -> None:
    assert score(answer, "B, D", NUMBERS) == 1
    assert score(answer, "BD", NUMBERS) == 1
    assert score(answer, "B", NUMBERS) == 0
    assert score("B", "B, D", NUMBERS) == 0
    assert score("ABCD", "B, D", NUMBERS) == 0


def test_an_option_text_counts_only_where_it_is_unique() -> None:
    assert score("a blue ball", "D", TEXTS) == 1
    assert score("It is the blue ball.", "D", TEXTS) == 1
    assert score("blue", "D", TEXTS) == 0
    assert score("12", "A", {"A": "12", "B": "12.0", "C": "24"}) == 0
    assert score("red", "A", {"A": "Red", "B": "red"}) == 0


def test_labels_win_over_texts_that_look_like_labels() -> None:
    options = dict(zip("ABCDE", "EDCBA", strict=True))
    assert score("E", "E", options) == 1
    assert score("E", "A", options) == 0
    assert score("2", "B", {"A": "1", "B": "2", "C": "3"}) == 1
    assert score("2", "2", {"1": "2", "2": "3"}) == 1
    assert score("2", "1", {"1": "2", "2": "3"}) == 0


def test_a_number_is_no_label_with_a_full_stop() -> None:
    options = {"1": "1.5", "2": "2.5"}
    assert score("1.5", "1", options) == 1
    assert score("2.5", "2", options) == 1
    assert score("1.7", "1", options) == 0


def test_an_option_text_may_begin_with_other_labels() -> None:
    options = {"A": "A and F", "B": "C, D", "C": "A, C", "D": "B, D and F"}
    assert score("(D) B, D and F are turning anticlockwise", "D", options) == 1


def test_options_in_the_image_are_labelled_a_to_j() -> None:
    assert score("(E)", "E", {}) == 1
    assert score("K", "E", {}) == 0


def test_the_reference_may_be_an_option_text() -> None:
    assert score("C", "24", NUMBERS) == 1


@pytest.mark.parametrize(
    ("reference", "options"),
    [
        ("", NUMBERS),
        ("E", NUMBERS),
        ("", {}),
        ("12", {"A": "12", "B": "12"}),
        ("A", {"A": "1", "a": "2"}),
    ],
)
def test_an_unusable_reference_is_named(reference: str, options: dict[str, str]) -> None:
    verifier = ChoiceVerifier(form="whole")
    prompt = Prompt(reference=reference, options=options)
    assert verifier.check_reference(prompt)
    verdict = verifier(prompt, "A")
    assert (verdict.score, verdict.status) == (0, "unparsable_reference")
