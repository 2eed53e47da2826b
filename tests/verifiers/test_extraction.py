from __future__ import annotations

import time

import pytest

from sapo_vl.verifiers.extraction import extract_answer


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"so \boxed{7}.", "7"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{1} then \boxed{2}", "2"),
        (r"\boxed {3}", "3"),
        (r"\fbox{9}", "9"),
        (r"\boxed{\boxed{7}}", "7"),
        (r"\boxed{\left\{1, 2\right\}}", r"\left\{1, 2\right\}"),
        (r"set {1, 2 is open, \boxed{4}", "4"),
        (r"stray } brace \boxed{4}", "4"),
        (r"\boxed{3} and then \boxed{4", "3"),
        (r"\boxed{a \boxed{7}", None),
        (r"\boxed{\frac{1}{2}", None),
        (r"\boxed{}", None),
        (r"\boxed{2} \boxed{}", None),
        (r"\boxed 9", "9"),
        (r"\boxed 9.", "9"),
        (r"\boxed 12", None),
        (r"\boxed 1.5", None),
        (r"\boxed -1", None),
        (r"\boxed{2} so \boxed 9", "9"),
        ("The answer is 7", None),
        ("", None),
    ],
)
def test_the_last_complete_box_counts(response: str, answer: str | None) -> None:
    assert extract_answer(response, "boxed") == answer


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("<answer> B </answer>", "B"),
        ("<answer>\nB\n</answer>", "B"),
        ("<answer>A</answer> no, <answer>B</answer>", "B"),
        ("<answer>A</answer> no, <answer>B", "A"),
        ("<answer>A", None),
        ("A</answer>", None),
        ("<answer></answer>", None),
    ],
)
def test_the_last_complete_answer_tag_counts(response: str, answer: str | None) -> None:
    assert extract_answer(response, "answer_tag") == answer


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("Answer: C", "C"),
        ("**Answer:** C", "C"),
        ("**Answer: D**", "D"),
        ("Answer: A\nAnswer: B\n", "B"),
        ("ANSWER: A ... no, ANSWER: B", "B"),
        ("Final answer:\n\n7\nBye", "7"),
        ("Answer: 7", "7"),
        ("The answer is 7", None),
        ("Answer:", None),
    ],
)
def test_the_last_answer_line_counts(response: str, answer: str | None) -> None:
    assert extract_answer(response, "answer_line") == answer


def test_whole_is_the_stripped_text() -> None:
    assert extract_answer("  7 \n", "whole") == "7"
    assert extract_answer(" \n", "whole") is None


def test_no_form_looks_anywhere_else() -> None:
    response = "Answer: 5\n<answer>6</answer>"
    assert extract_answer(response, "boxed") is None
    assert extract_answer(r"\boxed{5}", "answer_tag") is None
    assert extract_answer(r"\boxed{5}", "answer_line") is None


@pytest.mark.parametrize(
    ("response", "thinking", "answer"),
    [
        (r"<think>\boxed{1}</think> \boxed{2}", False, "2"),
        (r"<think>\boxed{1}</think> \boxed{2}", True, "2"),
        (r"\boxed{1}</think> a </think> \boxed{2}", True, "2"),
        (r"<think>\boxed{1}</think> none", False, None),
        (r"<think> maybe \boxed{1}", False, None),
        (r"\boxed{1}", True, None),
        (r"\boxed{1}", False, "1"),
        (r"a </think> \boxed{1} <think> \boxed{2}", True, None),
    ],
)
def test_reasoning_is_never_graded(response: str, thinking: bool, answer: str | None) -> None:
    assert extract_answer(response, "boxed", thinking) == answer


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(ValueError, match="boxed, answer_tag, answer_line, whole"):
        extract_answer("7", "box")


@pytest.mark.parametrize(
    "piece",
    [r"\boxed{", "{", "}", "<answer>", "</answer>", "answer:", "answer ", r"\boxed{1}", "\\"],
)
@pytest.mark.parametrize("form", ["boxed", "answer_tag", "answer_line"])
def test_long_garbage_is_read_in_linear_time(piece: str, form: str) -> None:
    started = time.monotonic()
    extract_answer(piece * 50_000, form)
    extract_answer(r"\boxed{" * 20_000 + "1" + "}" * 20_000, form)
    assert time.monotonic() - started < 2
