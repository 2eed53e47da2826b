"""What every verifier promises."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from jsonargparse import ArgumentParser

from sapo_vl.types import Prompt, Verdict, Verifier
from sapo_vl.verifiers import FORMS, VERIFIERS

REFERENCE = {"math": r"\frac{1}{2}", "choice": "B", "number": "3", "yes_no": "no", "text": "red"}
WRONG = {"math": "2", "choice": "A", "number": "4", "yes_no": "yes", "text": "blue"}
WRAP = {
    "boxed": r"so \boxed{%s}",
    "answer_tag": "so <answer>%s</answer>",
    "answer_line": "so\nAnswer: %s",
    "whole": "%s",
}

names = pytest.mark.parametrize("name", list(VERIFIERS))


def prompt_for(name: str) -> Prompt:
    options = {"A": "one", "B": "two"} if name == "choice" else {}
    return Prompt(reference=REFERENCE[name], options=options)


def test_the_promised_names() -> None:
    assert list(VERIFIERS) == ["math", "choice", "number", "yes_no", "text"]


@names
@pytest.mark.parametrize("form", FORMS)
def test_every_form_scores_right_and_wrong(name: str, form: str) -> None:
    verifier = VERIFIERS[name](form=form)
    assert isinstance(verifier, Verifier)
    right = verifier(prompt_for(name), WRAP[form] % REFERENCE[name])
    assert right == Verdict(score=1.0, extracted=REFERENCE[name], reason=right.reason)
    assert right.reason
    wrong = verifier(prompt_for(name), WRAP[form] % WRONG[name])
    assert (wrong.score, wrong.status, wrong.extracted) == (0, "ok", WRONG[name])


@names
def test_no_answer_is_said(name: str) -> None:
    for response in ("", "no box", r"\boxed{", r"\boxed{}"):
        verdict = VERIFIERS[name]()(prompt_for(name), response)
        assert (verdict.score, verdict.status, verdict.extracted) == (0, "no_answer", None)
    boxed = rf"\boxed{{{REFERENCE[name]}}}"
    thinking = VERIFIERS[name](thinking=True)
    assert thinking(prompt_for(name), boxed).status == "no_answer"
    assert thinking(prompt_for(name), f"</think>{boxed}").score == 1


@names
def test_a_copy_through_pickle_scores_the_same(name: str) -> None:
    verifier = VERIFIERS[name](form="whole")
    copy = pickle.loads(pickle.dumps(verifier))
    assert copy == verifier
    assert copy(prompt_for(name), REFERENCE[name]).score == 1


@names
def test_references_are_checked(name: str) -> None:
    verifier = VERIFIERS[name]()
    assert verifier.check_reference(prompt_for(name)) is None
    assert verifier.check_reference(Prompt(reference=""))


@names
def test_an_unknown_form_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="form is 'box'"):
        VERIFIERS[name](form="box")


@names
def test_yaml_names_a_verifier_by_its_class(name: str) -> None:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--verifier", type=Verifier)
    kind = VERIFIERS[name]
    given: dict[str, Any] = {
        "class_path": f"{kind.__module__}.{kind.__name__}",
        "init_args": {"form": "whole", "thinking": True},
    }
    config = parser.parse_object({"verifier": given})
    assert parser.instantiate_classes(config).verifier == kind(form="whole", thinking=True)


@names
@pytest.mark.parametrize(
    "answer", ["\x00\U0001f600", "\ud800", "a " * 50_000, "((((" * 5_000, "\\" * 5_000, "$" * 5_000]
)
def test_garbage_scores_nothing(name: str, answer: str) -> None:
    for form in ("boxed", "whole"):
        response = rf"\boxed{{{answer}}}" if form == "boxed" else answer
        assert VERIFIERS[name](form=form)(prompt_for(name), response).score == 0
