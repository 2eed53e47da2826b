from __future__ import annotations

import pickle
from typing import Any

import pytest
from jsonargparse import ArgumentParser

from sapo_vl.protocols import Verifier
from sapo_vl.types import Prompt
from sapo_vl.verifiers import (
    BoxVerifier,
    CombinedVerifier,
    FormatVerifier,
    LanguagePenalty,
    MathVerifier,
    NumberVerifier,
    OverlongPenalty,
    RepetitionPenalty,
    TextVerifier,
)

PROMPT = Prompt(reference="3", meta={"question": "How many apples are on the table?"})
CHINESE = "桌子上一共有三个苹果和两个梨。"


def test_weights_are_a_mean_and_gates_multiply() -> None:
    verifier = CombinedVerifier(
        {"number": NumberVerifier(), "text": TextVerifier(), "shape": FormatVerifier()},
        weights={"number": 3.0},
        gates=["shape"],
    )
    verdict = verifier(PROMPT, r"<think>a</think> \boxed{3.0}")
    assert (verdict.score, verdict.extracted, verdict.status) == (0.75, "3.0", "ok")
    assert verdict.parts == {"number": 1, "text": 0, "shape": 1}
    assert verdict.reason.count(";") == 2
    assert verifier(PROMPT, r"\boxed{3}").score == 0
    assert verifier(PROMPT, r"<think>a</think> \boxed{4}").score == 0


def test_shape_alone_earns_nothing() -> None:
    verifier = CombinedVerifier(
        {"answer": MathVerifier(), "shape": FormatVerifier(), "language": LanguagePenalty()},
        gates=["shape", "language"],
    )
    assert verifier(PROMPT, r"<think>a</think> \boxed{4}").score == 0
    assert verifier(PROMPT, r"<think></think> \boxed{3}").score == 0


def test_penalties_take_their_share_off() -> None:
    verifier = CombinedVerifier(
        {
            "answer": NumberVerifier(),
            "language": LanguagePenalty(penalty=0.5),
            "repetition": RepetitionPenalty(),
            "length": OverlongPenalty(limit=1000, buffer=100),
        },
        gates=["language", "repetition", "length"],
    )
    assert verifier(PROMPT, rf"{CHINESE} \boxed{{3}}").score == 0.5
    assert verifier(PROMPT, r"There are three apples and two pears. \boxed{3}").score == 1
    assert verifier(PROMPT, "wait " * 300 + r"\boxed{3}").score == 0


def test_parts_of_parts_and_status() -> None:
    box = CombinedVerifier({"box": BoxVerifier(), "text": TextVerifier(form="whole")})
    verdict = box(Prompt(reference="[0, 0, 10, 10]"), "[0, 0, 10, 10]")
    assert verdict.score == 1
    assert verdict.parts["box/iou"] == 1
    assert box(Prompt(reference="[0, 0, 10, 10]"), "nothing").status == "no_answer"
    unusable = box(Prompt(reference="cat"), "cat")
    assert (unusable.score, unusable.status) == (0, "unparsable_reference")
    assert str(box.check_reference(Prompt(reference="cat"))).startswith("box: ")
    assert box.check_reference(Prompt(reference="[0, 0, 10, 10]")) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weights": {"other": 1.0}}, "other"),
        ({"gates": ["other"]}, "other"),
        ({"gates": ["answer"]}, "every part is a gate"),
        ({"weights": {"answer": 0.0}}, "must be positive"),
        ({"weights": {"answer": 1.0}, "gates": ["answer"]}, "choose one"),
    ],
)
def test_bad_arguments_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CombinedVerifier({"answer": NumberVerifier()}, **given)


def test_yaml_builds_it_and_it_can_be_sent() -> None:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--verifier", type=Verifier)
    parts = {
        "answer": {"class_path": "sapo_vl.verifiers.NumberVerifier", "init_args": {"abs_tol": 0.5}},
        "language": {"class_path": "sapo_vl.verifiers.LanguagePenalty"},
        "length": {
            "class_path": "sapo_vl.verifiers.OverlongPenalty",
            "init_args": {"limit": 100, "buffer": 10},
        },
    }
    given = {
        "class_path": "sapo_vl.verifiers.CombinedVerifier",
        "init_args": {"parts": parts, "weights": {"answer": 2.0}, "gates": ["language", "length"]},
    }
    built = parser.instantiate_classes(parser.parse_object({"verifier": given})).verifier
    assert built.parts["answer"] == NumberVerifier(abs_tol=0.5)
    copy = pickle.loads(pickle.dumps(built))
    assert copy(PROMPT, r"\boxed{3.4}").score == 1
    assert copy(PROMPT, "x" * 100 + r"\boxed{3.4}").score == 0


def test_the_question_is_read_from_the_users_messages() -> None:
    messages = (
        {"role": "system", "content": "Du bist hilfreich."},
        {
            "role": "user",
            "content": [{"type": "image"}, {"type": "text", "text": "桌子上有多少个苹果"}],
        },
    )
    prompt = Prompt(reference="3", messages=messages)
    assert LanguagePenalty()(prompt, CHINESE).score == 1
    assert LanguagePenalty()(prompt, "There are three apples on it.").score == 0
    assert LanguagePenalty()(Prompt(reference="3"), CHINESE).score == 1


def test_only_the_answer_is_looked_at_unless_asked() -> None:
    response = f"<think>{CHINESE}</think> There are three apples on it."
    assert LanguagePenalty()(PROMPT, response).score == 1
    assert LanguagePenalty(thinking=False)(PROMPT, response).score == 0
    formula = rf"The area is $\text{{{CHINESE}}}$ and we are done with it now."
    assert LanguagePenalty()(PROMPT, formula).score == 1


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (LanguagePenalty, {"penalty": 2.0}),
        (LanguagePenalty, {"max_share": -0.1}),
        (LanguagePenalty, {"min_words": 0}),
        (RepetitionPenalty, {"penalty": -1.0}),
        (RepetitionPenalty, {"ngram": 0}),
        (RepetitionPenalty, {"allowed": 1.0}),
        (OverlongPenalty, {"limit": 10, "buffer": 20}),
        (OverlongPenalty, {"unit": "tokens", "limit": 10, "buffer": 2}),
        (OverlongPenalty, {"penalty": 2.0, "limit": 10, "buffer": 2}),
    ],
)
def test_bad_numbers_are_refused(kind: type, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        kind(**given)
